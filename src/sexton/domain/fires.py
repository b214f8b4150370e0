"""What follows from a fire that is due, or from many that were missed. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sexton.domain.schedule import Decided, Rule
from sexton.domain.when.timetable import Timetable

# Later than this, a fire is a misfire. Less is an ordinary delay, a failover for example.
LATE_AFTER = 10.0
COUNT_TO = 1000
_MOMENT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Gap:
    """Fires that are passed over together; `fires` is None if they are too many to count."""

    first: datetime
    last: datetime
    fires: int | None
    decision: Decided


@dataclass(frozen=True, slots=True)
class CatchUp:
    """What becomes of a schedule that is behind: which fire to make, and where to go on."""

    fire: datetime | None
    next: datetime | None
    gaps: tuple[Gap, ...]


def excluded_between(
    timetable: Timetable, scheduled: datetime, following: datetime | None, anchor: datetime
) -> Gap | None:
    """What the calendars took out between two fires."""
    if following is None:
        return None
    first = last = None
    fires = 0
    for tick in timetable.excluded(scheduled, following, anchor):
        first = first or tick.at
        last = tick.at
        fires += 1
        if fires > COUNT_TO:
            return Gap(first, following - _MOMENT, None, "excluded")
    return None if first is None or last is None else Gap(first, last, fires, "excluded")


def catch_up(rule: Rule, scheduled: datetime, now: datetime, anchor: datetime) -> CatchUp:
    """The misfire policy for a schedule whose fire of `scheduled` is late.

    Instants are those of the rule, without jitter: what may still be on its way is left alone.
    """
    timetable = rule.timetable
    fire, last, gaps = _made_up(rule, scheduled, now, anchor)
    following = timetable.after(last, anchor)
    if timetable.has_calendars:
        out = excluded_between(timetable, scheduled, following, anchor)
        gaps = gaps if out is None else (*gaps, out)
    return CatchUp(fire, following, gaps)


def _made_up(
    rule: Rule, scheduled: datetime, now: datetime, anchor: datetime
) -> tuple[datetime | None, datetime, tuple[Gap, ...]]:
    """The fire to make, if any; the last that is decided with it; and what is passed over."""
    timetable, policy = rule.timetable, rule.policy
    until = now - timedelta(seconds=timetable.definition.jitter)
    oldest = now - timedelta(seconds=policy.grace)
    if scheduled > until:
        return scheduled, scheduled, ()
    latest = latest_until(timetable, until, scheduled, anchor)
    if policy.misfire == "skip" or latest < oldest:
        return None, latest, (_gap(timetable, scheduled, latest, "missed", anchor),)
    gaps: list[Gap] = []
    first = scheduled
    if scheduled < oldest:
        found = timetable.after(oldest - _MOMENT, anchor)
        assert found is not None  # the latest is one
        first = found
        before = latest_until(timetable, oldest - _MOMENT, scheduled, anchor)
        gaps.append(_gap(timetable, scheduled, before, "missed", anchor))
    if policy.misfire == "all":
        return first, first, tuple(gaps)
    if first < latest:
        before = latest_until(timetable, latest - _MOMENT, first, anchor)
        gaps.append(_gap(timetable, first, before, "coalesced", anchor))
    return latest, latest, tuple(gaps)


def latest_until(
    timetable: Timetable, until: datetime, known: datetime, anchor: datetime
) -> datetime:
    """The last instant of the timetable that is not after `until`; `known` is one of them.

    Looked for by halves: years of seconds cost no more than a few dozen questions.
    """
    found, none_after = known, until
    while (following := timetable.after(found, anchor)) is not None and following <= until:
        found = following
        middle = found + (none_after - found) / 2
        later = timetable.after(middle, anchor)
        if later is not None and later <= until:
            found = later
        else:
            none_after = middle
    return found


def _gap(
    timetable: Timetable, first: datetime, last: datetime, decision: Decided, anchor: datetime
) -> Gap:
    fires = timetable.count(first - _MOMENT, last, anchor, cap=COUNT_TO + 1)
    return Gap(first, last, fires if fires <= COUNT_TO else None, decision)
