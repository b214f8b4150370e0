"""What a change makes of a schedule: its next fire, and what becomes of those that were due."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sexton.domain.fires import Gap, closed_between, excluded_between, gap_of, latest_until
from sexton.domain.schedule import Decided, Rule, ScheduleState
from sexton.domain.when.rule import MOMENT
from sexton.domain.when.timetable import Planned, Timetable
from sexton.errors import InvalidSchedule

OVER = "it has no more fires"
NEVER = (
    "when: it never fires: no instant after now is left by its rule, its bounds and its calendars"
)


@dataclass(frozen=True, slots=True)
class Body:
    """What one version of a schedule says."""

    rule_id: int
    anchor: datetime
    task: str
    payload: str
    queue: str | None
    priority: int | None
    tags: tuple[str, ...] | None
    expires_in: float | None
    max_fires: int | None
    said: str
    declared_by: str | None


@dataclass(frozen=True, slots=True)
class Standing:
    """A schedule as it was read, at `now`; `next_fire_at` None: it will not fire by itself."""

    id: int
    version: int
    since: datetime
    state: ScheduleState
    reason: str | None
    until: datetime | None
    body: Body
    stamp: int
    next_fire_at: datetime | None
    scheduled_at: datetime | None
    fires_left: int | None
    rule_text: str
    now: datetime

    @property
    def scheduled(self) -> datetime | None:
        """The next fire without its jitter."""
        return self.scheduled_at or self.next_fire_at


@dataclass(frozen=True, slots=True)
class VersionView:
    """A version of a schedule, as anyone may look at it; `until` None: it is in effect."""

    version: int
    since: datetime
    until: datetime | None
    state: ScheduleState
    reason: str | None
    task: str
    payload: dict[str, Any]
    said: dict[str, Any]
    anchor: datetime
    ended_by: str | None


@dataclass(frozen=True, slots=True)
class Change:
    """The version that follows, and the decisions about fires that come with it."""

    verb: str
    body: Body
    state: ScheduleState
    reason: str | None = None
    until: datetime | None = None
    next: Planned | None = None
    fires_left: int | None = None
    passed: Planned | None = None
    passed_as: Decided | None = None
    gaps: tuple[Gap, ...] = field(default=())


def first_fire(rule: Rule, anchor: datetime, now: datetime, seed: int) -> Planned | None:
    """The first fire that is scheduled after `now`."""
    timetable = rule.timetable
    at = timetable.after(now, anchor)
    return None if at is None else Planned(at, timetable.fire_at(at, anchor, seed))


def demand_first(rule: Rule, anchor: datetime, now: datetime, seed: int) -> Planned:
    """The same; a schedule that has none is refused."""
    planned = first_fire(rule, anchor, now, seed)
    if planned is None:
        raise InvalidSchedule(NEVER)
    return planned


def excluded_before(rule: Rule, planned: Planned, anchor: datetime, now: datetime) -> list[Gap]:
    """What the calendars take out between a change and the first fire after it."""
    if not rule.timetable.has_calendars:
        return []
    gap = closed_between(rule.timetable, now, planned.scheduled_at, anchor)
    return [] if gap is None else [gap]


def fires_left(standing: Standing, max_fires: int | None, *, demand: bool = True) -> int | None:
    """How often it may still fire: those it made already count. None left is refused, or 0."""
    if max_fires is None:
        return None
    if standing.fires_left is None or standing.body.max_fires is None:
        return max_fires
    left = standing.fires_left + max_fires - standing.body.max_fires
    if left < 1 and not demand:
        return 0
    if left < 1:
        raise InvalidSchedule(f"max_fires: it has fired {max_fires - left} times already")
    return left


def activated(
    verb: str,
    standing: Standing,
    body: Body,
    old: Rule | None,
    new: Rule,
    *,
    left: int | None,
    demand: bool = True,
) -> Change:
    """In effect from now on: the next fire is the first after now, whatever was due before."""
    now, anchor = standing.now, body.anchor
    settled = left_behind(standing, old, "superseded")
    if demand:
        planned: Planned | None = demand_first(new, anchor, now, standing.id)
    else:
        planned = first_fire(new, anchor, now, standing.id)
    if planned is None or left == 0:
        return replace(settled, verb=verb, body=body, state="ended", reason=OVER, fires_left=left)
    gaps = (*settled.gaps, *excluded_before(new, planned, anchor, now))
    return replace(
        settled, verb=verb, body=body, state="active", next=planned, fires_left=left, gaps=gaps
    )


def stopped(
    verb: str,
    standing: Standing,
    body: Body,
    old: Rule | None,
    state: ScheduleState,
    reason: str | None,
    *,
    left: int | None,
    until: datetime | None = None,
) -> Change:
    """No fires from now on; what was due and not fired yet never is."""
    settled = left_behind(standing, old, "paused" if verb == "pause" else "superseded")
    return replace(
        settled,
        verb=verb,
        body=body,
        state=state,
        reason=reason,
        until=until,
        fires_left=left,
    )


def updated(standing: Standing, body: Body, old: Rule | None, new: Rule, demand: bool) -> Change:
    """What is paused stays so, and would have to fire all the same."""
    left = fires_left(standing, body.max_fires, demand=demand)
    if standing.state != "paused":
        return activated("update", standing, body, old, new, left=left, demand=demand)
    if demand:
        demand_first(new, body.anchor, standing.now, standing.id)
    reason, until = standing.reason, standing.until
    return stopped("update", standing, body, old, "paused", reason, left=left, until=until)


def is_overdue(standing: Standing) -> bool:
    """Paused until an instant that has come."""
    return (
        standing.state == "paused" and standing.until is not None and standing.until <= standing.now
    )


def resumed(standing: Standing, rule: Rule | None) -> Change:
    """It goes on from `now`; with a rule that cannot be used it cannot."""
    body, left = standing.body, standing.fires_left
    if rule is None:
        why = "its rule cannot be used"
        return stopped("resume", standing, body, rule, "quarantined", why, left=left)
    return activated("resume", standing, body, rule, rule, left=left, demand=False)


def left_behind(standing: Standing, rule: Rule | None, decision: Decided) -> Change:
    """The decisions about what this version had scheduled until now and did not fire."""
    change = Change("", standing.body, standing.state)
    if rule is None:
        return change
    timetable, anchor, now = rule.timetable, standing.body.anchor, standing.now
    if standing.state == "paused":
        first = timetable.after(standing.since, anchor)
        if first is None or first > now:
            return change
        return replace(change, gaps=(_gap(timetable, first, now, "paused", anchor),))
    due, scheduled = standing.next_fire_at, standing.scheduled
    if due is None or scheduled is None or scheduled > now:
        return change
    excluded = _excluded(timetable, scheduled, now, anchor)
    if due > now:  # on its way, held up by its jitter
        return replace(change, gaps=(_gap(timetable, scheduled, now, decision, anchor), *excluded))
    following = timetable.after(scheduled, anchor)
    gaps = excluded
    if following is not None and following <= now:
        gaps = (_gap(timetable, following, now, decision, anchor), *excluded)
    return replace(change, passed=Planned(scheduled, due), passed_as=decision, gaps=gaps)


def _excluded(
    timetable: Timetable, scheduled: datetime, now: datetime, anchor: datetime
) -> tuple[Gap, ...]:
    """What the calendars had taken out since: the fire that was due would have said so."""
    if not timetable.has_calendars:
        return ()
    gap = excluded_between(timetable, scheduled, now + MOMENT, anchor)
    return () if gap is None else (gap,)


def _gap(
    timetable: Timetable, first: datetime, until: datetime, decision: Decided, anchor: datetime
) -> Gap:
    last = latest_until(timetable, until, first, anchor)
    return gap_of(timetable, first, last, decision, anchor)
