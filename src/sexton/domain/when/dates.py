"""The days of a recurrence rule (RFC 5545): whether one is, and which comes next.

The calendar knows only a few kinds of years, so that a day which comes once in a generation is
found without looking at all between.
"""

from bisect import bisect_left
from calendar import isleap
from datetime import MAXYEAR, MINYEAR, date

from sexton.domain.when.effort import take
from sexton.domain.when.parts import MONTHLY, YEARLY, Parts
from sexton.domain.when.rule import LAST

END = LAST.replace(tzinfo=None).toordinal()
# A day that fits recurs within 40 years, the longest distance of a 29 February on a given weekday.
_AHEAD = 41 * 366
# So many are looked at one by one, before whole years are.
_NEAR = 40
# Before it, the weeks of a year could belong to one that does not exist.
_FIRST_OF_ITS_KIND = MINYEAR + 2
_DAY, _YEAR = 2, 4  # steps of effort, to look at one


class Dates:
    """Days are told by their ordinals."""

    __slots__ = ("_parts", "_years")

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        # Counted from the first of the year: by its first weekday, and by who is leap around it.
        self._years: dict[tuple[int, bool, bool, bool], tuple[int, ...]] = {}

    def within(self, first: int, after: int) -> tuple[int, ...]:
        """The rule's days of a period, from its first to the one before `after`."""
        if self._parts.freq == YEARLY:
            return tuple([first + day for day in self._in_year(date.fromordinal(first).year)])
        take(_DAY * (after - first))
        return tuple([day for day in range(first, after) if self.fit(day)])

    def after(self, day: int, step: int = 1) -> int | None:
        """The first of the rule's days after this one, that is a multiple of so many days later;
        None: there is none.
        """
        begin = day
        last, near = min(day + _AHEAD if step == 1 else END, END), day + _NEAR
        while day < last:
            day = max(day + 1, self._month_ahead(day))
            if (day - begin) % step == 0 and self.fit(day):
                return day
            take(_DAY)
            if day > near:
                return self._in_years(day + 1, last, begin, step)
        return None

    def _in_years(self, day: int, last: int, begin: int, step: int) -> int | None:
        """The first from this one on, and not after the last."""
        for year in range(date.fromordinal(day).year, date.fromordinal(last).year + 1):
            first, days = year_start(year), self._in_year(year)
            take(_YEAR + len(days) // 8)
            for offset in days[bisect_left(days, day - first) :]:
                if (first + offset - begin) % step == 0:
                    return first + offset if first + offset <= last else None
        return None

    def _in_year(self, year: int) -> tuple[int, ...]:
        first = year_start(year)
        kind = (first % 7, isleap(year - 1), isleap(year), isleap(year + 1))
        days = self._years.get(kind)
        if days is None or year < _FIRST_OF_ITS_KIND:
            days = tuple([day - first for day in self._candidates(year) if self.fit(day)])
            if year >= _FIRST_OF_ITS_KIND:
                self._years[kind] = days
        return days

    def _candidates(self, year: int) -> list[int]:
        """Those of a year that may fit, ascending, without looking at each."""
        parts, found = self._parts, list[int]()
        if parts.yeardays:
            first, length = year_start(year), _year_length(year)
            numbers = {each if each > 0 else length + 1 + each for each in parts.yeardays}
            found = [first + each - 1 for each in sorted(numbers) if 1 <= each <= length]
        else:
            for month in sorted(parts.months) or range(1, 13):
                number = year * 12 + month - 1
                found += range(month_start(number), month_start(number + 1))
        take(_DAY * len(found))
        return found

    def _month_ahead(self, day: int) -> int:
        """The first of the next month, if this day's month is none of the rule's; or the day."""
        on = date.fromordinal(day)
        if not self._parts.months or on.month in self._parts.months:
            return day
        return month_start(on.year * 12 + on.month)

    def fit(self, ordinal: int) -> bool:
        """Whether a day is one of the rule's, as far as days go."""
        parts, day = self._parts, date.fromordinal(ordinal)
        if parts.months and day.month not in parts.months:
            return False
        if parts.monthdays:
            length = month_start(day.year * 12 + day.month) - ordinal + day.day - 1
            if not {day.day, day.day - length - 1} & parts.monthdays:
                return False
        if parts.yeardays:
            number = ordinal - year_start(day.year) + 1
            if not {number, number - _year_length(day.year) - 1} & parts.yeardays:
                return False
        if parts.weeks and not _week_numbers(day, parts.week_start) & parts.weeks:
            return False
        if parts.weekdays or parts.nth:
            weekday = day.weekday()
            return weekday in parts.weekdays or (bool(parts.nth) and self._is_nth(day, weekday))
        return True

    def _is_nth(self, day: date, weekday: int) -> bool:
        """The second Monday, the last Friday: of the month, or of a year without BYMONTH."""
        ordinal = day.toordinal()
        if self._parts.freq == MONTHLY or self._parts.months:
            number = day.year * 12 + day.month - 1
            first, after = month_start(number), month_start(number + 1)
        else:
            first, after = year_start(day.year), year_start(day.year + 1)
        from_first, from_last = (ordinal - first) // 7 + 1, -((after - 1 - ordinal) // 7 + 1)
        return not self._parts.nth.isdisjoint({(from_first, weekday), (from_last, weekday)})


def month_start(number: int) -> int:
    """The first day of a month; months are counted from the year 0 on."""
    year, month = divmod(number, 12)
    return date(min(year, MAXYEAR), month + 1, 1).toordinal()


def year_start(year: int) -> int:
    return date(min(max(year, MINYEAR), MAXYEAR), 1, 1).toordinal()


def _year_length(year: int) -> int:
    return year_start(year + 1) - year_start(year)


def _week_numbers(day: date, week_start: int) -> set[int]:
    """The number of the day's week, from the beginning and from the end of its week-year."""
    ordinal = day.toordinal()
    for year in (day.year + 1, day.year, day.year - 1):
        first = _first_week(year, week_start)
        if first <= ordinal:
            number = (ordinal - first) // 7 + 1
            weeks = (_first_week(year + 1, week_start) - first) // 7
            return {number, number - weeks - 1}
    raise AssertionError("every day is in some week")


def _first_week(year: int, week_start: int) -> int:
    """The first day of the first week that has at least four days in the year."""
    fourth = date(min(max(year, MINYEAR), MAXYEAR), 1, 4).toordinal()
    return fourth - (fourth - 1 - week_start) % 7
