"""What an invariant is: it looks at each change, each effect and the end."""

from dataclasses import dataclass
from typing import ClassVar

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import Change, Line

KEPT = 50


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must never happen, and to whom it did."""

    invariant: str
    what: str
    at: int
    job: int | None = None
    schedule: int | None = None


class Invariant:
    """Its docstring is what it demands.

    `on_<table>` is called with every change of that table, before it is applied to the world;
    `on_effect` with every line of the effect log, after all changes; `finish` at the end.
    """

    name: ClassVar[str]

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.world = evidence.world
        self.checked = 0
        self.count = 0
        self.violations: list[Violation] = []

    @property
    def demand(self) -> str:
        """What it demands, in one line."""
        return (self.__doc__ or "").strip().partition("\n")[0]

    def violated(
        self, what: str, at: int, *, job: int | None = None, schedule: int | None = None
    ) -> None:
        self.count += 1
        if len(self.violations) < KEPT:
            self.violations.append(Violation(self.name, what, at, job, schedule))

    def on_effect(self, line: Line) -> None:
        """Nothing, unless somebody cares."""

    def finish(self) -> None:
        """Nothing is left to be seen."""


def is_claim(change: Change) -> bool:
    """Whether a change of a job is a claim: it has a worker, and a fence that it had not before."""
    return (
        change.op == "U"
        and change.now["by"] is not None
        and change.now["fence"] != change.was["fence"]
    )
