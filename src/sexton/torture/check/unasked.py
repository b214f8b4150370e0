"""Changes that nobody asked for: every version of a schedule is one that its own tenant wanted."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

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
    is a change that nobody wanted. However often a request is sent under one key, it is one.
    """

    def __init__(self, apart: int) -> None:
        self._apart = apart  # of two clocks
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
        for version, wish in _changes(schedule, registered):
            made[wish] += 1
            in_time = [each for each in self._wanted[wish] if each <= version.at + self._apart]
            if len(in_time) < made[wish]:
                yield version, wish


def _edit(schedule: Schedule, rev: Any) -> Wish:
    """To add is to edit what was not there, or was cancelled."""
    return Wish(schedule.id, "edit", rev)


def _changes(schedule: Schedule, registered: bool) -> Iterator[tuple[Version, Wish]]:
    first = schedule.versions[0]
    if not registered:
        yield first, _edit(schedule, first.payload.get("rev"))
    for before, version in pairwise(schedule.versions):
        was, now = before.state, version.began_as
        stopped = was in ("cancelled", "ended")
        if _says(before) != _says(version) or (stopped and now == "active"):
            yield version, _edit(schedule, version.payload.get("rev"))
        if now == "paused" and (was, before.reason) != (now, version.reason):
            yield version, Wish(schedule.id, "pause", version.reason)
        elif now == "cancelled" and was != now:
            yield version, Wish(schedule.id, "cancel_schedule")
        elif now == "active" and was == "paused" and _is_early(before, version):
            yield version, Wish(schedule.id, "resume")


def _says(version: Version) -> tuple[Any, ...]:
    """All that an edit can change."""
    return version.payload, version.task, version.said


def _is_early(pause: Version, version: Version) -> bool:
    """Whether a pause ended before it would have by itself."""
    return pause.ends is None or version.since < pause.ends
