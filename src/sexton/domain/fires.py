"""What follows from a fire that is due, or from many that were missed. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from sexton.domain.schedule import Decided, Rule
from sexton.domain.when.interval import Interval
from sexton.domain.when.rule import MOMENT
from sexton.domain.when.timetable import Timetable
from sexton.domain.when.union import Bounded
from sexton.domain.when.zone import EPOCH

# Later than this, a fire is a misfire. Less is an ordinary delay, a failover for example.
LATE_AFTER = 10.0
COUNT_TO = 1000
# So many are counted where nobody waits for the figure, and many schedules for the answer.
FEW = 100
# And so many where each must be held against the calendars.
A_GLANCE = 20


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
    """What the calendars took out between two instants, the first and the last of it.

    One by one, and only as far as `A_GLANCE`: after an outage thousands of schedules ask at once.
    """
    if following is None:
        return None
    first = last = None
    fires = 0
    for tick in timetable.excluded(scheduled, following, anchor):
        first = first or tick.at
        last = tick.at
        fires += 1
        if fires > A_GLANCE:
            return Gap(first, following - MOMENT, None, "excluded")
    return None if first is None or last is None else Gap(first, last, fires, "excluded")


def closed_between(
    timetable: Timetable, scheduled: datetime, following: datetime | None, anchor: datetime
) -> Gap | None:
    """The same between a fire and the very next one: all that its rule has there was taken out.

    So no calendar need be asked, and intervals are counted without going through them.
    """
    if following is None:
        return None
    rule = timetable.ungated(anchor)
    first = rule.after(scheduled)
    if first is None or first >= following:
        return None
    grid = rule.rule if isinstance(rule, Bounded) else rule
    if isinstance(grid, Interval):
        last = grid.before(following)
        return Gap(first, last, grid.count(first - MOMENT, last), "excluded")
    last, fires = first, 1
    while (at := rule.after(last)) is not None and at < following:
        if fires == FEW:
            return Gap(first, following - MOMENT, None, "excluded")
        last, fires = at, fires + 1
    return Gap(first, last, fires, "excluded")


def catch_up(
    rule: Rule, scheduled: datetime, now: datetime, anchor: datetime, seed: int = 0
) -> CatchUp:
    """The misfire policy for a schedule whose fire of `scheduled` is late.

    How late a fire is counts from its own instant, with the jitter that `seed` gives it. What the
    answer names are instants of the rule, without jitter.
    """
    timetable = rule.timetable
    fire, last, gaps = _made_up(rule, scheduled, now, anchor, seed)
    following = timetable.after(last, anchor)
    if timetable.has_calendars:
        out = excluded_between(timetable, scheduled, following, anchor)
        gaps = gaps if out is None else (*gaps, out)
    return CatchUp(fire, following, gaps)


def _made_up(
    rule: Rule, scheduled: datetime, now: datetime, anchor: datetime, seed: int
) -> tuple[datetime | None, datetime, tuple[Gap, ...]]:
    """The fire to make, if any; the last that is decided with it; and what is passed over."""
    timetable, policy = rule.timetable, rule.policy
    oldest = now - timedelta(seconds=policy.grace)

    def is_over(at: datetime) -> bool:
        return timetable.fire_at(at, anchor, seed) < oldest

    latest = latest_due(timetable, now, scheduled, anchor, seed)
    if policy.misfire == "skip" or is_over(latest):
        return None, latest, (gap_of(timetable, scheduled, latest, "missed", anchor),)
    gaps: list[Gap] = []
    first = scheduled
    if is_over(scheduled):
        before = latest_due(timetable, oldest - MOMENT, scheduled, anchor, seed)
        found = timetable.after(before, anchor)
        assert found is not None  # the latest is one
        first = found
        gaps.append(gap_of(timetable, scheduled, before, "missed", anchor))
    if policy.misfire == "all":
        return first, first, tuple(gaps)
    if first < latest:
        before = latest_until(timetable, latest - MOMENT, first, anchor)
        gaps.append(gap_of(timetable, first, before, "coalesced", anchor))
    return latest, latest, tuple(gaps)


def latest_due(
    timetable: Timetable, until: datetime, known: datetime, anchor: datetime, seed: int
) -> datetime:
    """The last instant of the timetable whose fire, with its jitter, is not after `until`.

    Jitter keeps the order of fires: a fixed one moves all alike, and a random one leaves each
    before the next instant, so that only the last can be beyond.
    """
    if not timetable.has_jitter:
        return latest_until(timetable, until, known, anchor)
    if timetable.definition.jitter_kind == "fixed":
        delay = timetable.fire_at(known, anchor, seed) - known
        return latest_until(timetable, until - delay, known, anchor)
    found = latest_until(timetable, until, known, anchor)
    if found == known or timetable.fire_at(found, anchor, seed) <= until:
        return found
    return latest_until(timetable, found - MOMENT, known, anchor)


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


def gap_of(
    timetable: Timetable, first: datetime, last: datetime, decision: Decided, anchor: datetime
) -> Gap:
    """From one fire to another, with how many that are, if it can be said quickly."""
    most = FEW if timetable.has_calendars else COUNT_TO
    fires = _count(timetable, first, last, anchor if timetable.needs_anchor else EPOCH, most + 1)
    return Gap(first, last, fires if fires <= most else None, decision)


@lru_cache(maxsize=1024)
def _count(
    timetable: Timetable, first: datetime, last: datetime, anchor: datetime, cap: int
) -> int:
    """Kept, because after an outage many schedules missed the same fires."""
    return timetable.count(first - MOMENT, last, anchor, cap=cap)
