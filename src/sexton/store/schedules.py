"""Schedules: adding and changing them, triggering one, and looking at them."""

import hashlib
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import msgspec

from sexton.domain.change import Body, Change, Standing, VersionView
from sexton.domain.fires import Gap
from sexton.domain.schedule import ScheduleState, ScheduleView
from sexton.domain.spec import Spec
from sexton.domain.when.timetable import Planned
from sexton.store.source import Row
from sexton.store.statements import Statements

DEFAULT_TENANT = "default"
# Others may be making the same rule; the second look sees what they made.
_LOOKS = 10
_RULES_AT_ONCE = 2000
_NEAR = 500
_decode = msgspec.json.decode


class Schedules:
    """Statements about schedules."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements

    async def tenant(self, name: str) -> int | None:
        if name == DEFAULT_TENANT:
            return 1  # the migration makes it
        found: int | None = await self._run.value("tenant", name)
        return found

    async def clock(self) -> datetime:
        now: datetime = await self._run.value("clock", self._run.now())
        return now

    async def rules(self, texts: Sequence[str]) -> dict[str, int]:
        """The ids of rules, made if need be; some at a time, so that no statement takes long.

        All in the order in which one statement makes them: two with the same rules do not wait for
        each other in a circle.
        """
        ordered = sorted(dict.fromkeys(texts), key=_digest)
        found: dict[str, int] = {}
        for first in range(0, len(ordered), _RULES_AT_ONCE):
            found |= await self._rules(ordered[first : first + _RULES_AT_ONCE])
        return found

    async def _rules(self, texts: Sequence[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for _ in range(_LOOKS):
            missing = [text for text in texts if text not in found]
            if not missing:
                return found
            rows = await self._run.rows("rules_put", missing)
            found |= {missing[row["nth"] - 1]: row["id"] for row in rows if row["id"] is not None}
        raise AssertionError("a rule that is neither there nor can be made")

    async def hold_bulk(self, tenant: int) -> None:
        """One bulk registration at a time: two with the same names could wait for each other."""
        await self._run.rows("hold", f"bulk:{tenant}", True)

    async def hold_application(self, name: str) -> None:
        """One deployment of an application at a time."""
        await self._run.rows("hold", f"application:{name}", True)

    async def declared(self, tenant: int, application: str) -> Sequence[str]:
        """The names of those that an application declares and that are not cancelled."""
        rows = await self._run.rows("schedule_declared", tenant, application)
        return [row["name"] for row in rows]

    async def notify(self) -> None:
        """Tell the nodes that schedules have changed."""
        await self._run.rows("notify_schedules")

    # ── changing ────────────────────────────────────────────────────────────

    async def reserve(self, count: int) -> tuple[datetime, list[int]]:
        """The database's clock, and ids for new schedules."""
        row = await self._run.row("schedule_reserve", count, self._run.now())
        assert row is not None
        return row["now"], row["ids"]

    async def add(
        self,
        id: int,
        tenant: int,
        name: str,
        now: datetime,
        body: Body,
        next: Planned,
        gap: Gap | None,
    ) -> bool:
        """False: the name is taken. If there is a gap, in a transaction."""
        row = await self._run.row(
            "schedule_add", *(id, tenant, name, now), *_columns(body), *_next(next)
        )
        if row is not None and gap is not None:
            await self._excluded(now, [(id, gap)])
        return row is not None

    async def add_many(
        self,
        tenant: int,
        now: datetime,
        ids: Sequence[int],
        specs: Sequence[Spec],
        rules: Sequence[int],
        anchors: Sequence[float],
        next_at: Sequence[float],
        scheduled_at: Sequence[float | None],
        gaps: Sequence[tuple[int, Gap]],
    ) -> None:
        """Many new ones; asyncpg.UniqueViolationError if a name is taken."""
        terms = [spec.terms for spec in specs]
        await self._run.rows(
            "schedule_add_many",
            *(tenant, now, ids, [spec.name for spec in specs], rules, anchors),
            [spec.task for spec in specs],
            [spec.payload for spec in specs],
            [each.queue for each in terms],
            [each.priority for each in terms],
            [None if each.tags is None else _json(each.tags) for each in terms],
            [each.expires_in for each in terms],
            [each.max_fires for each in terms],
            [each.said for each in terms],
            *(next_at, scheduled_at),
        )
        if gaps:
            await self._excluded(now, gaps)

    async def _excluded(self, now: datetime, gaps: Sequence[tuple[int, Gap]]) -> None:
        await self._run.rows(
            "schedule_excluded",
            now,
            [id for id, _ in gaps],
            [gap.first for _, gap in gaps],
            [gap.last for _, gap in gaps],
            [gap.fires for _, gap in gaps],
        )

    async def standing(self, tenant: int, name: str) -> Standing | None:
        return (await self.standings(tenant, [name])).get(name)

    async def standings(self, tenant: int, names: Sequence[str]) -> dict[str, Standing]:
        """Those that exist, as they are at this moment."""
        rows = await self._run.rows("schedule_read", tenant, names, self._run.now())
        return {row["name"]: _standing(row) for row in rows}

    async def hold(self, tenant: int, name: str) -> ScheduleView | None:
        """As it is, and as it stays until the end of the transaction."""
        row = await self._run.row("schedule_hold", tenant, name)
        return None if row is None else _view(row)

    async def change(self, standing: Standing, change: Change) -> bool:
        """Make it the next version; False: something has happened since it was read."""
        passed = change.passed
        if passed is not None:
            await self._make_bucket(passed.fire_at.date())
        row = await self._run.row(
            "schedule_change",
            *(standing.id, standing.version, standing.stamp, standing.next_fire_at, standing.now),
            *(change.verb, change.state, change.reason, change.until),
            *_columns(change.body),
            *((None, None) if change.next is None else _next(change.next)),
            change.fires_left,
            *((None, None) if passed is None else (passed.fire_at, passed.scheduled_at)),
            change.passed_as,
            [gap.first for gap in change.gaps],
            [gap.last for gap in change.gaps],
            [gap.fires for gap in change.gaps],
            [gap.decision for gap in change.gaps],
        )
        return row is not None

    async def _make_bucket(self, day: date) -> None:
        await self._run.rows("make_fire_buckets", day, day)

    async def trigger(self, tenant: int, name: str, payload: str | None) -> int | None:
        """The id of the job; None: there is no such schedule, or it is cancelled."""
        rows = await self._run.into_history(
            "schedule_trigger", tenant, name, payload, self._run.now()
        )
        return rows[0]["id"] if rows else None

    async def resumable(self, limit: int) -> Sequence[tuple[int, str]]:
        """Tenants and names of those whose pause is over."""
        rows = await self._run.rows("schedule_resumable", limit, self._run.now())
        return [(row["tenant_id"], row["name"]) for row in rows]

    # ── looking ─────────────────────────────────────────────────────────────

    async def get(self, tenant: int, name: str) -> ScheduleView | None:
        row = await self._run.row("schedule", tenant, name)
        return None if row is None else _view(row)

    async def near(self, tenant: int, name: str) -> Sequence[str]:
        """Names that somebody who wrote this one may have meant."""
        rows = await self._run.rows("schedule_near", tenant, name, _NEAR)
        return [row["name"] for row in rows]

    async def list(
        self,
        tenant: int,
        *,
        state: str | None = None,
        tag: str | None = None,
        task: str | None = None,
        text: str | None = None,
        after: str | None = None,
        limit: int,
    ) -> list[ScheduleView]:
        rows = await self._run.rows("schedules", tenant, state, tag, task, text, after, limit)
        return [_view(row) for row in rows]

    async def page(
        self,
        tenant: int,
        *,
        states: Sequence[ScheduleState],
        tag: str | None = None,
        target: str | None = None,
        text: str | None = None,
        after: str | None = None,
        limit: int,
        look_at: int,
    ) -> tuple[Sequence[ScheduleView], str | None]:
        """By name; the name that was reached if so many were looked at and fewer fitted."""
        rows = await self._run.rows(
            "schedules_page", tenant, states, tag, target, text, after, limit, look_at
        )
        found = [{**row} for row in rows]
        reached = [row.pop("reached") for row in found]
        return [_view(row) for row in found if row["id"] is not None], reached[0]

    async def versions(self, tenant: int, name: str) -> Sequence[VersionView]:
        """Newest first; none if there is no such schedule."""
        return [*map(_version, await self._run.rows("schedule_versions", tenant, name))]

    async def versions_page(self, schedule: int, before: int, limit: int) -> Sequence[VersionView]:
        """Newest first, before a version."""
        rows = await self._run.rows("schedule_versions_page", schedule, before, limit)
        return [*map(_version, rows)]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _columns(body: Body) -> tuple[Any, ...]:
    """A version's columns, in the order of both statements that write them."""
    return (
        *(body.rule_id, body.anchor, body.task, body.payload, body.queue, body.priority),
        *(body.tags, body.expires_in, body.max_fires, body.said, body.declared_by),
    )


