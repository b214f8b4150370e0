"""What a deployment would change about the schedules that an application declares."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

StepKind = Literal["add", "change", "retire", "restore", "keep", "refuse"]


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that a schedule says, now and after; None: nothing."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Step:
    """One schedule: what would be done to it, and the next fires without it and with it.

    add      it is not there yet          change   it says something else now
    retire   it is not declared any more  restore  it was retired, and is declared again
    keep     nothing to do                refuse   somebody else's: nothing is done at all
    """

    kind: StepKind
    name: str
    fires_before: tuple[datetime, ...] = ()
    fires_after: tuple[datetime, ...] = ()
    differences: tuple[Difference, ...] = ()
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Every schedule that an application declares, or has declared, by name."""

    application: str
    steps: tuple[Step, ...]

    def of(self, *kinds: StepKind) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.kind in kinds)

    @property
    def changes(self) -> tuple[Step, ...]:
        """What there is to do."""
        return self.of("add", "change", "retire", "restore")


def differences(before: dict[str, Any], after: dict[str, Any]) -> tuple[Difference, ...]:
    return tuple(
        Difference(field, before.get(field), after.get(field))
        for field in dict.fromkeys((*before, *after))
        if before.get(field) != after.get(field)
    )
