"""Which fires the versions of a schedule promise, within a slice of time.

Instants are microseconds since 1970: an audit goes through millions of them.
"""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from sexton.domain.when.jitter import jittered
from sexton.domain.when.timetable import Timetable

SECOND = 1_000_000
DAY = 86_400 * SECOND
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOMENT = timedelta(microseconds=1)
_KEEP = 500_000


def micros(instant: datetime) -> int:
    return (instant - _EPOCH) // _MOMENT


def instant(at: int) -> datetime:
    return _EPOCH + timedelta(microseconds=at)


class Version(NamedTuple):
    """What a schedule said from `since` to `until`, as far as its fires follow from it."""

    schedule: int
    since: int
    until: int | None  # None: it still does
    state: str
    rule: int
    anchor: int
    stops: int | None  # its last fire, if that was all it was allowed, or if it broke
    next_fire: int | None  # where the schedule stands; None: it does not fire by itself
    late: bool  # found late, and being caught up
    broke: bool = False  # it ended in quarantine
    lost: int = 0  # fires after `stops` that it had made as well

    @property
    def fires(self) -> bool:
        """One that has ended promised fires before; other states promise none."""
        return self.state in ("active", "ended")


def with_lost(version: Version, timetable: Timetable) -> Version:
    """With the fires that it had made and nobody wrote down, or whose lines are gone."""
    if version.stops is None or version.lost < 1:
        return version
    anchor, stops = instant(version.anchor), version.stops
    at: datetime | None = instant(stops)
    if at is not None and timetable.definition.jitter_kind == "fixed":
        at -= timetable.fire_at(at, anchor, version.schedule) - at
    for _ in range(version.lost):
        at = None if at is None else timetable.after(at, anchor)
        if at is None:
            break
        stops = micros(timetable.fire_at(at, anchor, version.schedule))
    return version._replace(stops=stops)


class Promised(NamedTuple):
    """Fires in order: when each was to happen, and the instant that it stands for."""

    fires: Sequence[int]
    scheduled: Sequence[int]

    def then(self, other: "Promised") -> "Promised":
        """These, and those of a later version."""
        return Promised([*self.fires, *other.fires], [*self.scheduled, *other.scheduled])


NOTHING = Promised((), ())


class Slice:
    """A stretch of time, half open; each rule is computed once for all schedules that have it."""

    def __init__(self, begins: int, ends: int) -> None:
        self.begins = begins
        self.ends = ends
        self._ticks: dict[tuple[int, int], list[int]] = {}
        self._spread: dict[tuple[int, int], list[datetime | None]] = {}
        self._kept = 0

    def promised(self, version: Version, timetable: Timetable) -> Promised:
        """The fires within this slice that a version promises.

        It speaks for the instants after its beginning, and for the fires up to its end: one whose
        jitter takes it beyond the end is nobody's.
        """
        if timetable.has_jitter:
            return self._promised_with_jitter(version, timetable)
        ticks = self._of(version, timetable)
        first = bisect_right(ticks, version.since) if version.since >= self.begins else 0
        last = _last(version)
        end = len(ticks) if last is None else bisect_right(ticks, last)
        if first or end < len(ticks):
            ticks = ticks[first:end]
        return Promised(ticks, ticks)

    def _promised_with_jitter(self, version: Version, timetable: Timetable) -> Promised:
        jitter, kind = timetable.definition.jitter, timetable.definition.jitter_kind
        since, last = instant(version.since), _last(version)
        fires: list[int] = []
        scheduled: list[int] = []
        for at, following in pairwise(self._spread_of(version, timetable)):
            assert at is not None, "only the last one has none after it"
            if at <= since:
                continue
            fire = micros(jittered(version.schedule, at, following, jitter, kind))
            if fire >= self.ends or (last is not None and fire > last):
                break
            if fire >= self.begins:
                fires.append(fire)
                scheduled.append(micros(at))
        return Promised(fires, scheduled)

    def _of(self, version: Version, timetable: Timetable) -> list[int]:
        key = (version.rule, version.anchor if timetable.needs_anchor else 0)
        if key not in self._ticks:
            found = []
            rule = timetable.rule(instant(version.anchor))
            end = instant(self.ends)
            at = rule.after(instant(self.begins - 1))
            while at is not None and at < end:
                found.append(micros(at))
                at = rule.after(at)
            self._room_for(len(found))
            self._ticks[key] = found
        return self._ticks[key]

    def _spread_of(self, version: Version, timetable: Timetable) -> list[datetime | None]:
        """The same before any jitter, from further back; with the one after them, or None."""
        key = (version.rule, version.anchor if timetable.needs_anchor else 0)
        if key not in self._spread:
            rule = timetable.rule(instant(version.anchor))
            begins = self.begins - round(timetable.definition.jitter * SECOND)
            end = instant(self.ends)
            found = [rule.after(instant(begins - 1))]
            while (at := found[-1]) is not None and at < end:
                found.append(rule.after(at))
            self._room_for(len(found))
            self._spread[key] = found
        return self._spread[key]

    def _room_for(self, many: int) -> None:
        self._kept += many
        if self._kept > _KEEP:
            self._ticks.clear()
            self._spread.clear()
            self._kept = many


def slices(begins: int, ends: int) -> list[tuple[int, int]]:
    """Day by day, as the ledger is kept: however long the whole is, no more is held at once."""
    edges = [begins, *range(begins - begins % DAY + DAY, ends, DAY), ends]
    return list(pairwise(edges)) if begins < ends else []


def _last(version: Version) -> int | None:
    """The last instant at which it may fire."""
    if version.until is None or version.stops is None:
        return version.stops if version.until is None else version.until
    return min(version.until, version.stops)
