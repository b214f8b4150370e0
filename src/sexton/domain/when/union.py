"""Several rules as one, and the bounds of one."""

import heapq
from collections.abc import Iterator, Sequence
from datetime import datetime

from sexton.domain.when.effort import take
from sexton.domain.when.rule import MOMENT, Rule, Tick

_ASK = 10  # steps, for each rule


class Union(Rule):
    """Every instant of any of these rules; one that several have in common is one instant."""

    __slots__ = ("rules",)

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)

    def after(self, instant: datetime) -> datetime | None:
        take(_ASK * len(self.rules))
        found = [at for rule in self.rules if (at := rule.after(instant)) is not None]
        return min(found, default=None)

    def between(self, after: datetime, until: datetime) -> Iterator[Tick]:
        each = [rule.between(after, until) for rule in self.rules]
        held: Tick | None = None
        for tick in heapq.merge(*each, key=lambda tick: tick.at):
            if held is None:
                held = tick
            elif held.at != tick.at:
                yield held
                held = tick
            elif held.note is None:
                held = tick
        if held is not None:
            yield held


class Bounded(Rule):
    """A rule from `starts_at` on and before `ends_at`."""

    __slots__ = ("_before_start", "ends_at", "rule")

    def __init__(self, rule: Rule, starts_at: datetime | None, ends_at: datetime | None) -> None:
        self.rule = rule
        self._before_start = None if starts_at is None else starts_at - MOMENT
        self.ends_at = ends_at

    def after(self, instant: datetime) -> datetime | None:
        if self._before_start is not None and instant < self._before_start:
            instant = self._before_start
        at = self.rule.after(instant)
        if at is not None and self.ends_at is not None and at >= self.ends_at:
            return None
        return at

    def between(self, after: datetime, until: datetime) -> Iterator[Tick]:
        if self._before_start is not None:
            after = max(after, self._before_start)
        if self.ends_at is not None:
            until = min(until, self.ends_at - MOMENT)
        return self.rule.between(after, until) if after < until else iter(())
