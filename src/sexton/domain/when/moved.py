"""Fires that fall out of the calendars come on the next allowed day, at the same wall time."""

from collections.abc import Iterator
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from sexton.domain.when.effort import take
from sexton.domain.when.gate import Gate, Gated, ahead
from sexton.domain.when.local import instant_of, last_instant_of, wall_of
from sexton.domain.when.rule import LAST, MOMENT, Rule, Tick
from sexton.errors import InvalidSchedule

DAYS = 400
_SOON = 14
_BUCKET = 64
_A_DAY = timedelta(days=1)
# Of how many days one looks at the hours of an opening before one gives up: about a second.
MOST_LOOKS = 12_000
# So many openings of half a year and more are gone through: a window every hour, and not many more.
MOST_OPENINGS = 12_000
# Steps: to look at one day, at one of its hours.
_STEPS = 20
TOO_LONG = (
    "when: no fire is found in time that lands on another day: its calendars are never open at its "
    "times of day, or so often and so briefly that it takes too long; use fewer windows, or "
    "when_excluded='skip'"
)

Hours = tuple[time, time]
# An instant, and the one that it was moved from.
Landing = tuple[datetime, datetime | None]


class Openings:
    """Days as a gate sees them in a zone: when it is open, at which times of day it ever is."""

    __slots__ = ("_hours", "gate", "zone")

    def __init__(self, gate: Gate, zone: ZoneInfo) -> None:
        self.gate = gate
        self.zone = zone
        self._hours: dict[int, tuple[Hours, ...]] = {}

    def of(self, begins: datetime, ends: datetime) -> Iterator[tuple[datetime, datetime]]:
        """From when to when it is open, within a part of a day."""
        while begins < ends and (opens := self.gate.opens(begins, ends)) is not None:
            begins = self.gate.closes(opens, ends) or ends
            yield opens, begins

    def walls(self, opens: datetime, closes: datetime) -> tuple[datetime, datetime]:
        """First and last wall, as wide as by any reckoning if the clocks are changed between."""
        before = wall_of(opens - MOMENT, self.zone) + MOMENT
        first = min(wall_of(opens, self.zone), before)
        return first, max(wall_of(closes - MOMENT, self.zone), first + (closes - opens) - MOMENT)

    def destination(self, origin: datetime) -> datetime | None:
        """Where a refused fire goes; None: nowhere, it is closed every day at this time."""
        wall = wall_of(origin, self.zone)
        bucket = wall.toordinal() // _BUCKET
        hours = self._hours.get(bucket)
        for days in range(1, DAYS + 1):
            take(_STEPS)
            if days == _SOON and hours is None:  # not at once: mostly it is the next day
                hours = self._hours_from(bucket)
            if hours is not None and days in (1, _SOON) and not _within(wall.time(), hours):
                return None
            wanted = wall + days * _A_DAY
            at = instant_of(wanted, self.zone)
            # Not from a day that does not exist to the midnight after it.
            if self.gate.allows(at) and wall_of(at, self.zone).date() == wanted.date():
                return at
        return None

    def _hours_from(self, bucket: int) -> tuple[Hours, ...]:
        """At which times it is ever open in the months to come; rather too many than too few."""
        found = set()
        seen = 0
        day = datetime.fromordinal(bucket * _BUCKET)
        begins = instant_of(day, self.zone)
        for _ in range(_BUCKET + DAYS + 1):
            take(_STEPS)
            day += _A_DAY
            ends = instant_of(day, self.zone)
            for opens, closes in self.of(begins, ends):
                seen += 1
                if seen > MOST_OPENINGS:
                    raise InvalidSchedule(TOO_LONG)
                first, last = self.walls(opens, closes)
                whole = first.date() != last.date()
                found.add((time.min, time.max) if whole else (first.time(), last.time()))
            begins = ends
        if len(self._hours) > 100:
            self._hours.clear()
        self._hours[bucket] = hours = tuple(found)
        return hours


def _within(at: time, hours: tuple[Hours, ...]) -> bool:
    return any(first <= at <= last for first, last in hours)


