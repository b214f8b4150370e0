"""Changes that nobody asked for: every version of a schedule is one that its own tenant wanted."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from sexton.torture.check.folder import Ask
from sexton.torture.check.things import Schedule, Version

# The verbs that change a schedule, and what of their body tells one request from the others.
_TELLS = {"add": "rev", "update": "rev", "pause": "reason", "resume": None, "cancel_schedule": None}


class Unasked:
    """Since when each change of each schedule was wanted.

    A trespass asks for nothing here, nor does what was refused: if it takes effect all the same,
    that is a change that nobody wanted.
    """

    def __init__(self, apart: int) -> None:
        self._apart = apart  # of two clocks
        self._wanted: dict[tuple[Any, ...], int] = {}

    def hear(self, ask: Ask, schedule: Schedule) -> None:
        if ask.verb not in _TELLS or (ask.refused and ask.again is None):
            return
        tells = _TELLS[ask.verb]
        said = (ask.body.get("payload") or {}) if tells == "rev" else ask.body
        change = (schedule.id, _kind(ask.verb), None if tells is None else said.get(tells))
        self._wanted[change] = min(ask.began, self._wanted.get(change, ask.began))

    def of(self, schedule: Schedule) -> Iterator[tuple[Version, str]]:
        """Its versions that were made for nobody, and what they changed."""
        for before, version in pairwise(schedule.versions):
            for kind, tells in _changes(before, version):
                since = self._wanted.get((schedule.id, kind, tells))
                if since is None or since > version.at + self._apart:
                    yield version, kind if tells is None else f"{kind} ({tells})"


def _changes(before: Version, version: Version) -> Iterator[tuple[str, Any]]:
    was, now = before.state, version.began_as
    edited = before.payload.get("rev") != version.payload.get("rev")
    if edited:
        yield _kind("update"), version.payload.get("rev")
    if now == "paused" and (was, before.reason) != (now, version.reason):
        yield _kind("pause"), version.reason
    elif now == "cancelled" and was != now:
        yield _kind("cancel_schedule"), None
    elif now == "active" and was == "paused" and before.ends is None and not edited:
        yield _kind("resume"), None
    elif now == "active" and was in ("cancelled", "ended") and not edited:
        yield _kind("add"), None


def _kind(verb: str) -> str:
    """To add is to edit what was cancelled."""
    return "update" if verb == "add" else verb
