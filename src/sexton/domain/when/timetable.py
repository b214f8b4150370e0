"""A definition, compiled: which instants, in order."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

from sexton.domain.when.calendar import Calendar, CalendarRef, mask
from sexton.domain.when.cron import parse_cron
from sexton.domain.when.definition import Clause, Definition
from sexton.domain.when.gate import Gate, Gated, Named
from sexton.domain.when.interval import Interval, step
from sexton.domain.when.jitter import jittered
from sexton.domain.when.moved import Moved, Openings
from sexton.domain.when.once import Once
from sexton.domain.when.rrule import parse_rrule
from sexton.domain.when.rule import MOMENT, Rule, Tick
from sexton.domain.when.union import Bounded, Union
from sexton.domain.when.zone import EPOCH, Zoned, zone_named
from sexton.errors import InvalidSchedule

Calendars = Mapping[CalendarRef, Calendar]
_NO_CALENDARS: Calendars = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Planned:
    """A fire to come: the instant of its rule, the one with jitter, and what is odd about it."""

    scheduled_at: datetime
    fire_at: datetime
    note: str | None = None


class Timetable:
    """Immutable, and shared by every schedule with this definition.

    `anchor` is the schedule's own: where its intervals begin if its definition does not say.
    """

    __slots__ = (
        "_after",
        "_fixed",
        "_gate",
        "_openings",
        "_period",
        "definition",
        "has_calendars",
        "has_jitter",
        "is_quick",
        "needs_anchor",
    )

    def __init__(self, definition: Definition, gate: Gate | None) -> None:
        self.definition = definition
        self.has_jitter = definition.jitter > 0
        self.has_calendars = gate is not None
        # Nothing that anybody can write makes its next instant hard to find.
        self.is_quick = gate is None and not definition.any and definition.rrule is None
        self.needs_anchor = definition.starts_at is None and any(
            map(_needs_anchor, definition.clauses)
        )
        self._gate = gate
        self._openings = None
        if gate is not None and definition.when_excluded == "next_day":
            self._openings = Openings(gate, zone_named(definition.timezone))
        # What the hot path needs, and nothing in between.
        self._fixed = None if self.needs_anchor else self._layered(definition.starts_at or EPOCH)
        self._after: Callable[[datetime], datetime | None] | None = None
        self._period: timedelta | None = None
        if self._fixed is not None:
            self._after = self._fixed.after
        elif definition.every is not None and gate is None and definition.ends_at is None:
            self._period = timedelta(seconds=definition.every)

    @classmethod
    def compile(cls, definition: Definition, calendars: Calendars = _NO_CALENDARS) -> "Timetable":
        """The timetable of a definition; `calendars` has at least those that it names."""

        def named(references: tuple[CalendarRef, ...]) -> tuple[Named, ...]:
            for each in references:
                if each not in calendars:
                    raise InvalidSchedule(
                        f"calendar {each.name!r}, version {each.version}, does not exist"
                    )
            return tuple((each.name, mask(calendars[each], zone)) for each in references)

        zone = zone_named(definition.timezone).key
        if not definition.calendars:
            return cls(definition, None)
        return cls(definition, Gate(named(definition.exclude), named(definition.only)))

    def rule(self, anchor: datetime) -> Rule:
        """Everything as one rule: the clauses, within the bounds, past the calendars."""
        return self._fixed or self._layered(anchor)

    def ungated(self, anchor: datetime) -> Rule:
        """The same as if there were no calendars."""
        rule = self.rule(anchor)
        return rule.rule if isinstance(rule, Gated | Moved) else rule

    def after(self, instant: datetime, anchor: datetime) -> datetime | None:
        """The first instant strictly after this one, as scheduled; None: never again."""
        if self._after is not None:
            return self._after(instant)
        if self._period is not None:
            return step(instant, anchor, self._period)
        return self._layered(anchor).after(instant)

    def fire_at(self, scheduled_at: datetime, anchor: datetime, seed: int) -> datetime:
        """When the fire scheduled for this instant is to happen: later by its jitter."""
        if not self.has_jitter:
            return scheduled_at
        kind = self.definition.jitter_kind
        following = self.after(scheduled_at, anchor) if kind == "random" else None
        return jittered(seed, scheduled_at, following, self.definition.jitter, kind)

    def ticks(self, after: datetime, until: datetime, anchor: datetime) -> Iterator[Tick]:
        """Every one with after < at <= until, with a note on what clocks and calendars did."""
        return self.rule(anchor).between(after, until)

    def excluded(self, after: datetime, until: datetime, anchor: datetime) -> Iterator[Tick]:
        """What the calendars refused, with after < at < until: why, and where it was moved."""
        rule = self.rule(anchor)
        if isinstance(rule, Gated | Moved):
            return rule.refused(after, until - MOMENT)
        return iter(())

    def preview(
        self, after: datetime, count: int, anchor: datetime, seed: int = 0
    ) -> list[Planned]:
        """The next so many fires."""
        rule = self.rule(anchor)
        found: list[Planned] = []
        while len(found) < count and (at := rule.after(after)) is not None:
            note = next((tick.note for tick in rule.between(after, at)), None)
            found.append(Planned(at, self.fire_at(at, anchor, seed), note))
            after = at
        return found

    def count(self, after: datetime, until: datetime, anchor: datetime, cap: int = 100_000) -> int:
        """How many with after < at <= until; gives up counting at `cap`."""
        if self._period is not None:
            return min(Interval(self._period.total_seconds(), anchor).count(after, until), cap)
        rule, found = self.rule(anchor), 0
        at = rule.after(after)
        while at is not None and at <= until and found < cap:
            found += 1
            at = rule.after(at)
        return found

    def _layered(self, anchor: datetime) -> Rule:
        definition = self.definition
        start = definition.starts_at or anchor
        rules = [_rule(clause, definition, start) for clause in definition.clauses]
        rule = rules[0] if len(rules) == 1 else Union(rules)
        if definition.starts_at is not None or definition.ends_at is not None:
            rule = Bounded(rule, definition.starts_at, definition.ends_at)
        if self._gate is None:
            return rule
        if self._openings is None:
            return Gated(rule, self._gate)
        return Moved(rule, self._openings, definition.ends_at)


def _needs_anchor(clause: Clause) -> bool:
    if clause.rrule is not None:
        return parse_rrule(clause.rrule).needs_start
    return clause.every is not None and clause.anchor is None


def _rule(clause: Clause, definition: Definition, start: datetime) -> Rule:
    if clause.cron is not None:
        parsed = parse_cron(clause.cron, dialect=clause.dialect)
        return Zoned(parsed, definition.timezone, definition.dst)
    if clause.every is not None:
        return Interval(clause.every, clause.anchor or start)
    if clause.at is not None:
        return Once(clause.at)
    if clause.rrule is not None:
        return parse_rrule(clause.rrule).rule(definition.timezone, definition.dst, start)
    raise InvalidSchedule("when: there is no rule; give one of cron=, every=, at=, rrule= and any=")
