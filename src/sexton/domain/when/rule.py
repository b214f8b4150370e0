"""What a rule is: something that knows the next instant, or the next reading of a clock."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

# Far enough for everybody, and far enough from the end of datetime's range to calculate with.
LAST = datetime(9000, 1, 1, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Tick:
    """One instant of a rule, and in words what a reader would not expect about it."""

    at: datetime
    note: str | None = None


class Walls(Protocol):
    """A rule about the face of a clock on the wall; a zone makes instants of it."""

    @property
    def sub_hourly(self) -> bool:
        """Follows elapsed time over a change of the clocks, instead of being moved by it."""
        ...

    def walls(self, start: datetime) -> Iterator[datetime]:
        """Naive, ascending, from `start` on, one at a time; ends when there are no more."""
        ...


class Rule(Protocol):
    """What every definition becomes: instants in UTC, in order. Subclass it for `between`."""

    def after(self, instant: datetime) -> datetime | None:
        """The first instant strictly after this one; None: never again."""
        ...

    def between(self, after: datetime, until: datetime) -> Iterator[Tick]:
        """Every one with after < at <= until, with its note."""
        at = self.after(after)
        while at is not None and at <= until:
            yield Tick(at)
            at = self.after(at)
