"""iCalendar text: one RRULE with the lines that may stand beside it (RFC 5545)."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from functools import lru_cache

from sexton.domain.when.parts import Parts, parse_parts
from sexton.domain.when.recurrence import Recurrence
from sexton.domain.when.rule import MOMENT, Rule, Walls
from sexton.domain.when.union import Bounded, Union
from sexton.domain.when.zone import Dst, Zoned, zone_named
from sexton.errors import InvalidSchedule, did_you_mean

LONGEST = 20_000  # characters; a thousand dates
_LINES = ("DTSTART", "RRULE", "RDATE", "EXDATE")
_LINE = re.compile(r"([A-Za-z-]+)((?:;[^:;=]+=(?:\"[^\"]*\"|[^:;\"]*))*):(.*)")
_RULE = re.compile(r"[A-Za-z]+=")
_FOLDED = re.compile(r"\r?\n[ \t]")
_STAMP = re.compile(r"(\d{8})(?:T(\d{6})(Z)?)?")
_A_DAY = timedelta(days=1)
# Any start will do to see whether a rule has days at all; this one is a leap year's first.
_ANY_START = datetime(2000, 1, 1)  # noqa: DTZ001 - a wall

# A wall, or an instant if it was written with a Z.
Stamp = datetime


@dataclass(frozen=True, slots=True)
class RRule:
    """The text, understood; what it leaves open is the zone and, without DTSTART, the start."""

    parts: Parts | None
    start: Stamp | None = None
    zone: str | None = None
    until: Stamp | None = None
    dates: tuple[Stamp, ...] = ()
    without: tuple[Stamp, ...] = ()
    without_days: frozenset[int] = frozenset()

    @property
    def needs_start(self) -> bool:
        return self.start is None and self.parts is not None

    def rule(self, zone: str, dst: Dst, anchor: datetime) -> Rule:
        """The instants of this text in a zone; `anchor` is the start if the text has none."""
        return _compiled(self, zone, dst, anchor if self.needs_start else None)

    def walls(self, zone: str, anchor: datetime | None) -> Walls:
        """The readings of the clock in the zone."""
        start = self.start or anchor
        rule = None
        dates = {_wall(each, zone) for each in self.dates}
        if start is not None:
            if self.parts is not None:
                rule = Recurrence(self.parts, _wall(start, zone))
            else:
                dates.add(_wall(start, zone))
        if rule is not None and not (dates or self.without or self.without_days or self.until):
            return rule
        until = self.until if self.until is None or self.until.tzinfo is None else None
        return self._amended(rule, dates, until, zone, rule is not None and rule.sub_hourly)

    def added(self, zone: str, sub_hourly: bool) -> Walls:
        """Only what RDATE adds."""
        dates = {_wall(each, zone) for each in self.dates}
        return self._amended(None, dates, None, zone, sub_hourly)

    def _amended(
        self,
        rule: Recurrence | None,
        dates: Iterable[datetime],
        until: datetime | None,
        zone: str,
        sub_hourly: bool,
    ) -> Walls:
        without = frozenset(_wall(each, zone) for each in self.without)
        return _Amended(rule, tuple(sorted(dates)), without, self.without_days, until, sub_hourly)


@lru_cache(maxsize=4096)
def _compiled(text: RRule, zone: str, dst: Dst, anchor: datetime | None) -> Rule:
    if text.until is None or text.until.tzinfo is None:
        return Zoned(text.walls(zone, anchor), zone, dst)
    # An instant ends the recurrence among instants; what RDATE adds comes all the same.
    walls = replace(text, dates=(), until=None).walls(zone, anchor)
    rule = Bounded(Zoned(walls, zone, dst), None, text.until + MOMENT)
    if not text.dates:
        return rule
    return Union([rule, Zoned(text.added(zone, walls.sub_hourly), zone, dst)])


@dataclass(frozen=True, slots=True)
class _Amended:
    """A recurrence with dates added and dates taken away; UNTIL ends only the recurrence."""

    rule: Recurrence | None
    dates: tuple[datetime, ...]
    without: frozenset[datetime]
    without_days: frozenset[int]
    until: datetime | None
    sub_hourly: bool

    def walls(self, start: datetime) -> Iterator[datetime]:
        for wall in self._merged(start):
            if wall not in self.without and wall.toordinal() not in self.without_days:
                yield wall

    def _merged(self, start: datetime) -> Iterator[datetime]:
        at = bisect_left(self.dates, start)
        for wall in self.rule.walls(start) if self.rule is not None else ():
            if self.until is not None and wall > self.until:
                break
            while at < len(self.dates) and self.dates[at] <= wall:
                if self.dates[at] < wall:
                    yield self.dates[at]
                at += 1
            yield wall
        yield from self.dates[at:]


def rrule_lines(text: str) -> list[str]:
    """The lines of a text, unfolded; a rule alone may stand without its `RRULE:`."""
    lines = [line.strip() for line in _FOLDED.sub("", text).splitlines() if line.strip()]
    if len(lines) == 1 and lines[0].upper().startswith("RRULE:"):
        lines[0] = lines[0][len("RRULE:") :]
    return lines


@lru_cache(maxsize=4096)
def parse_rrule(text: str) -> RRule:
    """What a text says; refused with the reason if it cannot be right or never comes."""
    if len(text) > LONGEST:
        raise InvalidSchedule(f"rrule: longer than {LONGEST:,} characters; use several schedules")
    found = RRule(None)
    zones: set[str] = set()
    for line in rrule_lines(text):
        name, parameters, value = _taken_apart(line)
        if "TZID" in parameters:
            zones.add(zone_named(parameters["TZID"]).key)
        if name == "RRULE":
            found = _with_rule(found, value)
        elif name == "DTSTART":
            if found.start is not None:
                raise InvalidSchedule("rrule: there is more than one DTSTART")
            found = replace(found, start=_stamp(name, value))
        elif name == "RDATE":
            dates = tuple(_stamp(name, each) for each in value.split(","))
            found = replace(found, dates=found.dates + dates)
        else:
            found = _with_exceptions(found, value)
    if found.start is not None and found.start.tzinfo is not None:
        zones.add("UTC")
    if len(zones) > 1:
        raise InvalidSchedule(
            f"rrule: the lines are in several time zones, {' and '.join(sorted(zones))}; "
            "write all of them in one"
        )
    found = replace(found, zone=next(iter(zones), None))
    _demand_a_date(found, text)
    return found


def _taken_apart(line: str) -> tuple[str, dict[str, str], str]:
    if _RULE.match(line):
        return "RRULE", {}, line
    found = _LINE.fullmatch(line)
    name = found[1].upper() if found else line.split(":")[0].split(";")[0].upper()
    if name == "EXRULE":
        raise InvalidSchedule("rrule: EXRULE is not part of RFC 5545; exclude a calendar instead")
    if found is None or name not in _LINES:
        raise InvalidSchedule(
            f"rrule: {line!r} is not a rule like FREQ=DAILY;BYHOUR=9, nor a line of "
            f"{', '.join(_LINES)}{did_you_mean(name, _LINES)}"
        )
    pairs = (each.partition("=") for each in found[2].split(";")[1:])
    parameters = {key.upper(): value.strip('"') for key, _, value in pairs}
    unknown = sorted({*parameters} - {"TZID", "VALUE"})
    if unknown:
        raise InvalidSchedule(f"rrule: {name} with {unknown[0]} is not understood")
    if parameters.get("VALUE", "DATE").upper() not in ("DATE", "DATE-TIME"):
        raise InvalidSchedule(f"rrule: {name} with VALUE={parameters['VALUE']} is not understood")
    return name, parameters, found[3].strip()


def _with_rule(found: RRule, value: str) -> RRule:
    if found.parts is not None:
        raise InvalidSchedule("rrule: there is more than one RRULE; give each to any=[…] instead")
    parts, until = parse_parts(value)
    if until is None:
        return replace(found, parts=parts)
    last = _stamp("UNTIL", until)
    if "T" not in until:  # the whole of that day
        last += _A_DAY - MOMENT
    return replace(found, parts=parts, until=last)


def _with_exceptions(found: RRule, value: str) -> RRule:
    each = value.split(",")
    days = {_stamp("EXDATE", one).toordinal() for one in each if "T" not in one.upper()}
    stamps = tuple(_stamp("EXDATE", one) for one in each if "T" in one.upper())
    return replace(
        found, without=found.without + stamps, without_days=found.without_days | frozenset(days)
    )


def _stamp(name: str, text: str) -> Stamp:
    """20260329T023000 is a wall, with a Z it is an instant, 20260329 is that day's midnight."""
    found = _STAMP.fullmatch(text.strip().upper())
    if found is not None:
        try:
            read = datetime.strptime(found[1] + (found[2] or "000000"), "%Y%m%d%H%M%S")  # noqa: DTZ007
        except ValueError:
            pass
        else:
            # Where in any zone it would be another year, beyond the last or before the first.
            if found[3] and name != "UNTIL" and read.year in (MINYEAR, MAXYEAR):
                raise InvalidSchedule(f"rrule: {name}: {text.strip()!r} is at the end of time")
            return read.replace(tzinfo=UTC) if found[3] else read
    raise InvalidSchedule(
        f"rrule: {name}: {text.strip()!r} is not like 20260329T023000, 20260329T003000Z or 20260329"
    )


def _wall(stamp: Stamp, zone: str) -> datetime:
    if stamp.tzinfo is None:
        return stamp
    return stamp.astimezone(zone_named(zone)).replace(tzinfo=None)


def _demand_a_date(rule: RRule, text: str) -> None:
    if rule.parts is None:
        if not rule.dates and rule.start is None:
            raise InvalidSchedule("rrule: there is no rule; write one like FREQ=DAILY;BYHOUR=9")
        return
    if rule.dates:
        return
    anywhere = replace(rule.parts, interval=1, count=None)
    start = rule.start and rule.start.replace(tzinfo=None)
    if next(Recurrence(anywhere, start or _ANY_START).walls(_ANY_START), None) is None or (
        start is not None and next(Recurrence(rule.parts, start).walls(start), None) is None
    ):
        raise InvalidSchedule(f"rrule: no date ever fits {text.strip()!r}")