def _next(planned: Planned) -> tuple[datetime, datetime | None]:
    """With its jitter, and without if that is another instant."""
    same = planned.fire_at == planned.scheduled_at
    return planned.fire_at, None if same else planned.scheduled_at


def _standing(row: Row) -> Standing:
    return Standing(
        row["id"],
        row["version"],
        row["since"],
        row["state"],
        row["reason"],
        row["until"],
        Body(
            *(row["rule_id"], row["anchor"], row["task"], row["payload"], row["queue"]),
            *(row["priority"], None if row["tags"] is None else tuple(row["tags"])),
            *(row["expires_in"], row["max_fires"], row["said"], row["declared_by"]),
        ),
        row["stamp"],
        row["next_fire_at"],
        row["scheduled_at"],
        row["fires_left"],
        row["rule_text"],
        row["now"],
    )


def _version(row: Row) -> VersionView:
    return VersionView(
        *(row["version"], row["since"], row["until"], row["state"], row["reason"]),
        *(row["task"], _decode(row["payload"]), _decode(row["said"])),
        *(row["anchor"], row["ended_by"]),
    )


def _view(row: Row) -> ScheduleView:
    return ScheduleView(
        **{
            **row,
            "payload": _decode(row["payload"]),
            "tags": tuple(row["tags"] or ()),
            "said": _decode(row["said"]),
        }
    )


def _digest(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
