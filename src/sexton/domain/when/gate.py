"""What calendars let through: fires that fall out are skipped, or moved to another day."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sexton.domain.when.effort import take
from sexton.domain.when.mask import Mask
from sexton.domain.when.rule import LAST, MOMENT, Rule, Tick

# How far ahead anybody looks for an instant that is let through.
HORIZON = timedelta(days=3653)
_TRIES = 10_000
_FEW = 100
# Steps: to look at one calendar's next edge and at what it says there, and to ask a rule.
_EDGE, _ASK = 8, 10

Named = tuple[str, Mask]


@dataclass(frozen=True, slots=True)
class Gate:
    """The calendars of a schedule: out of all of `exclude`, and within one of `only`."""

    exclude: Sequence[Named]
    only: Sequence[Named]

    def allows(self, instant: datetime) -> bool:
        """Whether a fire at this instant is let through."""
        for _, mask in self.exclude:
            if mask.contains(instant):
                return False
        return not self.only or any(mask.contains(instant) for _, mask in self.only)

    def reason(self, instant: datetime) -> str:
        """In words why an instant is not let through."""
        names = [repr(name) for name, mask in self.exclude if mask.contains(instant)]
        if names:
            return f"excluded by calendar {' and '.join(names)}"
        return f"outside calendar {' and '.join(repr(name) for name, _ in self.only)}"

    def opens(self, instant: datetime, limit: datetime) -> datetime | None:
        """The first instant from this one on, before `limit`, that is let through."""
        return instant if self.allows(instant) else self._turn(instant, limit, True)

    def closes(self, instant: datetime, limit: datetime) -> datetime | None:
        """The first instant from this one on, before `limit`, that is not let through."""
        return self._turn(instant, limit, False) if self.allows(instant) else instant

    def _turn(self, instant: datetime, limit: datetime, wanted: bool) -> datetime | None:
        masks = [mask for _, mask in (*self.exclude, *self.only)]
        while True:
            take(_EDGE * len(masks))
            instant = min(mask.edge(instant) for mask in masks)
            if instant >= limit:
                return None
            if self.allows(instant) == wanted:
                return instant


class Gated(Rule):
    """A rule less what its gate does not let through."""

    __slots__ = ("gate", "rule")

    def __init__(self, rule: Rule, gate: Gate) -> None:
        self.rule = rule
        self.gate = gate

    def after(self, instant: datetime) -> datetime | None:
        return self.first(instant, LAST)

    def first(self, instant: datetime, limit: datetime) -> datetime | None:
        """The first instant strictly after this one, and before `limit`."""
        horizon = ahead(instant)
        for tried in range(_TRIES):
            take(_ASK)
            at = self.rule.after(instant)
            # A rule that is rare by itself may take longer than the horizon.
            if at is None or at >= limit or (tried > _FEW and at > horizon):
                return None
            # Not one by one through what is closed: a second after second takes days.
            opens = self.gate.opens(at, ahead(at))
            if opens == at or opens is None:
                return opens
            instant = opens - MOMENT
        return None

    def between(self, after: datetime, until: datetime) -> Iterator[Tick]:
        ticks = self.rule.between(after, until)
        while (tick := next(ticks, None)) is not None:
            take(_ASK)
            opens = self.gate.opens(tick.at, min(until + MOMENT, ahead(tick.at)))
            if opens == tick.at:
                yield tick
            elif opens is None:
                return
            else:
                ticks = self.rule.between(opens - MOMENT, until)

    def refused(self, after: datetime, until: datetime) -> Iterator[Tick]:
        """What falls out, with after < at <= until, and why."""
        ticks = self.rule.between(after, until)
        while (tick := next(ticks, None)) is not None:
            take(_ASK)
            closes = self.gate.closes(tick.at, until + MOMENT)
            if closes == tick.at:
                yield Tick(tick.at, self.gate.reason(tick.at))
            elif closes is None:
                return
            else:
                ticks = self.rule.between(closes - MOMENT, until)


def ahead(instant: datetime) -> datetime:
    """As far from an instant as anybody looks."""
    return min(instant, LAST - HORIZON) + HORIZON
