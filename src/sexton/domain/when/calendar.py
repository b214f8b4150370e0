"""Calendars: named sets of dates, ranges and weekly windows that schedules keep out of or in."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from sexton.domain.when.local import instant_of
from sexton.domain.when.mask import Mask, Span
from sexton.domain.when.weekly import window_text, windows_of
from sexton.domain.when.zone import zone_named
from sexton.errors import InvalidSchedule

MAX_ENTRIES = 10_000
MAX_DAYS = 100_000
LONGEST_WINDOWS = 200_000  # characters in all
_YEARLY = re.compile(r"--(\d\d)-(\d\d)")
_A_LEAP_YEAR = 2000
_A_YEAR = 366
_HORIZON = timedelta(days=3660)

DateLike = str | date
RangeLike = str | tuple[DateLike, DateLike] | list[DateLike]


class CalendarRef(msgspec.Struct, frozen=True, order=True):
    """A calendar by its name, in one version; 0 is one that is not looked up yet."""

    name: str
    version: int = 0


class Calendar(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A set of instants, as it is written down.

    dates    2026-12-25, or --12-25 for every year
    ranges   2026-12-24/2027-01-02 (days, both of them in it), --12-24/--01-02 for every year,
             2026-12-20T18:00/2027-01-02T06:00Z (instants, the second one no longer in it)
    windows  mon-fri 09:00-17:00 · sat,sun · 22:00-06:00 (over midnight, every day)

    What has no offset is the calendar's local time, or the schedule's if it has no timezone.
    """

    dates: tuple[str, ...] = ()
    ranges: tuple[str, ...] = ()
    windows: tuple[str, ...] = ()
    timezone: str | None = None

    @classmethod
    def of(
        cls,
        *,
        dates: Iterable[DateLike] = (),
        ranges: Iterable[RangeLike] = (),
        windows: Iterable[str] = (),
        timezone: str | None = None,
    ) -> "Calendar":
        """Checked, and written in one way, so that equal calendars have equal text."""
        found = cls(
            dates=_written("dates", dates, _date_text),
            ranges=_written("ranges", ranges, _range_text),
            windows=_written("windows", windows, window_text),
            timezone=None if timezone is None else zone_named(timezone).key,
        )
        mask(found, "UTC")
        return found

    def contains(self, instant: datetime, zone: str = "UTC") -> bool:
        """Whether an instant is in it, for a schedule in this zone."""
        return mask(self, zone).contains(instant)

    def next_boundary(self, instant: datetime, zone: str = "UTC") -> datetime | None:
        """The first later instant where `contains` is another; None: not within ten years."""
        return mask(self, zone).boundary(instant, instant + _HORIZON)

    def to_json(self) -> str:
        return msgspec.json.encode(self, order="sorted").decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> "Calendar":
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise InvalidSchedule(f"calendar: cannot be read: {error}") from None


def business_days(timezone: str | None = None) -> Calendar:
    """Monday to Friday."""
    return Calendar.of(windows=["mon-fri"], timezone=timezone)


def weekends(timezone: str | None = None) -> Calendar:
    """Saturday and Sunday."""
    return Calendar.of(windows=["sat-sun"], timezone=timezone)


@lru_cache(maxsize=1024)
def mask(calendar: Calendar, zone: str) -> Mask:
    """The calendar as a schedule in this zone sees it."""
    own = zone_named(calendar.timezone or zone)
    dates: set[int] = set()
    yearly: set[tuple[int, int]] = set()
    spans: list[Span] = []
    days = 0  # those in several ranges as often
    for text in calendar.dates:
        if text.startswith("--"):
            yearly.add(_yearly_date("dates", text))
        else:
            dates.add(_date("dates", text).toordinal())
    for text in calendar.ranges:
        first, last = _ends(text)
        if "T" in text:
            spans.append(_span(text, first, last, own))
        elif text.startswith("--"):
            yearly.update(_yearly_days(first, last))
            days += _A_YEAR
        else:
            some = _days(text, first, last)
            days += len(some)
            dates.update(some)
        if days > MAX_DAYS:
            raise InvalidSchedule(f"calendar: more than {MAX_DAYS:,} days; use instants")
    weekly = [each for text in calendar.windows for each in windows_of(text)]
    return Mask(own, dates, yearly, spans, weekly)


