"""Rules that are in the database, by their text: of many schedules few have a new one."""

from collections.abc import Mapping
from datetime import datetime
from itertools import islice

from sexton.domain.schedule import Rule

KEPT = 10_000


class Known:
    """A rule with its id, and the instant that it gives next, as long as that lies ahead."""

    __slots__ = ("_first", "_since", "id", "rule")

    def __init__(self, id: int, rule: Rule) -> None:
        self.id = id
        self.rule = rule
        self._since: datetime | None = None
        self._first: datetime | None = None

    def first(self, anchor: datetime, now: datetime) -> datetime | None:
        """The first instant after now, without jitter; None: there is none."""
        timetable = self.rule.timetable
        if timetable.needs_anchor:
            return timetable.after(now, anchor)
        if self._since is None or self._first is None or not self._since <= now < self._first:
            self._since, self._first = now, timetable.after(now, anchor)
        return self._first


class Rulebook:
    """Rules are never changed or removed, so what is in here stays right.

    What a transaction has written belongs in here when that has been committed, not before.
    """

    def __init__(self) -> None:
        self._kept: dict[str, Known] = {}

    def forget(self) -> None:
        """The server was away: another may have taken its place, and lack its last rules."""
        self._kept.clear()

    def get(self, text: str) -> Known | None:
        return self._kept.get(text)

    def keep(self, written: Mapping[str, Known]) -> None:
        """Only those that name no calendar: a calendar changes, and the rule's text with it."""
        self._kept |= written
        for text in [*islice(self._kept, max(0, len(self._kept) - KEPT))]:
            del self._kept[text]
