"""Instants and walls as these tests write them."""

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from sexton.domain.when import Calendar, CalendarRef, Definition, Timetable
from sexton.domain.when.rule import Rule

# Of every schedule whose definition leaves it open.
ANCHOR = datetime(2026, 1, 1, tzinfo=UTC)


def wall(text: str) -> datetime:
    """The same without a zone."""
    return datetime.fromisoformat(text)


INSTANTS = st.datetimes(wall("1990-01-01"), wall("2100-01-01"), timezones=st.just(UTC))


def utc(text: str) -> datetime:
    """2026-03-28 12:00, in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def local(instants: Iterable[datetime], zone: str) -> list[str]:
    """What the clock shows, with the offset where it matters which one."""
    return [f"{each.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M%z}" for each in instants]


def following(rule: Rule, instant: datetime, count: int) -> list[datetime]:
    """The next so many of a rule, asked for one after the other."""
    found: list[datetime] = []
    while len(found) < count and (at := rule.after(instant)) is not None:
        found.append(at)
        instant = at
    return found


def timetable(calendars: dict[str, Calendar] | None = None, /, **when: object) -> Timetable:
    """Compiled from what a user would write, with calendars by name."""
    known = calendars or {}
    definition = Definition.of(**when).pinned(dict.fromkeys(known, 1))  # type: ignore[arg-type]
    return Timetable.compile(definition, {CalendarRef(name, 1): known[name] for name in known})


def fires(table: Timetable, instant: str, count: int) -> list[str]:
    """The next so many fires, as walls of the schedule's own zone."""
    rule = table.rule(ANCHOR)
    zone = ZoneInfo(table.definition.timezone)
    found = islice(following(rule, utc(instant), count), count)
    return [f"{each.astimezone(zone):%Y-%m-%d %H:%M}" for each in found]
