"""When a schedule fires: pure rules about time, without a clock of their own.

A `Definition` is what a schedule says, as data. `Timetable.compile` makes of it a row of rules,
each around the one before, and every one of them only knows what comes `after` an instant:

    cron, every, at, rrule → union → bounds → calendars        (zone, interval, once, rrule, …)

Jitter comes last and is not part of a rule: it moves the fire, not the instant it stands for.
"""

from sexton.domain.when.calendar import Calendar, CalendarRef, business_days, weekends
from sexton.domain.when.definition import Definition
from sexton.domain.when.rule import Rule, Tick
from sexton.domain.when.timetable import Planned, Timetable

__all__ = [
    "Calendar",
    "CalendarRef",
    "Definition",
    "Planned",
    "Rule",
    "Tick",
    "Timetable",
    "business_days",
    "weekends",
]
