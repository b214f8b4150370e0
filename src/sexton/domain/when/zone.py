"""From readings of a clock on the wall to instants, over every change of the clocks.

What `dst` chooses, for 02:30 in Paris when the clocks go from 02:00 to 03:00, and when they go
back from 03:00 to 02:00:

    default, first   once at 03:00, the first instant after the gap;    the first time only
    skip             not that day;                                      the first time only
    shift            at 03:30, as much later as the gap is long;        the first time only
    both             once at 03:00;                                     both times

Several readings in one gap fire once together (or each, shifted), and one that meets a regular
fire is one with it. Patterns that are sub-hourly, `*/15 * * * *`, follow elapsed time instead,
whatever `dst` says: what does not exist does not fire, and what comes twice fires twice.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Literal
from zoneinfo import ZoneInfo, available_timezones

from sexton.domain.when.offsets import DAY, MARGIN, YEAR, Change, Gap, Spans, changes, spans_of
from sexton.domain.when.rule import Tick, Walls
from sexton.errors import InvalidSchedule, did_you_mean

Dst = Literal["default", "skip", "shift", "first", "both"]
NextWall = Callable[[int], int | None]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FACE = datetime(1970, 1, 1)  # noqa: DTZ001  (what a clock on the wall showed then)
_EARLIEST = int((datetime(3, 1, 1, tzinfo=UTC) - EPOCH).total_seconds())
_LATEST = int((datetime(9000, 1, 1, tzinfo=UTC) - EPOCH).total_seconds())
_NEVER = 1 << 62
_GAPS: dict[Dst, Gap] = {
    "default": "pin",
    "skip": "drop",
    "shift": "shift",
    "first": "pin",
    "both": "pin",
}
# Not zones: what the host calls its own, and a placeholder.
_NO_ZONES = {"localtime", "Factory"}
_SHOWN = 3  # walls in one note


@cache
def _known_zones() -> frozenset[str]:
    return frozenset(available_timezones() - _NO_ZONES)


def zone_named(name: str) -> ZoneInfo:
    """The IANA zone of this name; only names that every node knows, in their one spelling."""
    known = _known_zones()
    if isinstance(name, str) and name in known:
        return ZoneInfo(name)
    raise InvalidSchedule(f"timezone {name!r} is not known{_zone_hint(name, known)}")


def _zone_hint(name: object, known: frozenset[str]) -> str:
    if not isinstance(name, str) or not name.strip():
        return "; give a name like 'Europe/Paris' or 'UTC'"
    wanted = name.strip().lower().replace(" ", "_")
    spellings = {zone.lower(): zone for zone in sorted(known)}
    cities = {zone.rpartition("/")[2]: zone for zone in spellings}
    meant = spellings.get(wanted) or spellings.get(cities.get(wanted, ""))
    if meant:
        return f"; did you mean {meant!r}?"
    if any(sign.isdigit() for sign in name):
        return "; give the name of a place, or 'Etc/GMT-2' for two hours ahead of UTC"
    if "/" not in name and name.isupper():
        return "; abbreviations mean several things, give a place like 'Europe/Paris'"
    return did_you_mean(name.strip(), known) or "; give a name like 'Europe/Paris' or 'UTC'"


@lru_cache(maxsize=8192)
def _spans(zone: str, dst: Dst, sub_hourly: bool) -> Spans:
    """How a zone is seen: shared, and found in one step, by all schedules that see it alike."""
    if dst not in _GAPS:
        raise InvalidSchedule(f"dst {dst!r} is not known; choose one of {', '.join(_GAPS)}")
    gap: Gap = "drop" if sub_hourly else _GAPS[dst]
    return spans_of(zone_named(zone), sub_hourly or dst == "both", gap)


class Zoned:
    """A rule about walls, in a zone: instants."""

    __slots__ = ("_gap", "_next_wall", "_spans", "_twice", "dst", "walls", "zone")

    def __init__(self, walls: Walls, zone: str, dst: Dst = "default") -> None:
        self.walls = walls
        self.dst = dst
        self._spans = _spans(zone, dst, walls.sub_hourly)
        self.zone, self._twice, self._gap = self._spans.seen
        self._next_wall: NextWall | None = getattr(walls, "next_wall", None)

    def __repr__(self) -> str:
        return f"Zoned({self.walls}, {self.zone.key}, {self.dst})"

    def after(self, instant: datetime) -> datetime | None:
        """The first instant strictly after this one; None: never again."""
        passed = instant - EPOCH
        next_wall = self._next_wall or self._reader()
        at = self._search(passed.days * DAY + passed.seconds, next_wall)
        return None if at is None else EPOCH + timedelta(0, at)

    def after_epoch(self, second: int) -> int | None:
        """The same in seconds since 1970."""
        return self._search(second, self._reader())

    def between(self, after: datetime, until: datetime) -> Iterator[Tick]:
        """Every one with after < at <= until, with a note where the clocks are changed."""
        next_wall = self._reader()
        passed, rest = after - EPOCH, until - EPOCH
        previous, last = passed.days * DAY + passed.seconds, rest.days * DAY + rest.seconds
        while (at := self._search(previous, next_wall)) is not None and at <= last:
            yield Tick(EPOCH + timedelta(0, at), self._note(previous, at, next_wall))
            previous = at

    def _reader(self) -> NextWall:
        return self._next_wall or _Reader(self.walls).next_wall

    def _search(self, second: int, next_wall: NextWall) -> int | None:
        first = second + 1 if second >= _EARLIEST else _EARLIEST
        best = None
        # No wall of the pattern lies from `asked` up to `wall`: what need not be asked again.
        asked, wall = 1, 0
        year = first // YEAR
        while year * YEAR < _LATEST:
            for begins, ends, offset, low, high, pinned in self._spans[year]:
                if ends <= first:
                    continue
                if best is not None and best <= begins:
                    return best
                start = low if begins >= first else first + offset
                if not asked <= start <= wall:
                    found = next_wall(start)
                    asked, wall = start, _NEVER if found is None else found
                if wall < high:
                    at = begins if pinned else wall - offset
                    if self._gap != "shift":
                        return at
                    # Shifted fires and regular ones mix: the next span may hold an earlier one.
                    best = at if best is None else min(best, at)
            if best is not None:
                return best
            year += 1
            if asked < year * YEAR - 2 * MARGIN:  # or else clocks may yet go back before `asked`
                year = max(year, (wall - MARGIN) // YEAR)
        return None

    def _note(self, previous: int, at: int, next_wall: NextWall) -> str | None:
        """In words what the clocks did to this fire."""
        for change in changes(self.zone, at // YEAR)[1]:
            jump = change.after - change.before
            if jump < 0 and change.at + jump <= at < change.at - jump:
                return self._repeated(at, change)
            if jump > 0 and change.at <= at < change.at + jump:
                if self._gap == "pin" and at == change.at:
                    lost = _within(change, next_wall)
                elif self._gap == "shift" and next_wall(at + change.before) == at + change.before:
                    lost = [at + change.before]
                else:
                    continue
                if lost:
                    return f"{self._missing(lost)}: moved to {_face(at + change.after, lost[0])}"
        if self.dst == "skip" and not self.walls.sub_hourly:
            return self._skipped(previous, at, next_wall)
        return None

    def _repeated(self, at: int, change: Change) -> str:
        first = at < change.at
        wall = at + (change.before if first else change.after)
        if not self._twice:
            which = "fires the first time only"
        else:
            which = "this is the first time" if first else "this is the second time"
        return f"{_face(wall)} comes twice on {_date(wall)} in {self.zone.key}: {which}"

    def _skipped(self, previous: int, at: int, next_wall: NextWall) -> str | None:
        """What was dropped between the fire before and this one; nobody else would say it."""
        for year in range(max(previous // YEAR, at // YEAR - 1), at // YEAR + 1):
            for change in changes(self.zone, year)[1]:
                if previous < change.at <= at and (lost := _within(change, next_wall)):
                    return f"{self._missing(lost)}: skipped"
        return None

    def _missing(self, lost: list[int]) -> str:
        faces = ", ".join(_face(wall) for wall in lost[:_SHOWN])
        if len(lost) > _SHOWN:
            faces += ", …"
        verb = "does" if len(lost) == 1 else "do"
        return f"{faces} {verb} not exist on {_date(lost[0])} in {self.zone.key}"


def _within(change: Change, next_wall: NextWall) -> list[int]:
    """The first few walls of the pattern that this change leaves out."""
    found: list[int] = []
    wall = next_wall(change.at + change.before)
    while wall is not None and wall < change.at + change.after and len(found) <= _SHOWN:
        found.append(wall)
        wall = next_wall(wall + 1)
    return found


def _face(wall: int, beside: int | None = None) -> str:
    """What the clock shows; with the date where it is another than beside it."""
    shown = f"{wall // 3600 % 24:02}:{wall // 60 % 60:02}"
    if wall % 60:
        shown += f":{wall % 60:02}"
    return shown if beside is None or beside // DAY == wall // DAY else f"{_date(wall)} {shown}"


def _date(wall: int) -> str:
    return (_FACE + timedelta(0, wall)).date().isoformat()


class _Reader:
    """Walls that come one after another, read by number; for a single search or walk."""

    def __init__(self, walls: Walls) -> None:
        self._walls = walls
        self._asked, self._wall = 0, -_NEVER
        self._row: Iterator[datetime] = iter(())

    def next_wall(self, start: int) -> int | None:
        """The first wall from this one on. A little forward is read on, elsewhere begun anew."""
        if not self._asked <= start <= self._wall:
            if not self._wall < start <= self._wall + 3600:
                self._row = self._walls.walls(_FACE + timedelta(0, start))
            self._asked = start
            self._wall = next((wall for wall in map(_second, self._row) if wall >= start), _NEVER)
        return None if self._wall == _NEVER else self._wall


def _second(wall: datetime) -> int:
    passed = wall - _FACE
    return passed.days * DAY + passed.seconds
