"""Calendars over time: which one a version of a schedule goes by.

A changed calendar is a new version of every schedule that goes by it, in the same transaction. Who
edits or adds a schedule takes the calendars as they are, and nobody changes them meanwhile; a pause
and its end leave it with those that it had.
"""

import json
from collections import defaultdict
from typing import NamedTuple

from sexton.torture.check.folder import Change
from sexton.torture.check.said import instant
from sexton.torture.check.things import Schedule, Version
from sexton.torture.check.when import Pins, Ranges

Named = tuple[int, str]  # tenant, name


class Put(NamedTuple):
    """A calendar as it was from then on."""

    change: Change
    content: str


class Almanac:
    """Fed with the changes of calendars, and with the versions that take them."""

    def __init__(self, described: Pins) -> None:
        self.now = described  # never changed, but replaced: versions keep theirs
        self.puts: dict[Named, list[Put]] = defaultdict(list)
        self.described = described
        self._by: set[tuple[int, Named]] = set()  # transactions, and what they changed

    def change(self, change: Change) -> None:
        if change.op == "D":
            return
        named: Named = (change.now["tenant"], change.now["name"])
        ranges = _ranges(change.now["definition"])
        self.puts[named].append(Put(change, content_of(ranges)))
        self._by.add((change.tx, named))
        self.now = {**self.now, named: ranges}

    def pin(self, schedule: Schedule, before: Version) -> None:
        """A schedule was changed: its version, if it is another one, takes the calendars."""
        version = schedule.current
        if version is before:
            return
        says, said = ((each.payload, each.task, each.said) for each in (version, before))
        keeps = says == said and not self.changes(schedule, version)
        version.calendars = before.calendars if keeps else self.now

    def changes(self, schedule: Schedule, version: Version) -> bool:
        """Whether the transaction of a version changed a calendar that it goes by."""
        tx, tenant = version.tx, schedule.tenant
        return any((tx, (tenant, name)) in self._by for name in names(version))


def names(version: Version) -> list[str]:
    """Of the calendars that it keeps out of, or within."""
    found: list[str] = []
    for each in (version.said.get("exclude"), version.said.get("only")):
        found += [each] if isinstance(each, str) else each or []
    return found


def _ranges(definition: str) -> Ranges:
    """From what is kept of it; nothing if it is no more. The workload's have nothing but ranges."""
    if not definition:
        return []
    pairs = [text.split("/") for text in json.loads(definition)["ranges"]]
    return [[instant(each, "UTC") or 0 for each in pair] for pair in pairs]


def content_of(ranges: Ranges) -> str:
    """What tells it from others of its name."""
    return repr(sorted([*each] for each in ranges))
