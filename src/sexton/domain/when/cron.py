"""Cron expressions with the meaning of Debian's cron, and the dialect of Quartz on request.

    minute hour day-of-month month day-of-week          five fields
    second minute hour day-of-month month day-of-week   six

Values, names (JAN, mon), ranges, lists and steps (`3/5` is from 3 on). 7 is Sunday as 0 is, and a
range of weekdays may run over the end of the week (FRI-MON). When day of month and day of week
are both restricted, either is enough; a field that begins with `*` is not restricted, not even
`*/2`, and then both must agree. Further, in day of month: `L` the last, `L-3` three days before
it, `15W` the working day nearest to the 15th, `LW` the last working day; in day of week: `5L` the
last Friday, `1#2` the second Monday. `H` in any field is spread by name; see `spread`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Literal, get_args

from sexton.domain.when import quartz
from sexton.domain.when.days import LAST_DAY, Days, shared
from sexton.domain.when.fields import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    YEAR,
    Field,
    Nonsense,
    bits,
    item_bits,
    number,
)
from sexton.domain.when.spread import is_spread, spread
from sexton.errors import InvalidSchedule, did_you_mean

Dialect = Literal["cron", "quartz"]

LONGEST = 1000  # characters; the longest honest list of minutes has 170
DAY = 86_400
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  (the face of a clock has no zone)

_FIELDS = (SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK)
_SHORTHANDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_LAST = re.compile(r"L(?:-(\d{1,2}))?(W?)")
_NEAREST = re.compile(r"(\d{1,4})W")


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed expression: readings of a clock on the wall. Equal when it means the same."""

    text: str = field(compare=False)
    dialect: Dialect = field(compare=False)
    days: Days
    minutes: int  # bit per minute of the day
    seconds: int
    # Follows elapsed time over a change of the clocks; Debian: `*` in minute or hour.
    sub_hourly: bool
    _first: int = field(init=False, compare=False, repr=False)
    _last_second: int = field(init=False, compare=False, repr=False)
    _daily: bool = field(init=False, compare=False, repr=False)  # most are, and need not look

    def __post_init__(self) -> None:
        first = _lowest(self.minutes) * 60 + _lowest(self.seconds)
        object.__setattr__(self, "_first", first)
        object.__setattr__(self, "_last_second", self.seconds.bit_length() - 1)
        object.__setattr__(self, "_daily", self.days == Days())

    def __str__(self) -> str:
        return self.text

    def walls(self, start: datetime) -> Iterator[datetime]:
        """Naive, ascending, from `start` on."""
        passed = start - EPOCH
        wall = passed.days * DAY + passed.seconds + (passed.microseconds > 0)
        while (found := self.next_wall(wall)) is not None:
            yield EPOCH + timedelta(0, found)
            wall = found + 1

    def next_wall(self, wall: int) -> int | None:
        """The first reading from this one on, in seconds since 1970 on the same wall."""
        day, rest = divmod(wall, DAY)
        daily = self._daily and day < LAST_DAY
        found = day if daily else self.days.following(day)
        if found == day:
            minute, second = divmod(rest, 60)
            if second > self._last_second:
                minute, second = minute + 1, 0
            left = self.minutes >> minute
            if left:
                skipped = (left & -left).bit_length() - 1
                if skipped:
                    minute, second = minute + skipped, 0
                left = self.seconds >> second
                return day * DAY + minute * 60 + second + (left & -left).bit_length() - 1
            found = self.days.following(day + 1)
        return None if found is None else found * DAY + self._first


def parse_cron(text: str, *, dialect: Dialect = "cron", name: str = "") -> Cron:
    """What the expression means; `name` is the schedule's, for `H`."""
    if not isinstance(text, str):
        raise InvalidSchedule(f"cron: an expression like '0 6 * * *' is needed, not {text!r}")
    if len(text) > LONGEST:
        raise InvalidSchedule(f"cron '{text[:40]}…': longer than {LONGEST:,} characters")
    if dialect not in get_args(Dialect):
        raise InvalidSchedule(
            f"cron {text!r}: {dialect!r} is not a dialect; choose 'cron' or 'quartz'"
        )
    # Schedules that do not spread share one result, whatever they are called.
    return _parse(" ".join(text.split()), dialect, name if is_spread(text) else "")


@lru_cache(maxsize=4096)
def _parse(text: str, dialect: Dialect, name: str) -> Cron:
    try:
        return _expression(text, dialect, name)
    except Nonsense as reason:
        raise InvalidSchedule(f"cron {text!r}: {reason}") from None


