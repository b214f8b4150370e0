"""A calendar in a zone: whether an instant is in it, and until when that stays so."""

from bisect import bisect_right
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import TypeVar
from zoneinfo import ZoneInfo

_DAY = 86400
_A_SECOND = timedelta(seconds=1)

Edge = TypeVar("Edge", int, datetime)
Span = tuple[datetime, datetime]
Window = tuple[int, int]


class Mask:
    """Compiled for one zone; every length of time is half open."""

    __slots__ = ("_dates", "_edges", "_weekly", "_yearly", "zone")

    def __init__(
        self,
        zone: ZoneInfo,
        dates: Iterable[int],
        yearly: Iterable[tuple[int, int]],
        spans: Iterable[Span],
        weekly: Iterable[tuple[int, Window]],
    ) -> None:
        self.zone = zone
        self._dates = frozenset(dates)
        self._yearly = frozenset(yearly)
        # Every edge of the spans, ascending: after an odd number of them one is inside.
        self._edges = [edge for span in _merged(spans) for edge in span]
        by_weekday: list[list[Window]] = [[] for _ in range(7)]
        for weekday, window in weekly:
            by_weekday[weekday].append(window)
        # The same for the seconds of each weekday.
        self._weekly = tuple(
            [edge for window in _merged(windows) for edge in window] for windows in by_weekday
        )

    def contains(self, instant: datetime) -> bool:
        """Whether an instant is in the calendar."""
        if self._edges and bisect_right(self._edges, instant) % 2:
            return True
        wall = instant.astimezone(self.zone)
        if self._whole(wall):
            return True
        edges = self._weekly[wall.weekday()]
        if not edges:
            return False
        return bisect_right(edges, wall.hour * 3600 + wall.minute * 60 + wall.second) % 2 == 1

    def boundary(self, instant: datetime, limit: datetime) -> datetime | None:
        """The first instant after this one, and before `limit`, where `contains` is another."""
        inside = self.contains(instant)
        while True:
            instant = self.edge(instant)
            if instant >= limit:
                return None
            if self.contains(instant) != inside:
                return instant

    def _whole(self, wall: date) -> bool:
        return wall.toordinal() in self._dates or (wall.month, wall.day) in self._yearly

    def edge(self, instant: datetime) -> datetime:
        """The next instant at which anything may change; at most a day away."""
        wall = instant.astimezone(self.zone)
        second = wall.hour * 3600 + wall.minute * 60 + wall.second
        edges = self._weekly[wall.weekday()]
        later = bisect_right(edges, second)
        following = edges[later] if later < len(edges) else _DAY
        edge = instant + timedelta(seconds=following - second, microseconds=-wall.microsecond)
        if edge.astimezone(self.zone).utcoffset() != wall.utcoffset():
            edge = self._change(instant, edge)
        at = bisect_right(self._edges, instant)
        return min(edge, self._edges[at]) if at < len(self._edges) else edge

    def _change(self, early: datetime, late: datetime) -> datetime:
        """The instant between these two at which the clocks are changed."""
        before = early.astimezone(self.zone).utcoffset()
        early = early.replace(microsecond=0)
        while late - early > _A_SECOND:
            middle = early + (late - early) // _A_SECOND // 2 * _A_SECOND
            if middle.astimezone(self.zone).utcoffset() == before:
                early = middle
            else:
                late = middle
        return late


def _merged(spans: Iterable[tuple[Edge, Edge]]) -> tuple[tuple[Edge, Edge], ...]:
    """Ascending, with those that touch or overlap made one."""
    found: list[tuple[Edge, Edge]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return tuple(found)
