"""A change that is made, looked at and undone: what it would do is what it does."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from fastapi import Response

from sexton.api import tellings
from sexton.api.call import Answer, Call
from sexton.api.desk import Desk
from sexton.api.foresee import upcoming
from sexton.api.models.schedules import PlanIn
from sexton.api.schedule import (
    become,
    changed_spec,
    demand_match,
    demand_state,
    find,
    hold,
    hold_calendars,
    standing_of,
    told,
    verbs,
)
from sexton.domain.plan import differences
from sexton.domain.when.timetable import Planned

# What follows from any change, and is not part of what a schedule says.
_FOLLOWS = ("version", "since", "next_fire_at", "last_fire_at", "late", "state", "reason", "until")


class _Undone(Exception):
    """Carries the answer out of a transaction that is not to be."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer


async def plan(call: Call, name: str, body: PlanIn, if_match: str | None) -> Response:
    async def work(desk: Desk) -> Answer:
        raise _Undone(await _planned(desk, name, body, if_match))

    try:
        return await call.change(work)
    except _Undone as undone:
        return undone.answer.response()


async def _planned(desk: Desk, name: str, body: PlanIn, if_match: str | None) -> Answer:
    before = await find(desk, name)
    await hold_calendars(desk, before.said.keys() | body.model_fields_set)
    before = await hold(desk, name)
    demand_match(before, if_match)
    demand_state(before, "cancelled")
    standing = await standing_of(desk, name)
    fires_before = await _fires(desk, name, standing.now, body.count)
    spec = await changed_spec(desk, before, standing, body)
    after = await become(desk, before, standing, spec)
    fires_after = await _fires(desk, name, standing.now, body.count)
    said = [
        {field: value for field, value in (await told(desk, view)).items() if field not in _FOLLOWS}
        for view in (before, after)
    ]
    gone, new = compared(fires_before, fires_after, body.count)
    return Answer(
        {
            "changes": differences(*said),
            "before": [*map(tellings.planned, fires_before)],
            "after": [*map(tellings.planned, fires_after)],
            "gone": gone,
            "new": new,
        }
    )


async def _fires(desk: Desk, name: str, now: datetime, count: int) -> list[Planned]:
    """None of one that does not fire by itself."""
    standing = await standing_of(desk, name)
    rule = await verbs(desk).rule(standing) if standing.state == "active" else None
    if rule is None:
        return []
    return await upcoming(rule.timetable, now, count, standing.body.anchor, standing.id)


def compared(
    before: Sequence[Planned], after: Sequence[Planned], count: int
) -> tuple[list[datetime], list[datetime]]:
    """Which fires go and which come, as far as both lists are whole."""
    ends = [fires[-1].fire_at for fires in (before, after) if len(fires) == count]
    horizon = min(ends, default=None)

    def within(fires: Sequence[Planned]) -> list[datetime]:
        return [each.fire_at for each in fires if horizon is None or each.fire_at <= horizon]

    old, new = within(before), within(after)
    stay: set[Any] = {*old} & {*new}
    return [at for at in old if at not in stay], [at for at in new if at not in stay]
