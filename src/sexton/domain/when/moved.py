"""Fires that fall out of the calendars come on the next allowed day, at the same wall time."""

from collections.abc import Iterator
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from sexton.domain.when.gate import Gate, Gated, ahead
from sexton.domain.when.local import instant_of, last_instant_of, wall_of
from sexton.domain.when.rule import MOMENT, Rule, Tick

DAYS = 400
_A_DAY = timedelta(days=1)

# An instant, and the one that it was moved from.
Landing = tuple[datetime, datetime | None]


class Moved(Rule):
    """A rule with its refused fires on the next allowed day; two that meet are one.

    Nothing is remembered, so the past must be looked at: a fire after `instant` may come from one
    before it, as long as every day between was closed at its time of day.
    """

    __slots__ = ("_gated", "ends_at", "gate", "rule", "zone")

    def __init__(
        self, rule: Rule, gate: Gate, zone: ZoneInfo, ends_at: datetime | None = None
    ) -> None:
        self.rule = rule
        self.gate = gate
        self.zone = zone
        self.ends_at = ends_at
        self._gated = Gated(rule, gate)

    def after(self, instant: datetime) -> datetime | None:
        landing = self._after(instant)
        return None if landing is None else landing[0]

    def between(self, after: datetime, until: datetime) -> Iterator[Tick]:
        own = self._gated.between(after, until)
        tick = next(own, None)
        while (landing := self._after(after)) is not None and landing[0] <= until:
            after, origin = landing
            if origin is not None:
                yield Tick(after, f"moved from {self._shown(origin)}: {self.gate.reason(origin)}")
            elif tick is not None:
                yield tick
                tick = next(own, None)

    def refused(self, after: datetime, until: datetime) -> Iterator[Tick]:
        """What falls out, with after < at <= until, why, and where it goes."""
        for tick in self._gated.refused(after, until):
            yield Tick(tick.at, f"{tick.note}: {self._whither(tick.at)}")

    def _whither(self, origin: datetime) -> str:
        to = self.destination(origin)
        if to is None:
            return f"skipped, no day is allowed within {DAYS} days"
        if self.ends_at is not None and to >= self.ends_at:
            return f"skipped, {self._shown(to)} is after the schedule's end"
        return f"moved to {self._shown(to)}"

    def destination(self, origin: datetime) -> datetime | None:
        """Where a refused fire goes; None: nowhere, every day is closed."""
        wall = wall_of(origin, self.zone)
        for days in range(1, DAYS + 1):
            at = instant_of(wall + days * _A_DAY, self.zone)
            if at > origin and self.gate.allows(at):
                return at
        return None

    def _after(self, instant: datetime) -> Landing | None:
        """The first of the rule's own fires, or one that lands before it."""
        own = self._gated.after(instant)
        limit = own or ahead(instant)
        day = datetime.combine(wall_of(instant, self.zone), time())
        while (begins := instant_of(day, self.zone)) < limit:
            ends = instant_of(day + _A_DAY, self.zone)
            landing = self._on_day(max(begins, instant + MOMENT), min(ends, limit))
            if landing is not None:
                return self._in_time(landing)
            day += _A_DAY
            if self.gate.closes(begins, ends) is None:
                # Open all day: nothing older is under way, so nothing lands before one is refused.
                origin = self.rule.after(ends - MOMENT)
                if origin is None or origin >= limit:
                    break
                day = max(day, datetime.combine(wall_of(origin, self.zone), time()))
        return self._in_time((own, None)) if own is not None else None

    def _in_time(self, landing: Landing) -> Landing | None:
        return None if self.ends_at is not None and landing[0] >= self.ends_at else landing

    def _on_day(self, begins: datetime, ends: datetime) -> Landing | None:
        """The first that lands in this part of a day."""
        while begins < ends:
            opens = self.gate.opens(begins, ends)
            if opens is None:
                return None
            closes = self.gate.closes(opens, ends) or ends
            landing = self._in_opening(opens, closes)
            if landing is not None:
                return landing
            begins = closes
        return None

    def _in_opening(self, opens: datetime, closes: datetime) -> Landing | None:
        """The first that lands in an opening; they come from the same hours of the days before."""
        found: Landing | None = None
        # The hours as wide as they are by any reckoning, if the clocks are changed between.
        before = wall_of(opens - MOMENT, self.zone) + MOMENT
        first = min(wall_of(opens, self.zone), before)
        last = max(wall_of(closes - MOMENT, self.zone), first + (closes - opens) - MOMENT)
        for days in range(1, DAYS + 1):
            early = instant_of(first - days * _A_DAY, self.zone)
            late = last_instant_of(last - days * _A_DAY, self.zone)
            for tick in self._gated.refused(early - MOMENT, late):
                at = self.destination(tick.at)
                if at is not None and opens <= at < (found[0] if found else closes):
                    found = at, tick.at
                    break
            if self.gate.closes(early, late + MOMENT) is None:
                break  # open then as well: what is older has landed there
        return found

    def _shown(self, instant: datetime) -> str:
        return f"{wall_of(instant, self.zone):%Y-%m-%d %H:%M}"
