"""On which days a cron expression fires, by bits of a year.

The calendar knows only fourteen years: leap or not, beginning on one of seven weekdays. So a
pattern is at most fourteen numbers of 366 bits, made when they are first needed, and it is exact
to say that a day never comes.
"""

from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache
from itertools import accumulate

EPOCH = date(1970, 1, 1).toordinal()
FIRST_YEAR = 1970  # of those that an expression can name
LAST_YEAR = 9000  # datetime ends with 9999; a schedule ends before
LAST_DAY = date(LAST_YEAR, 1, 1).toordinal() - EPOCH

EVERY_MONTH = (1 << 12) - 1
EVERY_DATE = (1 << 31) - 1
EVERY_WEEKDAY = (1 << 7) - 1

_LENGTHS = (
    (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31),
    (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31),
)
_STARTS = tuple((0, *accumulate(lengths)) for lengths in _LENGTHS)
_WEEKLY = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28
_SUNDAY, _SATURDAY = 0, 6


@lru_cache(maxsize=10_000)
def year_shape(year: int) -> tuple[int, int]:
    """The number of its first day, counted from 1970, and which of the fourteen years it is."""
    first = date(year, 1, 1)
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return first.toordinal() - EPOCH, leap * 7 + first.isoweekday() % 7


@dataclass(frozen=True, slots=True)
class Days:
    """Which days. Sets are bits: bit 0 is January, the 1st, Sunday, or the year 1970."""

    months: int = EVERY_MONTH
    dates: int = EVERY_DATE
    from_last: int = 0  # bit k: k days before the last of the month
    nearest: int = 0  # bit k: the working day nearest to day k + 1, within its month
    nearest_from_last: int = 0  # bit k: the same for k days before the last
    weekdays: int = EVERY_WEEKDAY
    nth: int = 0  # bit 7 (n - 1) + w: the nth weekday w of the month
    last: int = 0  # the last such weekday of the month
    both: bool = True  # date and weekday must agree; or else one of them is enough
    years: int = 0  # none: every year
    # The fourteen years as far as anybody asked; not part of the meaning.
    _made: dict[int, int] = field(default_factory=dict, init=False, compare=False, repr=False)

    def following(self, day: int) -> int | None:
        """The first such day from this one on, both counted from 1970."""
        if day >= LAST_DAY:
            return None
        year = date.fromordinal(day + EPOCH).year
        start, shape = year_shape(year)
        left = (self._bits(year, shape) if self.years else self._shaped(shape)) >> (day - start)
        if left:
            return day + (left & -left).bit_length() - 1
        # Forty years is the longest that a 29 February takes to fall on a given weekday again;
        # the calendar as a whole repeats after 400.
        for later in range(year + 1, min(year + 401, LAST_YEAR)):
            start, shape = year_shape(later)
            left = self._bits(later, shape)
            if left:
                return start + (left & -left).bit_length() - 1
        return None

    def _bits(self, year: int, shape: int) -> int:
        named = not self.years or (
            year >= FIRST_YEAR and bool(self.years >> (year - FIRST_YEAR) & 1)
        )
        return self._shaped(shape) if named else 0

    def _shaped(self, shape: int) -> int:
        made = self._made.get(shape)
        if made is None:
            made = self._made[shape] = self._year(shape)
        return made

    def possible(self) -> bool:
        """Whether such a day comes in any year at all."""
        # Any 28 years without a century have all fourteen of them.
        count = self.years.bit_length() or 28
        years = range(FIRST_YEAR, FIRST_YEAR + count)
        return any(self._bits(year, year_shape(year)[1]) for year in years)

    def _year(self, shape: int) -> int:
        leap, weekday = divmod(shape, 7)
        found = 0
        for month, (start, length) in enumerate(zip(_STARTS[leap], _LENGTHS[leap], strict=False)):
            if self.months >> month & 1:
                found |= self._month((weekday + start) % 7, length) << start
        return found

    def _month(self, first: int, length: int) -> int:
        """The bits of a month of this length whose 1st is this weekday."""
        by_date = self._by_date(first, length)
        by_weekday = self._by_weekday(first, length)
        chosen = by_date & by_weekday if self.both else by_date | by_weekday
        return chosen & (1 << length) - 1

    def _by_date(self, first: int, length: int) -> int:
        found = self.dates
        if self.from_last or self.nearest or self.nearest_from_last:
            for day in range(length):
                left = length - 1 - day
                found |= (self.from_last >> left & 1) << day
                if (self.nearest >> day | self.nearest_from_last >> left) & 1:
                    found |= 1 << _working_day(day, first, length)
        return found

    def _by_weekday(self, first: int, length: int) -> int:
        turned = (self.weekdays >> first | self.weekdays << 7 - first) & EVERY_WEEKDAY
        found = turned * _WEEKLY
        if self.nth or self.last:
            for day in range(length):
                weekday = (first + day) % 7
                found |= (self.nth >> day // 7 * 7 + weekday & 1) << day
                if day + 7 >= length:
                    found |= (self.last >> weekday & 1) << day
        return found

    def why_never(self, dates: str, months: str, weekdays: str) -> str | None:
        """In words why no such day ever comes, given the fields as written; None: they come."""
        if self.possible():
            return None
        when = "" if self.months == EVERY_MONTH else f" in month {months}"
        if self.years:
            when += " of the years given"
        alone = replace(self, weekdays=EVERY_WEEKDAY, both=True)
        if not alone.possible():
            return f"day of month {dates} never comes{when}"
        alone = replace(self, dates=EVERY_DATE, both=True)
        if not alone.possible():
            return f"day of week {weekdays} never comes{when}"
        return f"day of month {dates} and day of week {weekdays} never meet{when}"


def _working_day(day: int, first: int, length: int) -> int:
    """The nearest Monday to Friday that does not leave the month; days counted from 0."""
    weekday = (first + day) % 7
    if weekday == _SATURDAY:
        return day - 1 if day > 0 else day + 2
    if weekday == _SUNDAY:
        return day + 1 if day + 1 < length else day - 2
    return day


@lru_cache(maxsize=4096)
def shared(days: Days) -> Days:
    """One object for all expressions with the same days, so that its years are made once."""
    return days
