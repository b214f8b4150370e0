"""The walls of a recurrence rule (RFC 5545), from any wall on, without counting from the first.

A rule is read period by period: years, months, weeks or days, of which the BY parts choose days
and then times; or hours, minutes or seconds on a grid, over which the BY parts are filters.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from sexton.domain.when.dates import END as _END
from sexton.domain.when.dates import Dates, month_start, year_start
from sexton.domain.when.effort import take
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

_UNITS = {HOURLY: 3600, MINUTELY: 60, SECONDLY: 1}
_DAY = 86400
# The calendar repeats after 400 years: after so many periods without a match there is none.
_PERIODS = {YEARLY: 400, MONTHLY: 4800, WEEKLY: 20_871, DAILY: 146_097}
_LONGEST = {YEARLY: 366, MONTHLY: 31, WEEKLY: 7, DAILY: 1}
# A grid of hours, minutes or seconds may miss the rule's days for long; nobody waits for that.
_MISSES = 20_000
_STEP = 4  # of effort, for each moment and each period


class Recurrence:
    """A rule with its start; `walls` makes it a rule about the clock on the wall."""

    __slots__ = ("_dates", "_grid", "_kept", "_last", "parts", "start", "sub_hourly")

    def __init__(self, parts: Parts, start: datetime) -> None:
        start = start.replace(microsecond=0)
        self.parts: Final = completed(parts, start)
        self.start: Final = start
        unit = _UNITS.get(parts.freq, 1)
        self.sub_hourly: Final = len(self.parts.hours) in (0, 24) and unit * parts.interval <= 3600
        self._grid = _seconds(start) // unit * unit
        self._last: datetime | None = None  # with COUNT, once it was counted
        self._dates = Dates(self.parts)
        # The days of the last period that was looked at: the next question is about the same.
        self._kept: tuple[int, tuple[int, ...]] = (-1, ())

    def walls(self, start: datetime) -> Iterator[datetime]:
        walls = self._from(max(start, self.start))
        return walls if self.parts.count is None else self._counted(walls)

    def _counted(self, walls: Iterator[datetime]) -> Iterator[datetime]:
        """Up to the last that COUNT allows; they are counted once, and not kept."""
        if self._last is None:
            some = islice(self._from(self.start), self.parts.count)
            self._last = next(iter(deque(some, maxlen=1)), datetime.min)  # noqa: DTZ901 - a wall
        for wall in walls:
            if wall > self._last:
                return
            yield wall

    def _from(self, first: datetime) -> Iterator[datetime]:
        moments = self._clock(first) if self.parts.freq >= HOURLY else self._calendar(first)
        bound = _seconds(first) + (first.microsecond > 0)
        for moment in moments:
            take(_STEP)
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
            take(_STEP)
            kept, days = self._kept
            if kept != number:
                span = self._span(number)
                if span is None:
                    return
                days = self._dates.within(*span)
                if not days:
                    before_next = self._skip(number, span[1])
                    if before_next is None:
                        return
                    number = before_next
                if self.parts.positions and not _indexes(self.parts.positions, self._size(days)):
                    days = ()
                self._kept = number, days
            if days:
                misses = 0
                yield days
            else:
                misses += 1
            number += interval

    def _skip(self, number: int, ends: int) -> int | None:
        """The last period before the next that has days, if this one has none; None: none has."""
        freq, interval = self.parts.freq, self.parts.interval
        later = self._dates.after(ends - 1, interval if freq == DAILY else 1)
        if later is None:
            return None
        ahead = self._number(datetime.fromordinal(later)) - number - 1
        return number + ahead // interval * interval

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
            span = year_start(number), year_start(number + 1)
        elif self.parts.freq == MONTHLY:
            span = month_start(number), month_start(number + 1)
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
            take(_STEP)
            allowed = self._allowed(moment)
            if allowed is None:
                return
            if allowed > moment:
                moment = self._aligned(allowed)
                misses += 1
                continue
            inside = list(self._inside(moment))
            take(len(inside))
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
        if not self._dates.fit(day):
            later = self._dates.after(day)
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
