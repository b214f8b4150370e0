"""Schedules as an operator knows them: as they were registered, and as it left them."""

from collections.abc import Sequence
from typing import Any

from sexton.torture.work.clock import now_us
from sexton.torture.work.rules import Rule

_OF_A_RULE = ("cron", "every", "anchor", "at", "any")
_OF_AN_OVERLAP = ("max_queued", "max_running")


class Subject:
    """One schedule; `alone` says that no other operator touches it."""

    def __init__(self, line: dict[str, Any], alone: bool) -> None:
        self.name: str = line["name"]
        self.tenant: str = line["tenant"]
        self.task: str = line["task"]
        self.payload: dict[str, Any] = line["payload"]
        self.options: dict[str, Any] = line["options"]
        self.when: list[dict[str, Any]] = line["when"]
        self.timezone: str = line["timezone"]
        self.alone = alone
        self.paused_at: int | None = None

    def revised(self) -> dict[str, Any]:
        """Its payload, with a `rev` that no other request has."""
        return {**self.payload, "rev": now_us()}

    def change(self, payload: dict[str, Any], told: dict[str, Any], rule: Rule | None) -> None:
        """As the engine does it: a rule replaces the one before, and so does an overlap policy."""
        gone = {*(_OF_A_RULE if rule is not None else ())}
        gone |= {*(_OF_AN_OVERLAP if "overlap" in told else ())}
        kept = {name: value for name, value in self.options.items() if name not in gone}
        self.payload, self.options = payload, kept | told
        if rule is not None:
            self.when, self.timezone = rule.when, rule.timezone


def shared_out(lines: Sequence[dict[str, Any]], nth: int, of: int) -> list[Subject]:
    """This operator's own, and those that all have in common; harsh and old ones are nobody's."""
    return [
        Subject(line, alone=number % (of + 1) != of)
        for number, line in enumerate(lines)
        if number % (of + 1) in (nth, of) and not line["name"].startswith(("harsh", "old"))
    ]
