"""When the clocks of a zone are changed, and which readings of the wall have an instant.

Local time is a row of *spans*. Within one, an instant is the wall less an offset. Where clocks go
forward, the walls between have no instant of their own (a gap); where they go back, some come
twice. What becomes of those is chosen by which spans there are; looking for the next fire does
not know about changes of clocks at all.
"""

from datetime import datetime
from functools import lru_cache
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

DAY = 86_400
# Spans are made a year at a time, and years here are all equally long.
YEAR = 31_556_952
# No clock was ever changed by more than a day, and no zone ever changed twice within four.
MARGIN = 3 * DAY

Gap = Literal["pin", "shift", "drop"]


class Change(NamedTuple):
    """At this instant the offset from UTC becomes another."""

    at: int
    before: int
    after: int


class Span(NamedTuple):
    """Walls from `low` up to `high`, which happen from `begins` up to `ends`.

    A pinned one is a gap: all its walls together happen at `begins`.
    """

    begins: int
    ends: int
    offset: int
    low: int
    high: int
    pinned: bool


@lru_cache(maxsize=8192)
def changes(zone: ZoneInfo, year: int) -> tuple[int, tuple[Change, ...]]:
    """The offset some days before this year, and every change from there to some days after it.

    zoneinfo keeps the changes to itself, so it is asked day by day.
    """
    start, end = year * YEAR - MARGIN, (year + 1) * YEAR + MARGIN
    first = before = _offset(zone, start)
    found = []
    for day in range(start + DAY, end + DAY, DAY):
        after = _offset(zone, day)
        if after != before:
            found.append(Change(_moment(zone, day - DAY, day, before), before, after))
            before = after
    return first, tuple(found)


def _offset(zone: ZoneInfo, instant: int) -> int:
    offset = datetime.fromtimestamp(instant, zone).utcoffset()
    assert offset is not None
    return offset.days * DAY + offset.seconds


def _moment(zone: ZoneInfo, early: int, late: int, before: int) -> int:
    while late - early > 1:
        middle = (early + late) // 2
        if _offset(zone, middle) == before:
            early = middle
        else:
            late = middle
    return late


class Spans(dict[int, tuple[Span, ...]]):
    """The spans of a zone by year, made when first asked for.

    `twice`: walls that come twice have two instants, or else only the first. `gap`: walls in a
    gap happen together when it ends, each as much later as the gap is long, or not at all.
    """

    def __init__(self, zone: ZoneInfo, twice: bool, gap: Gap) -> None:
        super().__init__()
        self.seen = zone, twice, gap
        self.zone, self.twice, self.gap = self.seen

    def __missing__(self, year: int) -> tuple[Span, ...]:
        if len(self) >= 1000:
            self.clear()
        self[year] = made = tuple(self._make(year))
        return made

    def _make(self, year: int) -> list[Span]:
        first, last = year * YEAR, (year + 1) * YEAR
        offset, found = changes(self.zone, year)
        spans = []
        begins = first - MARGIN
        for change in found:
            spans.append(Span(begins, change.at, offset, 0, 0, False))
            begins, offset = change.at, change.after
            if change.after < change.before and not self.twice:
                begins += change.before - change.after
            elif change.after > change.before and self.gap != "drop":
                spans.append(self._gap(change))
        spans.append(Span(begins, last, offset, 0, 0, False))
        return [cut for span in spans if (cut := _cut(span, first, last)) is not None]

    def _gap(self, change: Change) -> Span:
        at, before, after = change
        if self.gap == "pin":
            return Span(at, at + 1, 0, at + before, at + after, True)
        return Span(at, at + after - before, before, 0, 0, False)


def _cut(span: Span, first: int, last: int) -> Span | None:
    """What of it lies within the year, with its walls."""
    begins, ends = max(span.begins, first), min(span.ends, last)
    if begins >= ends:
        return None
    if span.pinned:
        return span
    return Span(begins, ends, span.offset, begins + span.offset, ends + span.offset, False)


@lru_cache(maxsize=4096)
def spans_of(zone: ZoneInfo, twice: bool, gap: Gap) -> Spans:
    """One row of spans for all schedules that see the zone alike."""
    return Spans(zone, twice, gap)
