"""When an expression fires, found by looking at every minute: slow, plain, and nobody's code.

A pattern is made together with its text, so that no parser is needed; a zone is walked instant by
instant, asking only zoneinfo what the clock shows.
"""

import calendar
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cache
from itertools import pairwise
from random import Random
from zoneinfo import ZoneInfo

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
EVERY_SECOND = timedelta(seconds=1)
EVERY_MINUTE = timedelta(minutes=1)

Day = Callable[[date], bool]


@dataclass
class Pattern:
    """An expression, and what it should mean."""

    text: str
    minutes: set[int]
    hours: set[int]
    day: Day
    seconds: set[int] = field(default_factory=lambda: {0})
    elapsed: bool = False  # whether it follows elapsed time
    _days: dict[date, bool] = field(default_factory=dict)

    def __call__(self, wall: datetime) -> bool:
        if wall.minute not in self.minutes or wall.hour not in self.hours:
            return False
        return wall.second in self.seconds and self.on(wall.date())

    def never(self) -> bool:
        """Whether no day of any year is meant; 28 of them are all that there are."""
        return not any(self.on(date(2001, 1, 1) + timedelta(each)) for each in range(28 * 365 + 7))

    def on(self, day: date) -> bool:
        if day not in self._days:
            self._days[day] = self.day(day)
        return self._days[day]


class Walk:
    """Each instant from start to end with what the clock on the wall shows."""

    def __init__(self, zone: ZoneInfo, start: int, end: int, step: timedelta = EVERY_MINUTE):
        self.step = step
        seconds = int(step.total_seconds())
        self.shown = [
            (instant, datetime.fromtimestamp(instant, zone).replace(tzinfo=None, fold=0))
            for instant in range(start - start % seconds, end, seconds)
        ]
        self.instants: dict[datetime, list[int]] = {}
        for instant, wall in self.shown:
            self.instants.setdefault(wall, []).append(instant)
        # What the clock never shows, and the instant when it shows something later.
        self.missing: list[tuple[datetime, int, timedelta]] = []
        for (_, before), (instant, after) in pairwise(self.shown):
            late = timedelta(0)
            while (wall := before + step + late) < after:
                if wall not in self.instants:
                    self.missing.append((wall, instant, late))
                late += step

    def fires(self, pattern: Pattern, dst: str = "default") -> list[int]:
        """Every instant at which the pattern fires."""
        if pattern.elapsed:
            return [instant for instant, wall in self.shown if pattern(wall)]
        found = set()
        for wall, instants in self.instants.items():
            if pattern(wall):
                found.update(instants if dst == "both" else instants[:1])
        for wall, instant, late in self.missing:
            if dst != "skip" and pattern(wall):
                found.add(instant + (int(late.total_seconds()) if dst == "shift" else 0))
        return sorted(found)


def days_of_change(zone: ZoneInfo, first_year: int, last_year: int) -> list[int]:
    """The noon before each day within which the offset from UTC becomes another."""
    start = calendar.timegm((first_year, 1, 1, 12, 0, 0))
    end = calendar.timegm((last_year + 1, 1, 1, 12, 0, 0))
    offsets = [
        (noon, datetime.fromtimestamp(noon, zone).utcoffset()) for noon in range(start, end, 86400)
    ]
    return [noon for (noon, before), (_, after) in pairwise(offsets) if before != after]


def pattern(
    random: Random, minute_step: int = 1, wild: bool = True, special: bool = True
) -> Pattern:
    """A five-field expression; `wild` ones may begin with a star in minute and hour."""
    minute_text, minutes = values(random, 0, 59, wild, minute_step)
    hour_text, hours = values(random, 0, 23, wild)
    days_text, day = days(random, special)
    return Pattern(
        f"{minute_text} {hour_text} {days_text}",
        minutes,
        hours,
        day,
        elapsed="*" in (minute_text[0], hour_text[0]) or len(hours) == 24,
    )


