"""Changes that nobody asked for: every version of a schedule is one that its own tenant wanted."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from sexton.torture.check.calendars import Almanac
from sexton.torture.check.folder import Ask
from sexton.torture.check.things import Schedule, Version


class Wish(NamedTuple):
    """A change of a schedule, and what tells it from others of its kind: a `rev`, a reason."""

    schedule: int
    kind: str
    tells: Any = None

    def __str__(self) -> str:
        return self.kind if self.tells is None else f"{self.kind} {self.tells!r}"


class Unasked:
    """When each change of each schedule was wanted; each time it may be made once.

    A trespass wants nothing here, nor does what was refused: if it takes effect all the same, that
    is a change that nobody wanted. However often a request is sent under one key, it is one. Who
    changes a calendar changes every schedule that goes by it.
    """

    def __init__(self, apart: int, almanac: Almanac) -> None:
        self._apart = apart  # of two clocks
        self._almanac = almanac
        self._wanted: dict[Wish, list[int]] = defaultdict(list)

    def hear(self, ask: Ask, schedule: Schedule) -> None:
        if ask.refused or ask.again is not None:
            return
        match ask.verb:
            case "add" | "update":
                wish = _edit(schedule, (ask.body.get("payload") or {}).get("rev"))
            case "pause":
                wish = Wish(schedule.id, "pause", ask.body.get("reason"))
            case "resume" | "cancel_schedule":
                wish = Wish(schedule.id, ask.verb)
            case _:
                return
        self._wanted[wish].append(ask.began)

    def of(self, schedule: Schedule, *, registered: bool) -> Iterator[tuple[Version, Wish]]:
        """Its versions that nobody wanted, or not so often, and what they changed."""
        made: Counter[Wish] = Counter()
        for version, wish in _changes(schedule, registered, self._almanac):
            made[wish] += 1
            in_time = [each for each in self._wanted[wish] if each <= version.at + self._apart]
            if len(in_time) < made[wish]:
                yield version, wish


def _edit(schedule: Schedule, rev: Any) -> Wish:
    """To add is to edit what was not there, or was cancelled."""
    return Wish(schedule.id, "edit", rev)


def _changes(
    schedule: Schedule, registered: bool, almanac: Almanac
) -> Iterator[tuple[Version, Wish]]:
    first = schedule.versions[0]
    if not registered:
        yield first, _edit(schedule, first.payload.get("rev"))
    for before, version in pairwise(schedule.versions):
        wishes = [*_of_its_state(schedule, before, version)]
        follows = almanac.changes(schedule, version)
        over = ("cancelled",) if follows else ("cancelled", "ended")
        came_back = before.state in over and version.began_as == "active"
        same = before.state == version.began_as and not wishes and not follows
        if _says(before) != _says(version) or came_back or same:
            wishes.append(_edit(schedule, version.payload.get("rev")))
        yield from ((version, wish) for wish in wishes)


def _of_its_state(schedule: Schedule, before: Version, version: Version) -> Iterator[Wish]:
    match before.state, version.began_as:
        case "paused", "active":
            if before.ends is None or version.since < before.ends:  # not by itself
                yield Wish(schedule.id, "resume")
        case was, "paused":
            if (was, before.reason, before.ends) != ("paused", version.reason, version.ends):
                yield Wish(schedule.id, "pause", version.reason)
        case was, "cancelled":
            if was != "cancelled":
                yield Wish(schedule.id, "cancel_schedule")


def _says(version: Version) -> tuple[Any, ...]:
    """All that an edit can change."""
    return version.payload, version.task, version.said
