"""The parts of an iCalendar RRULE (RFC 5545): FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE and so on."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from sexton.errors import InvalidSchedule, did_you_mean

FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
YEARLY, MONTHLY, WEEKLY, DAILY, HOURLY, MINUTELY, SECONDLY = range(7)
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
MAX_COUNT = 10_000
MAX_INTERVAL = 100_000
_NUMBER = re.compile(r"[+-]?\d{1,9}")
_WEEKDAY = re.compile(r"([+-]?\d{1,2})?([A-Z]{2})")


@dataclass(frozen=True, slots=True)
class Parts:
    """What an RRULE says; sets that were not given are empty."""

    freq: int
    interval: int = 1
    count: int | None = None
    months: frozenset[int] = frozenset()
    weeks: frozenset[int] = frozenset()
    yeardays: frozenset[int] = frozenset()
    monthdays: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()  # Monday is 0
    nth: frozenset[tuple[int, int]] = (
        frozenset()
    )  # (2, 0) the second Monday, (-1, 4) the last Friday
    hours: tuple[int, ...] = ()
    minutes: tuple[int, ...] = ()
    seconds: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()
    week_start: int = 0


def completed(parts: Parts, start: datetime) -> Parts:
    """With what the rule leaves open taken from its start."""
    days = parts.yeardays or parts.monthdays or parts.weekdays or parts.nth
    given: dict[str, object] = {}
    if not days and (parts.freq == WEEKLY or parts.weeks):
        given["weekdays"] = frozenset({start.weekday()})
    elif not days and parts.freq in (YEARLY, MONTHLY):
        given["monthdays"] = frozenset({start.day})
        if parts.freq == YEARLY and not parts.months:
            given["months"] = frozenset({start.month})
    if not parts.hours and parts.freq < HOURLY:
        given["hours"] = (start.hour,)
    if not parts.minutes and parts.freq < MINUTELY:
        given["minutes"] = (start.minute,)
    if not parts.seconds and parts.freq < SECONDLY:
        given["seconds"] = (start.second,)
    return replace(parts, **given)  # type: ignore[arg-type]


# Which whole numbers a part may list, and whether they may be counted from the end.
_LISTS: Mapping[str, tuple[str, int, int, bool]] = {
    "BYMONTH": ("months", 1, 12, False),
    "BYWEEKNO": ("weeks", 1, 53, True),
    "BYYEARDAY": ("yeardays", 1, 366, True),
    "BYMONTHDAY": ("monthdays", 1, 31, True),
    "BYHOUR": ("hours", 0, 23, False),
    "BYMINUTE": ("minutes", 0, 59, False),
    "BYSECOND": ("seconds", 0, 59, False),
    "BYSETPOS": ("positions", 1, 366, True),
}
_KNOWN = ("FREQ", "INTERVAL", "COUNT", "UNTIL", "BYDAY", "WKST", *_LISTS)
_ORDERED = {"hours", "minutes", "seconds", "positions"}


def parse_parts(text: str) -> tuple[Parts, str | None]:
    """The value of an RRULE, checked; and its UNTIL as written, which needs a time zone."""
    given = _split(text)
    freq = FREQUENCIES.index(given["FREQ"])
    fields: dict[str, object] = {}
    for name, (field, low, high, signed) in _LISTS.items():
        if name in given:
            numbers = [_number(name, item, low, high, signed) for item in given[name].split(",")]
            ordered = field in _ORDERED
            fields[field] = tuple(sorted(set(numbers))) if ordered else frozenset(numbers)
    if "BYDAY" in given:
        fields["weekdays"], fields["nth"] = _weekdays(given["BYDAY"])
    if "WKST" in given:
        fields["week_start"] = _weekday("WKST", given["WKST"])
    if "INTERVAL" in given:
        fields["interval"] = _number("INTERVAL", given["INTERVAL"], 1, MAX_INTERVAL, False)
    if "COUNT" in given:
        fields["count"] = _number("COUNT", given["COUNT"], 1, MAX_COUNT, False)
    parts = Parts(freq, **fields)  # type: ignore[arg-type]
    _demand_sense(parts, given)
    return parts, given.get("UNTIL")


def _split(text: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for part in text.strip().rstrip(";").split(";"):
        name, equals, value = (each.strip().upper() for each in part.partition("="))
        if name not in _KNOWN:
            raise InvalidSchedule(
                f"rrule: {part!r} is not a part of an RRULE{did_you_mean(name, _KNOWN)}"
            )
        if not equals or not value:
            raise InvalidSchedule(f"rrule: {name} has no value")
        if name in given:
            raise InvalidSchedule(f"rrule: {name} is there twice")
        given[name] = value
    if "FREQ" not in given:
        raise InvalidSchedule(f"rrule: {text!r} has no FREQ; begin with FREQ=DAILY or the like")
    if given["FREQ"] not in FREQUENCIES:
        raise InvalidSchedule(
            f"rrule: FREQ={given['FREQ']} is none of {', '.join(FREQUENCIES)}"
            f"{did_you_mean(given['FREQ'], FREQUENCIES)}"
        )
    return given


def _number(name: str, item: str, low: int, high: int, signed: bool) -> int:
    ends = f"from {low} to {high}" + (f", or from -{high} to -1" if signed else "")
    if not _NUMBER.fullmatch(item.strip()):
        raise InvalidSchedule(f"rrule: {name}: {item.strip()!r} is not a whole number {ends}")
    value = int(item)
    if not low <= (abs(value) if signed else value) <= high:
        hint = ""
        if name == "COUNT":
            hint = "; limit the schedule's number of fires instead"
        elif name == "BYSECOND" and value == 60:
            hint = "; leap seconds do not exist here"
        raise InvalidSchedule(f"rrule: {name}: {value} is not {ends}{hint}")
    return value


def _weekdays(text: str) -> tuple[frozenset[int], frozenset[tuple[int, int]]]:
    plain, nth = set(), set()
    for item in text.split(","):
        found = _WEEKDAY.fullmatch(item.strip())
        if found is None:
            raise InvalidSchedule(f"rrule: BYDAY: {item.strip()!r} is not like MO, 2TU or -1FR")
        weekday = _weekday("BYDAY", found[2])
        if found[1] is None:
            plain.add(weekday)
        else:
            nth.add((_number("BYDAY", found[1], 1, 53, True), weekday))
    return frozenset(plain), frozenset(nth)


def _weekday(name: str, text: str) -> int:
    if text not in WEEKDAYS:
        raise InvalidSchedule(f"rrule: {name}: {text!r} is none of {', '.join(WEEKDAYS)}")
    return WEEKDAYS.index(text)


def _demand_sense(parts: Parts, given: Mapping[str, str]) -> None:
    """Refuse what RFC 5545 forbids, because it means nothing."""
    freq, weekdays = FREQUENCIES[parts.freq], f"BYDAY={given.get('BYDAY')}"
    others = any(name.startswith("BY") for name in {*given} - {"BYSETPOS"})
    why = None
    if "COUNT" in given and "UNTIL" in given:
        why = "COUNT and UNTIL exclude each other"
    elif parts.weeks and parts.freq != YEARLY:
        why = f"BYWEEKNO needs FREQ=YEARLY, not {freq}"
    elif parts.yeardays and parts.freq in (MONTHLY, WEEKLY, DAILY):
        why = f"BYYEARDAY does not go with FREQ={freq}"
    elif parts.monthdays and parts.freq == WEEKLY:
        why = "BYMONTHDAY does not go with FREQ=WEEKLY; use FREQ=DAILY with BYDAY"
    elif parts.nth and parts.freq > MONTHLY:
        why = f"{weekdays} counts weekdays of a month or a year; it does not go with FREQ={freq}"
    elif parts.nth and parts.weeks:
        why = f"{weekdays} counts weekdays of a year; it does not go with BYWEEKNO"
    elif parts.positions and not others:
        why = "BYSETPOS chooses from what another BY part lists, and there is none"
    if why:
        raise InvalidSchedule(f"rrule: {why}")
