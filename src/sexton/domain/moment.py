"""What a schedule's versions say about an instant: a fire, one that calendars took out, or none."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from sexton.domain.change import VersionView
from sexton.domain.fires import latest_until
from sexton.domain.schedule import Rule
from sexton.domain.when.calendar import Calendar, CalendarRef
from sexton.domain.when.definition import Definition
from sexton.domain.when.rule import MOMENT
from sexton.domain.when.timetable import Timetable

A_SECOND = timedelta(seconds=1)
# Versions in which there may be something that would have been a fire.
_SPEAKS = ("active", "paused", "ended", "quarantined")


@dataclass(frozen=True, slots=True)
class Spoken:
    """A version of a schedule, with its rule or the reason why that cannot be used."""

    view: VersionView
    rule: Rule | str

    @property
    def timetable(self) -> Timetable | None:
        return None if isinstance(self.rule, str) else self.rule.timetable


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant of a schedule: what it stands for, when the fire is, and what is odd about it."""

    scheduled_at: datetime
    fire_at: datetime
    note: str | None = None
    excluded: bool = False


def in_effect(versions: Iterable[Spoken], scheduled_at: datetime) -> Spoken | None:
    """The version that speaks for an instant; None: there was none yet."""
    for each in versions:
        since, until = each.view.since, each.view.until
        if since < scheduled_at and (until is None or scheduled_at <= until):
            return each
    return None


def second_of(at: datetime) -> tuple[datetime, datetime]:
    """What is meant by an instant: all of its second, if it has no fraction."""
    return at, at + (MOMENT if at.microsecond else A_SECOND)


def moment_at(version: Spoken, seed: int, at: datetime) -> Moment | None:
    """The fire that stands for an instant, or that was to be fired then."""
    timetable, anchor = version.timetable, version.view.anchor
    if timetable is None:
        return None
    begins, ends = second_of(at)
    jitter = timedelta(seconds=timetable.definition.jitter)
    for tick in timetable.ticks(begins - jitter - MOMENT, ends - MOMENT, anchor):
        fire_at = timetable.fire_at(tick.at, anchor, seed)
        if begins <= tick.at or begins <= fire_at < ends:
            return Moment(tick.at, fire_at, tick.note)
    for tick in timetable.excluded(begins - MOMENT, ends, anchor):
        return Moment(tick.at, tick.at, tick.note, excluded=True)
    return None


def moment_before(versions: Sequence[Spoken], seed: int, at: datetime) -> Moment | None:
    """The last fire before an instant; `versions` has the newest first."""
    for version in versions:
        view, timetable = version.view, version.timetable
        if view.since >= at or view.state not in _SPEAKS or timetable is None:
            continue
        first = timetable.after(view.since, view.anchor)
        last = at - MOMENT if view.until is None else min(at - MOMENT, view.until)
        if first is None or first > last:
            continue
        found = latest_until(timetable, last, first, view.anchor)
        note = next(
            (tick.note for tick in timetable.ticks(found - MOMENT, found, view.anchor)), None
        )
        return Moment(found, timetable.fire_at(found, view.anchor, seed), note)
    return None


def moment_after(versions: Sequence[Spoken], seed: int, at: datetime) -> Moment | None:
    """The first fire after an instant; `versions` has the newest first."""
    for version in reversed(versions):
        view, timetable = version.view, version.timetable
        if view.state not in _SPEAKS or timetable is None:
            continue
        if view.until is not None and view.until <= at:
            continue
        for planned in timetable.preview(max(at, view.since), 1, view.anchor, seed):
            if view.until is None or planned.scheduled_at <= view.until:
                return Moment(planned.scheduled_at, planned.fire_at, planned.note)
    return None


def taken_out(
    definition: Definition, calendars: Mapping[CalendarRef, Calendar], at: datetime
) -> list[str]:
    """In words which calendars an instant falls out by, and by which of their entries."""
    zone = definition.timezone
    found = []
    for ref in definition.exclude:
        if (calendar := calendars.get(ref)) is not None and calendar.contains(at, zone):
            found.append(f"calendar {ref.name!r} has {', '.join(_entries(calendar, at, zone))}")
    if not found and definition.only:
        names = " or ".join(repr(ref.name) for ref in definition.only)
        found.append(f"it is not within calendar {names}")
    return found


def _entries(calendar: Calendar, at: datetime, zone: str) -> list[str]:
    """The entries that hold an instant, as they are written."""
    alone = Calendar(timezone=calendar.timezone)
    return [
        entry
        for field in ("dates", "ranges", "windows")
        for entry in getattr(calendar, field)
        if msgspec.structs.replace(alone, **{field: (entry,)}).contains(at, zone)
    ]
