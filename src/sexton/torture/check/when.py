"""Which instants a rule has: by trying each, in the rule's own time zone.

Nothing here was compiled by the engine. Instants are µs since 1970.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from hashlib import blake2b
from zoneinfo import ZoneInfo

from sexton.torture.check.folder import SECOND

MINUTE = 60 * SECOND
Ranges = Sequence[Sequence[int]]
Calendars = Mapping[tuple[str, str], Ranges]  # by tenant and name
Pins = Mapping[tuple[int, str], Ranges]  # the same, by the tenant's number


@dataclass(frozen=True, slots=True)
class Cron:
    """Readings of a clock on the wall; None is any value."""

    zone: str
    seconds: frozenset[int]
    minutes: frozenset[int] | None
    hours: frozenset[int] | None
    days: frozenset[int] | None
    months: frozenset[int] | None
    weekdays: frozenset[int] | None
    either: bool = False  # one of day and weekday is enough

    def has(self, at: int) -> bool:
        seconds, rest = divmod(at, SECOND)
        minute, second = divmod(seconds, 60)
        return rest == 0 and second in self.seconds and self._has_minute(minute)

    def between(self, after: int, until: int) -> Iterable[int]:
        wanted = sorted(self.seconds)
        for minute in range(after // MINUTE, until // MINUTE + 1):
            if self._has_minute(minute):
                for second in wanted:
                    at = minute * MINUTE + second * SECOND
                    if after < at <= until:
                        yield at

    def _has_minute(self, minute: int) -> bool:
        """Zones are whole minutes away from UTC, so a second is the same everywhere."""
        reading = _reading(self.zone, minute)
        m, h, day, month, weekday = reading
        if (
            (self.minutes is not None and m not in self.minutes)
            or (self.hours is not None and h not in self.hours)
            or (self.months is not None and month not in self.months)
        ):
            return False
        on_day = self.days is None or day in self.days
        on_weekday = self.weekdays is None or weekday in self.weekdays
        return on_day or on_weekday if self.either else on_day and on_weekday


@dataclass(frozen=True, slots=True)
class Every:
    """A grid through an anchor."""

    length: int
    anchor: int

    def has(self, at: int) -> bool:
        return (at - self.anchor) % self.length == 0

    def between(self, after: int, until: int) -> Iterable[int]:
        first = after + self.length - (after - self.anchor) % self.length
        return range(first, until + 1, self.length)


@dataclass(frozen=True, slots=True)
class Once:
    """One instant."""

    at: int

    def has(self, at: int) -> bool:
        return at == self.at

    def between(self, after: int, until: int) -> Iterable[int]:
        return (self.at,) if after < self.at <= until else ()


@dataclass(frozen=True, slots=True)
class Rule:
    """When a schedule fires: any of its clauses, within its bounds and calendars; then jitter."""

    clauses: tuple[Cron | Every | Once, ...]
    starts: int | None = None
    ends: int | None = None
    exclude: tuple[Ranges, ...] = ()
    only: tuple[Ranges, ...] = ()
    jitter: int = 0
    jitter_kind: str = "random"

    def has(self, at: int) -> bool:
        """Whether this is one of its instants, without jitter."""
        return any(each.has(at) for each in self.clauses) and self._allows(at)

    def between(self, after: int, until: int) -> list[int]:
        """Its instants after one, up to another."""
        if until <= after:
            return []
        if len(self.clauses) == 1:
            found = [*self.clauses[0].between(after, until)]
        else:
            found = sorted({at for each in self.clauses for at in each.between(after, until)})
        if self.starts is None and self.ends is None and not self.exclude and not self.only:
            return found
        return [at for at in found if self._allows(at)]

    def excluded(self, after: int, until: int) -> list[int]:
        """What its calendars take out of that time."""
        if not self.exclude and not self.only:
            return []
        without = Rule(self.clauses, self.starts, self.ends)
        return [at for at in without.between(after, until) if not self._allows(at)]

    def fires_at(self, seed: int, at: int) -> int:
        """When the fire of an instant happens: some time later, which follows from both."""
        room, salt = self.jitter, 0
        if not room:
            return at
        if self.jitter_kind == "random":
            salt = at
            following = self.between(at, at + room)
            room = min([room, *(each - at for each in following)])
        digest = blake2b(f"{seed}:{salt}".encode(), digest_size=8).digest()
        return at + (int.from_bytes(digest, "big") * room >> 64)

    def _allows(self, at: int) -> bool:
        if (self.starts is not None and at < self.starts) or (
            self.ends is not None and at >= self.ends
        ):
            return False
        if any(_within(ranges, at) for ranges in self.exclude):
            return False
        return not self.only or any(_within(ranges, at) for ranges in self.only)


def _within(ranges: Ranges, at: int) -> bool:
    nth = bisect_right(ranges, at, key=lambda each: each[0]) - 1
    return any(first <= at < before for first, before in ranges[max(0, nth - 3) : nth + 1])


@cache
def _reading(zone: str, minute: int) -> tuple[int, int, int, int, int]:
    at = datetime.fromtimestamp(minute * 60, _zone(zone))
    return at.minute, at.hour, at.day, at.month, at.isoweekday() % 7


@cache
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)
