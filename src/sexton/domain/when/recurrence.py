"""The walls of a recurrence rule (RFC 5545), from any wall on, without counting from the first.

A rule is read period by period: years, months, weeks or days, of which the BY parts choose days
and then times; or hours, minutes or seconds on a grid, over which the BY parts are filters.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import MAXYEAR, MINYEAR, date, datetime, timedelta
from itertools import islice
from typing import Final

from sexton.domain.when.parts import (
    DAILY,
    HOURLY,
    MINUTELY,
    MONTHLY,
    SECONDLY,
    WEEKLY,
    YEARLY,
    Parts,
    completed,
)
from sexton.domain.when.rule import LAST

_UNITS = {HOURLY: 3600, MINUTELY: 60, SECONDLY: 1}
_DAY = 86400
# The calendar repeats after 400 years: after so many periods without a match there is none.
_PERIODS = {YEARLY: 400, MONTHLY: 4800, WEEKLY: 20_871, DAILY: 146_097}
_LONGEST = {YEARLY: 366, MONTHLY: 31, WEEKLY: 7, DAILY: 1}
# A day that fits recurs within 40 years, the longest distance of a 29 February on a given weekday.
_DAYS_AHEAD = 41 * 366
# A grid of hours, minutes or seconds may miss such days for longer; nobody waits for that.
_MISSES = 20_000
_END = LAST.replace(tzinfo=None).toordinal()


class Recurrence:
    """A rule with its start; `walls` makes it a rule about the clock on the wall."""

    __slots__ = ("_counted", "_grid", "_kept", "parts", "start", "sub_hourly")

    def __init__(self, parts: Parts, start: datetime) -> None:
        start = start.replace(microsecond=0)
        self.parts: Final = completed(parts, start)
        self.start: Final = start
        unit = _UNITS.get(parts.freq, 1)
        self.sub_hourly: Final = len(self.parts.hours) in (0, 24) and unit * parts.interval <= 3600
        self._grid = _seconds(start) // unit * unit
        self._counted: tuple[datetime, ...] | None = None
        # The days of the last period that was looked at: the next question is about the same.
        self._kept: tuple[int, tuple[int, ...]] = (-1, ())

    def walls(self, start: datetime) -> Iterator[datetime]:
        if self.parts.count is None:
            return self._from(max(start, self.start))
        if self._counted is None:
            self._counted = tuple(islice(self._from(self.start), self.parts.count))
        return islice(self._counted, bisect_left(self._counted, start), None)

    def _from(self, first: datetime) -> Iterator[datetime]:
        moments = self._clock(first) if self.parts.freq >= HOURLY else self._calendar(first)
        bound = _seconds(first) + (first.microsecond > 0)
        for moment in moments:
            if moment >= bound:
                day, second = divmod(moment, _DAY)
                yield datetime.fromordinal(day) + timedelta(seconds=second)

    # Years, months, weeks and days: each period has days, each day has times.

    def _calendar(self, first: datetime) -> Iterator[int]:
        day_of_first = first.toordinal()
        for days in self._periods(first):
            if self.parts.positions:
                yield from self._chosen(days)
                continue
            for day in days:
                if day > day_of_first:
                    yield from self._times(day, 0)
                elif day == day_of_first:
                    yield from self._times(day, _seconds(first) % _DAY)

    def _times(self, day: int, since: int) -> Iterator[int]:
        parts, base = self.parts, day * _DAY
        for hour in parts.hours:
            if hour * 3600 + 3600 <= since:
                continue
            for minute in parts.minutes:
                whole = hour * 3600 + minute * 60
                if whole + 60 <= since:
                    continue
                for second in parts.seconds:
                    if whole + second >= since:
                        yield base + whole + second

    def _chosen(self, days: Sequence[int]) -> Iterator[int]:
        """BYSETPOS: some of all the period's moments, found without listing them."""
        parts = self.parts
        for index in _indexes(parts.positions, self._size(days)):
            index, second = divmod(index, len(parts.seconds))
            index, minute = divmod(index, len(parts.minutes))
            day, hour = divmod(index, len(parts.hours))
            time = parts.hours[hour] * 3600 + parts.minutes[minute] * 60 + parts.seconds[second]
            yield days[day] * _DAY + time

    def _size(self, days: Sequence[int]) -> int:
        parts = self.parts
        return len(days) * len(parts.hours) * len(parts.minutes) * len(parts.seconds)

    def _periods(self, first: datetime) -> Iterator[tuple[int, ...]]:
        """The days of each period that has any, beginning with the one that `first` is in."""
        freq, interval = self.parts.freq, self.parts.interval
        origin = self._number(self.start)
        number = origin + (self._number(first) - origin) // interval * interval
        misses = 0
        longest = self._size(range(_LONGEST[freq]))
        if self.parts.positions and not _indexes(self.parts.positions, longest):
            return
        while misses <= _PERIODS[freq]:
            kept, days = self._kept
            if kept != number:
                span = self._span(number)
                if span is None:
                    return
                days = tuple(day for day in range(*span) if self._fits(day))
                if self.parts.positions and not _indexes(self.parts.positions, self._size(days)):
                    days = ()
                self._kept = number, days
            if days:
                misses = 0
                yield days
            else:
                misses += 1
                if freq == DAILY and (ahead := self._month_ahead(number)) > number:
                    number += (ahead - number - 1) // interval * interval
            number += interval

    def _number(self, wall: datetime) -> int:
        if self.parts.freq == YEARLY:
            return wall.year
        if self.parts.freq == MONTHLY:
            return wall.year * 12 + wall.month - 1
        if self.parts.freq == WEEKLY:
            return (wall.toordinal() - 1 - self.parts.week_start) // 7
        return wall.toordinal()

    def _span(self, number: int) -> tuple[int, int] | None:
        """First day of a period and the day after its last; None: beyond the end of time."""
        if self.parts.freq == YEARLY:
            span = _year_start(number), _year_start(number + 1)
        elif self.parts.freq == MONTHLY:
            span = _month_start(number), _month_start(number + 1)
        elif self.parts.freq == WEEKLY:
            first = number * 7 + 1 + self.parts.week_start
            span = first, first + 7
        else:
            span = number, number + 1
        return span if span[0] < _END else None

    # Hours, minutes and seconds: a grid, and the BY parts jump over what they do not allow.

    def _clock(self, first: datetime) -> Iterator[int]:
        unit = _UNITS[self.parts.freq]
        moment = self._aligned(_seconds(first) // unit * unit)
        end = min(moment // _DAY + _PERIODS[DAILY], _END) * _DAY
        misses = 0
        while misses <= _MISSES and moment < end:
            allowed = self._allowed(moment)
            if allowed is None:
                return
            if allowed > moment:
                moment = self._aligned(allowed)
                misses += 1
                continue
            inside = list(self._inside(moment))
            if self.parts.positions:
                inside = [inside[at] for at in _indexes(self.parts.positions, len(inside))]
                if not inside:  # the same at every point of the grid
                    return
            misses = 0
            yield from inside
            moment += self.parts.interval * unit

    def _aligned(self, moment: int) -> int:
        """The first point of the grid from a moment on."""
        step = self.parts.interval * _UNITS[self.parts.freq]
        return moment + (self._grid - moment) % step if moment > self._grid else self._grid

    def _allowed(self, moment: int) -> int | None:
        """The moment itself, or a later one before which nothing is allowed; None: never."""
        parts = self.parts
        day, second = divmod(moment, _DAY)
        if not self._fits(day):
            later = self._day_ahead(day)
            return None if later is None else later * _DAY
        if parts.hours and (hour := second // 3600) not in parts.hours:
            return day * _DAY + _next(parts.hours, hour, 24) * 3600
        if parts.freq >= MINUTELY and parts.minutes:
            minute = second // 60 % 60
            if minute not in parts.minutes:
                return moment // 3600 * 3600 + _next(parts.minutes, minute, 60) * 60
        if parts.freq == SECONDLY and parts.seconds and second % 60 not in parts.seconds:
            return moment // 60 * 60 + _next(parts.seconds, second % 60, 60)
        return moment

    def _inside(self, moment: int) -> Iterator[int]:
        parts = self.parts
        if parts.freq == HOURLY:
            return (moment + m * 60 + s for m in parts.minutes for s in parts.seconds)
        if parts.freq == MINUTELY:
            return (moment + s for s in parts.seconds)
        return iter((moment,))

    def _day_ahead(self, day: int) -> int | None:
        last = min(day + _DAYS_AHEAD, _END)
        while day < last:
            day = max(day + 1, self._month_ahead(day))
            if self._fits(day):
                return day
        return None

    def _month_ahead(self, day: int) -> int:
        """The first of the next month, if this day's month is none of the rule's; or the day."""
        on = date.fromordinal(day)
        if not self.parts.months or on.month in self.parts.months:
            return day
        return _month_start(on.year * 12 + on.month)

    def _fits(self, ordinal: int) -> bool:
        """Whether a day is one of the rule's, as far as days go."""
        parts, day = self.parts, date.fromordinal(ordinal)
        if parts.months and day.month not in parts.months:
            return False
        if parts.monthdays:
            length = _month_start(day.year * 12 + day.month) - ordinal + day.day - 1
            if not {day.day, day.day - length - 1} & parts.monthdays:
                return False
        if parts.yeardays:
            number = ordinal - _year_start(day.year) + 1
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
        if self.parts.freq == MONTHLY or self.parts.months:
            number = day.year * 12 + day.month - 1
            first, after = _month_start(number), _month_start(number + 1)
        else:
            first, after = _year_start(day.year), _year_start(day.year + 1)
        from_first, from_last = (ordinal - first) // 7 + 1, -((after - 1 - ordinal) // 7 + 1)
        return not self.parts.nth.isdisjoint({(from_first, weekday), (from_last, weekday)})


def _seconds(wall: datetime) -> int:
    return wall.toordinal() * _DAY + wall.hour * 3600 + wall.minute * 60 + wall.second


def _indexes(positions: tuple[int, ...], size: int) -> list[int]:
    """Positions counted from 1, or from the end by negative numbers, as ascending indexes."""
    found = {at - 1 if at > 0 else size + at for at in positions}
    return sorted(index for index in found if 0 <= index < size)


def _next(values: tuple[int, ...], value: int, size: int) -> int:
    """The next larger value of an ascending set, or the end of the whole."""
    at = bisect_left(values, value)
    return values[at] if at < len(values) else size


def _month_start(number: int) -> int:
    year, month = divmod(number, 12)
    return date(min(year, MAXYEAR), month + 1, 1).toordinal()


def _year_start(year: int) -> int:
    return date(min(max(year, MINYEAR), MAXYEAR), 1, 1).toordinal()


def _year_length(year: int) -> int:
    return _year_start(year + 1) - _year_start(year)


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
