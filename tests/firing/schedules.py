"""Schedules, written to the database the way the verbs write them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from sexton.domain.policy import Policy
from sexton.domain.schedule import RuleText
from sexton.domain.when import Calendar, Definition

ADD = """
with rule as (
    insert into sexton.rule (definition) values ($1)
    on conflict (md5(definition)) do update set definition = excluded.definition
    returning id
),
made as (
    insert into sexton.schedule (
        id, tenant_id, name, since, created_at, rule_id, anchor, task, payload, queue, priority,
        max_fires, said)
    select each.id, $2, 'schedule ' || each.id, $3, $3, rule.id, $3, $4, $5::text::json, $6, $7, $8,
        '{}'
    from rule
    cross join (
        select nextval('sexton.schedule_id') as id from generate_series(1, $9::integer)
    ) as each
    returning id, tenant_id, rule_id, anchor, max_fires
),
due as (
    insert into sexton.due (
        schedule_id, next_fire_at, scheduled_at, anchor, rule_id, tenant_id, fires_left, partition)
    select id, $10, $11, anchor, rule_id, tenant_id, max_fires, coalesce($12, id % 256)
    from made
    returning schedule_id
)
select schedule_id, pg_notify('sexton.wake', 'schedule')::text from due order by schedule_id
"""
CALENDAR = """
insert into sexton.calendar (name, since, definition) values ($1, now(), $2) returning version
"""


class Source(Protocol):
    """A connection, or a line of the store's."""

    async def fetch(self, query: str, *args: Any) -> Any: ...


async def add(
    source: Source,
    first: datetime,
    *,
    count: int = 1,
    when: Mapping[str, Any] | str = "* * * * * *",
    policy: Mapping[str, Any] | None = None,
    text: str | None = None,
    scheduled: datetime | None = None,
    anchor: datetime | None = None,
    task: str = "t",
    payload: str = "{}",
    queue: str | None = None,
    priority: int | None = None,
    max_fires: int | None = None,
    tenant: int = 1,
    partition: int | None = None,
    versions: Mapping[str, int] | None = None,
) -> list[int]:
    """So many equal schedules, next due at `first`; `text` is a rule that nobody has checked."""
    if text is None:
        given = {"cron": when} if isinstance(when, str) else when
        definition = Definition.of(**given).pinned(versions or {})
        text = RuleText(definition, Policy.of(**(policy or {}))).to_json()
    rows = await source.fetch(
        ADD,
        *(text, tenant, anchor or first, task, payload, queue, priority, max_fires, count),
        *(first, scheduled, partition),
    )
    return [row["schedule_id"] for row in rows]


async def add_calendar(source: Source, name: str, text: str | None = None, **given: Any) -> int:
    """The version of a new calendar."""
    definition = Calendar.of(**given).to_json() if text is None else text
    version: int = (await source.fetch(CALENDAR, name, definition))[0][0]
    return version


async def tenants(source: Source, *names: str) -> Sequence[int]:
    rows = await source.fetch(
        "insert into sexton.tenant (name) select unnest($1::text[]) returning id", list(names)
    )
    return [row["id"] for row in rows]