def _expression(text: str, dialect: Dialect, name: str) -> Cron:
    if text.startswith("@"):
        return _meaning(text, dialect, _FIELDS[1:], _shorthand(text).split())
    parts = text.split()
    fields = quartz.fields(len(parts)) if dialect == "quartz" else _fields(len(parts))
    parts = [spread(part, field, name) for part, field in zip(parts, fields, strict=True)]
    plain = [part.upper() for part in parts]
    if dialect == "quartz":
        plain = quartz.plain(plain)
    return _meaning(" ".join(parts), dialect, fields, plain)


def _shorthand(text: str) -> str:
    if text.lower() == "@reboot":
        raise Nonsense("a cluster does not boot, so @reboot has no instant; enqueue a job instead")
    try:
        return _SHORTHANDS[text.lower()]
    except KeyError:
        hint = did_you_mean(text.lower(), _SHORTHANDS)
        raise Nonsense(f"not one of {', '.join(_SHORTHANDS)}{hint}") from None


def _fields(count: int) -> tuple[Field, ...]:
    if count == 5:
        return _FIELDS[1:]
    if count == 6:
        return _FIELDS
    hint = "; for years ask for dialect='quartz'" if count == 7 else ""
    raise Nonsense(
        f"{count} field{'s' if count != 1 else ''}; cron has 5 (minute, hour, day of month, month, "
        f"day of week), or 6 with second first{hint}"
    )


def _meaning(text: str, dialect: Dialect, fields: tuple[Field, ...], parts: list[str]) -> Cron:
    written = {SECOND.name: "0", YEAR.name: "*"}
    written |= {field.name: part for field, part in zip(fields, parts, strict=True)}
    known = {SECOND.name: SECOND, YEAR.name: YEAR} | {field.name: field for field in fields}

    def values(field: Field) -> int:
        return bits(written[field.name], known[field.name])

    hours, minutes = values(HOUR), values(MINUTE)
    dates, weekdays = written[DAY_OF_MONTH.name], written[DAY_OF_WEEK.name]
    days = shared(
        Days(
            months=values(MONTH),
            both=dates.startswith("*") or weekdays.startswith("*"),
            years=0 if written[YEAR.name] == "*" else values(YEAR),
            **_dates(dates, known[DAY_OF_MONTH.name]),
            **_weekdays(weekdays, known[DAY_OF_WEEK.name]),
        )
    )
    never = days.why_never(dates, written[MONTH.name], weekdays)
    if never is not None:
        raise Nonsense(never)
    return Cron(
        text=text,
        dialect=dialect,
        days=days,
        minutes=sum(minutes << hour * 60 for hour in range(24) if hours >> hour & 1),
        seconds=values(SECOND),
        sub_hourly=hours == HOUR.every
        or any(written[part.name].startswith("*") for part in (SECOND, MINUTE, HOUR)),
    )


def _dates(text: str, field: Field) -> dict[str, int]:
    dates = from_last = nearest = nearest_from_last = 0
    for item in text.split(","):
        if found := _LAST.fullmatch(item):
            before = int(found[1] or 0)
            if before > 30:
                raise Nonsense(f"{field.name}: {item}: no month has a day {before} before its last")
            if found[2]:
                nearest_from_last |= 1 << before
            else:
                from_last |= 1 << before
        elif found := _NEAREST.fullmatch(item):
            nearest |= 1 << number(found[1], field) - 1
        else:
            dates |= item_bits(item, field)
    return {
        "dates": dates,
        "from_last": from_last,
        "nearest": nearest,
        "nearest_from_last": nearest_from_last,
    }


def _weekdays(text: str, field: Field) -> dict[str, int]:
    weekdays = nth = last = 0
    for item in text.split(","):
        day_text, mark, nth_text = item.partition("#")
        if mark:
            if nth_text not in ("1", "2", "3", "4", "5"):
                raise Nonsense(f"{field.name}: {item}: after # stands a number from 1 to 5")
            nth |= 1 << _weekday(day_text, field) + (int(nth_text) - 1) * 7
        elif item == "L":
            raise Nonsense(f"{field.name}: L needs a weekday; 5L is the last Friday of the month")
        elif item.endswith("L"):
            last |= 1 << _weekday(item[:-1], field)
        else:
            weekdays |= item_bits(item, field)
    return {"weekdays": weekdays, "nth": nth, "last": last}


def _weekday(text: str, field: Field) -> int:
    return (number(text, field) - field.low) % field.size


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1