def values(
    random: Random, low: int, high: int, star: bool = True, unit: int = 1
) -> tuple[str, set[int]]:
    """A field, and the values it stands for."""
    pool = range(low, high + 1, unit)
    kind = random.choice(["one", "one", "list", "range", "step", "from", "star", "stars"])
    if kind == "star" and star and unit == 1:
        return "*", set(pool)
    if kind == "stars" and star:
        step = random.randint(1, (high - low + 1) // 2 // unit) * unit
        return f"*/{step}", {value for value in pool if (value - low) % step == 0}
    if kind == "list":
        some = random.sample(pool, random.randint(2, 4))
        return ",".join(map(str, some)), set(some)
    first, last = sorted(random.sample(pool, 2))
    step = random.randint(1, max(1, 7 // unit)) * unit
    if kind == "range" and unit == 1:
        return f"{first}-{last}", {value for value in pool if first <= value <= last}
    if kind == "step":
        wanted = {value for value in pool if first <= value <= last}
        return f"{first}-{last}/{step}", {value for value in wanted if (value - first) % step == 0}
    if kind == "from":
        wanted = {value for value in pool if value >= first}
        return f"{first}/{step}", {value for value in wanted if (value - first) % step == 0}
    return str(first), {first}


def days(random: Random, special: bool) -> tuple[str, Day]:
    """Day of month, month and day of week, and the days they stand for."""
    kinds = ["*"] * 4 + ["plain"] * 3 + ["special"] * (2 * special)
    date_text, by_date = _dates(random, random.choice(kinds))
    weekday_text, by_weekday = _weekdays(random, random.choice(kinds))
    month_text, months = ("*", set(range(1, 13)))
    if random.random() < 0.3:
        month_text, months = values(random, 1, 12)
        if month_text.isdigit() and random.random() < 0.5:
            month_text = MONTHS[int(month_text) - 1]
    agree = date_text.startswith("*") or weekday_text.startswith("*")

    def day(day: date) -> bool:
        if day.month not in months:
            return False
        if agree:
            return by_date(day) and by_weekday(day)
        return by_date(day) or by_weekday(day)

    return f"{date_text} {month_text} {weekday_text}", day


def _dates(random: Random, kind: str) -> tuple[str, Day]:
    if kind == "*":
        return "*", lambda day: True
    if kind == "plain":
        text, wanted = values(random, 1, 31)
        return text, lambda day: day.day in wanted
    before, near = random.randint(0, 9), random.randint(1, 31)
    return random.choice(
        [
            ("L", lambda day: day.day == last_of(day)),
            (f"L-{before}", lambda day: day.day == last_of(day) - before),
            ("LW", lambda day: day.day == working_day(day, last_of(day))),
            (f"{near}w", lambda day: day.day == working_day(day, near)),
            (f"1,{near}W,L", lambda day: day.day in (1, working_day(day, near), last_of(day))),
        ]
    )


def _weekdays(random: Random, kind: str) -> tuple[str, Day]:
    if kind == "*":
        return "*", lambda day: True
    number, nth = random.randint(0, 6), random.randint(1, 5)
    name = random.choice([WEEKDAYS[number], WEEKDAYS[number].upper(), str(number)])
    if kind == "plain":
        if random.random() < 0.3:
            length = random.randint(1, 5)
            until = WEEKDAYS[(number + length) % 7]
            wanted = {(number + i) % 7 for i in range(length + 1)}
            return f"{WEEKDAYS[number]}-{until}", lambda day: weekday(day) in wanted
        text, listed = values(random, 0, 7)
        return text, lambda day: weekday(day) in listed or (weekday(day) == 0 and 7 in listed)
    return random.choice(
        [
            (f"{name}L", lambda day: weekday(day) == number and day.day + 7 > last_of(day)),
            (f"{name}#{nth}", lambda day: weekday(day) == number and (day.day + 6) // 7 == nth),
        ]
    )


def weekday(day: date) -> int:
    return day.isoweekday() % 7


def last_of(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def working_day(day: date, near: int) -> int | None:
    """The Monday to Friday of the same month that is nearest to this day of it."""
    return _working_day(day.replace(day=1), near)


@cache
def _working_day(first: date, near: int) -> int | None:
    if near > last_of(first):
        return None
    month = (first.replace(day=each) for each in range(1, last_of(first) + 1))
    working = (each.day for each in month if each.weekday() < 5)
    return min(working, key=lambda each: abs(each - near))