def _written(field: str, given: Any, text_of: Any) -> tuple[str, ...]:
    if isinstance(given, str | date) or not isinstance(given, Iterable):
        raise InvalidSchedule(f"calendar: {field} is a list, not {given!r}")
    listed = list(given)
    if field == "windows" and sum(len(str(each)) for each in listed) > LONGEST_WINDOWS:
        raise InvalidSchedule(f"calendar: windows has more than {LONGEST_WINDOWS:,} characters")
    found = sorted({text_of(each) for each in listed})
    if len(found) > MAX_ENTRIES:
        raise InvalidSchedule(f"calendar: {field} has more than {MAX_ENTRIES:,} entries")
    return tuple(found)


# Dates, alone and from one to another.


def _date_text(given: DateLike) -> str:
    if isinstance(given, date) and not isinstance(given, datetime):
        return given.isoformat()
    if isinstance(given, str):
        text = given.strip()
        if text.startswith("--"):
            month, day = _yearly_date("dates", text)
            return f"--{month:02}-{day:02}"
        return _date("dates", text).isoformat()
    raise InvalidSchedule(f"calendar: dates: {given!r} is not a date; write it like 2026-12-25")


def _date(field: str, text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidSchedule(
            f"calendar: {field}: {text!r} is not a date; "
            "write it like 2026-12-25, or --12-25 for every year"
        ) from None


def _yearly_date(field: str, text: str) -> tuple[int, int]:
    found = _YEARLY.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        day = date(_A_LEAP_YEAR, int(found[1]), int(found[2]))
    except ValueError:
        raise InvalidSchedule(
            f"calendar: {field}: {text!r} is not a day of the year; write it like --12-25"
        ) from None
    return day.month, day.day


def _range_text(given: RangeLike) -> str:
    if isinstance(given, str):
        first, last = _ends(given)
    elif isinstance(given, tuple | list) and len(given) == 2:
        first, last = (
            each.isoformat() if isinstance(each, date) else str(each).strip() for each in given
        )
    else:
        raise InvalidSchedule(
            f"calendar: ranges: {given!r} is not a range; write 2026-12-24/2027-01-02 or a pair"
        )
    text = "/".join((_end_text(first), _end_text(last)))
    kinds = {("T" in end, end.startswith("--")) for end in _ends(text)}
    if len(kinds) > 1:
        raise InvalidSchedule(
            f"calendar: ranges: {text}: both ends are days, or days of every year, or instants"
        )
    return text


def _ends(text: str) -> tuple[str, str]:
    first, slash, last = (each.strip() for each in text.partition("/"))
    if not slash or not first or not last:
        raise InvalidSchedule(
            f"calendar: ranges: {text!r} has not two ends; write it like 2026-12-24/2027-01-02"
        )
    return first, last


def _end_text(end: str) -> str:
    if end.startswith("--"):
        month, day = _yearly_date("ranges", end)
        return f"--{month:02}-{day:02}"
    if "T" not in end and ":" not in end:
        return _date("ranges", end).isoformat()
    stamp = _stamp(end)
    return (
        stamp.isoformat() if stamp.tzinfo is None else f"{stamp.replace(tzinfo=None).isoformat()}Z"
    )


def _stamp(end: str) -> datetime:
    try:
        read = datetime.fromisoformat(end)
        return read if read.tzinfo is None else read.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidSchedule(
            f"calendar: ranges: {end!r} is not an instant; write it like 2026-12-20T18:00:00Z"
        ) from None


def _yearly_days(first: str, last: str) -> Iterator[tuple[int, int]]:
    day = date(_A_LEAP_YEAR, *_yearly_date("ranges", first))
    end = _yearly_date("ranges", last)
    while True:
        yield day.month, day.day
        if (day.month, day.day) == end:
            return
        day += timedelta(days=1)


def _days(text: str, first: str, last: str) -> range:
    begin, end = _date("ranges", first).toordinal(), _date("ranges", last).toordinal()
    if begin > end:
        raise InvalidSchedule(f"calendar: ranges: {text} runs backwards")
    return range(begin, min(end, begin + MAX_DAYS) + 1)


def _span(text: str, first: str, last: str, zone: ZoneInfo) -> Span:
    begin, end = (_instant(_stamp(each), zone) for each in (first, last))
    if begin >= end:
        raise InvalidSchedule(f"calendar: ranges: {text} runs backwards")
    return begin, end


def _instant(stamp: datetime, zone: ZoneInfo) -> datetime:
    """As near as there is, if the end of time lies between UTC and the zone."""
    if stamp.tzinfo is not None:
        return stamp
    try:
        return instant_of(stamp, zone)
    except OverflowError:
        return stamp.replace(tzinfo=UTC)