class _Looks:
    """How much of the past may be looked at for one answer; without a bound it could be years."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = MOST_LOOKS

    def take(self) -> None:
        take(_STEPS)
        self._left -= 1
        if self._left < 0:
            raise InvalidSchedule(TOO_LONG)


class Moved(Rule):
    """A rule with its refused fires on the next allowed day; two that meet are one.

    Nothing is remembered, so the past must be looked at: a fire after `instant` may come from one
    before it, as long as every day between was closed at its time of day.
    """

    __slots__ = ("_gated", "ends_at", "gate", "openings", "rule", "zone")

    def __init__(self, rule: Rule, openings: Openings, ends_at: datetime | None = None) -> None:
        self.rule = rule
        self.openings = openings
        self.gate, self.zone = openings.gate, openings.zone
        self.ends_at = ends_at
        self._gated = Gated(rule, self.gate)

    def after(self, instant: datetime) -> datetime | None:
        landing = self._after(instant)
        return None if landing is None else landing[0]

    def between(self, after: datetime, until: datetime) -> Iterator[Tick]:
        own = self._gated.between(after, until)
        tick = next(own, None)
        while (landing := self._after(after)) is not None and landing[0] <= until:
            after, origin = landing
            if origin is not None:
                yield Tick(after, f"moved from {self._shown(origin)}: {self.gate.reason(origin)}")
            elif tick is not None:
                yield tick
                tick = next(own, None)

    def refused(self, after: datetime, until: datetime) -> Iterator[Tick]:
        """What falls out, with after < at <= until, why, and where it goes."""
        for tick in self._gated.refused(after, until):
            yield Tick(tick.at, f"{tick.note}: {self._whither(tick.at)}")

    def _whither(self, origin: datetime) -> str:
        to = self.openings.destination(origin)
        if to is None:
            return f"skipped, no day is allowed within {DAYS} days"
        if self.ends_at is not None and to >= self.ends_at:
            return f"skipped, {self._shown(to)} is after the schedule's end"
        return f"moved to {self._shown(to)}"

    def _after(self, instant: datetime) -> Landing | None:
        """The first of the rule's own fires, or one that lands before it."""
        nearest = self._nearest(instant)
        try:
            landing = self._landing_before(instant, self._limit(instant, nearest), _Looks())
        except InvalidSchedule:
            if nearest is None and self.rule.after(instant) is None:
                return None  # it is over, and nothing has landed lately
            raise
        landing = landing or nearest
        return None if landing is None else self._in_time(landing)

    def _limit(self, instant: datetime, nearest: Landing | None) -> datetime:
        """Nothing need be looked for from there on."""
        if nearest is not None:
            return nearest[0]
        limit = ahead(instant)
        if self.rule.after(instant) is None:  # only what is under way can still land
            limit = min(limit, instant + (DAYS + 1) * _A_DAY)
        return limit if self.ends_at is None else min(limit, self.ends_at)

    def _landing_before(
        self, instant: datetime, limit: datetime, looks: "_Looks"
    ) -> Landing | None:
        """The first fire from another day, if one lands before `limit`."""
        day = datetime.combine(wall_of(instant, self.zone), time())
        while (begins := instant_of(day, self.zone)) < limit:
            take(_STEPS)
            ends = instant_of(day + _A_DAY, self.zone)
            for opens, closes in self.openings.of(max(begins, instant + MOMENT), min(ends, limit)):
                landing = self._landing(opens, closes, looks)
                if landing is not None:
                    return landing
            day += _A_DAY
            whole = wall_of(ends - MOMENT, self.zone) + MOMENT == day
            if whole and self.gate.closes(begins, ends) is None:
                # Open all day: nothing older is under way, so nothing lands before one is refused.
                origin = self.rule.after(ends - MOMENT)
                if origin is None or origin >= limit:
                    return None
                day = max(day, datetime.combine(wall_of(origin, self.zone), time()))
        return None

    def _nearest(self, instant: datetime) -> Landing | None:
        """Where the next fire goes, or an own one before that; older ones may land earlier yet."""
        origin = self.rule.after(instant)
        if origin is None:
            return None
        if self.gate.allows(origin):
            return origin, None
        to = self.openings.destination(origin)
        own = self._gated.first(instant, LAST if to is None else to + MOMENT)
        if own is not None:
            return own, None
        return None if to is None else (to, origin)

    def _landing(self, opens: datetime, closes: datetime, looks: "_Looks") -> Landing | None:
        """The first that lands in an opening; they come from the same hours of the days before."""
        found: Landing | None = None
        first, last = self.openings.walls(opens, closes)
        for days in range(1, DAYS + 1):
            looks.take()
            early = instant_of(first - days * _A_DAY, self.zone)
            late = last_instant_of(last - days * _A_DAY, self.zone)
            for tick in self._gated.refused(early - MOMENT, late):
                looks.take()
                at = self.openings.destination(tick.at)
                if at is not None and opens <= at < (found[0] if found else closes):
                    found = at, tick.at
                    break
            existed = wall_of(late, self.zone).date() == (last - days * _A_DAY).date()
            if existed and self.gate.closes(early, late + MOMENT) is None:
                break  # open then as well: what is older has landed there
        return found

    def _in_time(self, landing: Landing) -> Landing | None:
        return None if self.ends_at is not None and landing[0] >= self.ends_at else landing

    def _shown(self, instant: datetime) -> str:
        return f"{wall_of(instant, self.zone):%Y-%m-%d %H:%M}"
