"""Rules: from the description that the workload made, or from what an author said.

What an author may say, and what it means, is told in the documents for users.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from sexton.torture.check.folder import SECOND, Line
from sexton.torture.check.when import Calendars, Cron, Every, Once, Ranges, Rule

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOMENT = timedelta(microseconds=1)
_SIZES = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_NAMES = ("second", "minute", "hour", "day", "month", "weekday")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_PART = re.compile(r"(\*|[0-9A-Z]+)(?:-([0-9A-Z]+))?(?:/(\d+))?")


class Unclear(Exception):
    """This checker cannot compute it, and says so rather than guess."""


def described(line: Line, calendars: Calendars) -> Rule:
    """From the workload's description."""
    clauses: list[Cron | Every | Once] = []
    for each in line["when"]:
        if "every_us" in each:
            clauses.append(Every(each["every_us"], each["anchor_us"]))
        elif "at_us" in each:
            clauses.append(Once(each["at_us"]))
        else:
            values = [each["fields"][name] for name in _NAMES]
            sets = [None if value is None else frozenset(value) for value in values]
            clauses.append(_at_readings(line["timezone"], sets))
    jitter = line.get("jitter") or {"us": 0, "kind": "random"}
    return Rule(
        tuple(clauses),
        line["starts_us"],
        line["ends_us"],
        _calendars(line["tenant"], line["exclude"], calendars),
        _calendars(line["tenant"], line["only"], calendars),
        jitter["us"],
        jitter["kind"],
    )


def said(options: Line, anchor: int, tenant: str, calendars: Calendars) -> Rule:
    """From what an author wrote; `anchor` is the second in which intervals began to count."""
    if options.get("when_excluded", "skip") != "skip" or options.get("dst", "default") != "default":
        raise Unclear("it says what to do about calendars, or clocks that are changed")
    zone = options.get("timezone") or "UTC"
    starts, ends = (instant(options.get(name), zone) for name in ("starts_at", "ends_at"))
    listed = options.get("any", [options])
    clauses: list[Cron | Every | Once] = []
    for each in listed:
        rule = {"cron": each} if isinstance(each, str) else each
        if rule.get("cron") is not None:
            if rule.get("dialect", options.get("dialect", "cron")) != "cron":
                raise Unclear("its expression is of another dialect")
            clauses.append(_cron(rule["cron"], zone))
        elif rule.get("every") is not None:
            given = instant(rule.get("anchor", options.get("anchor")), zone)
            begins = given if given is not None else starts if starts is not None else anchor
            clauses.append(Every(round(length(rule["every"]) * SECOND), begins))
        elif rule.get("at") is not None:
            at = instant(rule["at"], zone)
            assert at is not None
            clauses.append(Once(at))
        else:
            raise Unclear("it is a recurrence rule")
    return Rule(
        tuple(clauses),
        starts,
        ends,
        _calendars(tenant, options.get("exclude") or (), calendars),
        _calendars(tenant, options.get("only") or (), calendars),
        round(length(options.get("jitter") or 0) * SECOND),
        options.get("jitter_kind") or "random",
    )


def length(given: Any) -> float:
    """Seconds of `90`, `"90s"` or `"1h30m"`."""
    if isinstance(given, int | float):
        return float(given)
    text = str(given).replace(" ", "")
    parts = _LENGTH.findall(text)
    if "".join(number + unit for number, unit in parts) != text or not parts:
        try:
            return float(text)
        except ValueError:
            raise Unclear(f"{given!r} is a length of time that is not understood") from None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _cron(text: str, zone: str) -> Cron:
    words = text.upper().split()
    if len(words) not in (5, 6):
        raise Unclear(f"{text!r} has not five or six fields")
    words = words if len(words) == 6 else ["0", *words]
    if not any(word.startswith("*") for word in words[:3]) and len(_values(words[2], 2)) < 24:
        raise Unclear(
            f"{text!r} does not fire all day: what it does when clocks change is involved"
        )
    found = [
        None if word == "*" else frozenset(_values(word, nth)) for nth, word in enumerate(words)
    ]
    either = not (words[3].startswith("*") or words[5].startswith("*"))
    return _at_readings(zone, found, either)


def _at_readings(zone: str, values: Sequence[frozenset[int] | None], either: bool = False) -> Cron:
    seconds, minutes, hours, days, months, weekdays = values
    every = frozenset(range(60)) if seconds is None else seconds
    return Cron(zone, every, minutes, hours, days, months, weekdays, either)


def _values(word: str, nth: int) -> set[int]:
    low, high = _SIZES[nth]
    found: set[int] = set()
    for part in word.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise Unclear(f"{word!r} is a field that is not understood")
        first, last, step = match.groups()
        begin = low if first == "*" else _number(first, nth)
        end = _number(last, nth) if last else high if first == "*" or step else begin
        if nth == 5 and first != "*" and last is None and step:
            end = 6
        if begin > end:
            raise Unclear(f"{word!r} runs over the end")
        found |= {each % 7 if nth == 5 else each for each in range(begin, end + 1, int(step or 1))}
    return found


def _number(text: str, nth: int) -> int:
    if text.isdecimal():
        return int(text)
    names = _MONTHS if nth == 4 else _DAYS if nth == 5 else ()
    if text not in names:
        raise Unclear(f"{text!r} is a value that is not understood")
    return names.index(text) + (nth == 4)


def instant(given: Any, zone: str) -> int | None:
    """µs of what is written with an offset, or in a time zone."""
    if given is None:
        return None
    read = datetime.fromisoformat(str(given))
    if read.tzinfo is None:
        read = read.replace(tzinfo=ZoneInfo(zone))
    return (read - _EPOCH) // _MOMENT


def _calendars(tenant: str, names: Any, known: Calendars) -> tuple[Ranges, ...]:
    listed = [names] if isinstance(names, str) else names
    for name in listed:
        if (tenant, name) not in known:
            raise Unclear(f"nobody described the calendar {name!r}")
    return tuple(known[tenant, name] for name in listed)
