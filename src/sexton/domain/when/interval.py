"""Every so often: instants on a grid through an anchor, by elapsed time, without drift."""

from datetime import datetime, timedelta

from sexton.domain.when.rule import LAST, MOMENT, Rule


class Interval(Rule):
    """The anchor and every whole number of periods after and before it."""

    __slots__ = ("anchor", "period")

    def __init__(self, every: float, anchor: datetime) -> None:
        self.period = timedelta(seconds=every)
        self.anchor = anchor

    def after(self, instant: datetime) -> datetime | None:
        return step(instant, self.anchor, self.period)

    def before(self, instant: datetime) -> datetime:
        """The last one strictly before an instant."""
        return self.anchor + (instant - MOMENT - self.anchor) // self.period * self.period

    def count(self, after: datetime, until: datetime) -> int:
        """How many with after < at <= until."""
        anchor, period = self.anchor, self.period
        return max((until - anchor) // period - (after - anchor) // period, 0)


def step(instant: datetime, anchor: datetime, period: timedelta) -> datetime | None:
    """The first point of the grid strictly after an instant."""
    try:
        at = anchor + ((instant - anchor) // period + 1) * period
    except OverflowError:
        return None
    return at if at < LAST else None
