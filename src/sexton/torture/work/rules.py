"""Rules drawn from a seed: as the engine is told them, and as anybody can compute them.

A rule is described as a list of clauses, and fires whenever any of them does:

    {"every_us": n, "anchor_us": a}     at a, and at every whole number of n from it
    {"at_us": t}                        once
    {"cron": text, "fields": {second, minute, hour, day, month, weekday}}
                                        at each whole second whose reading of the clock, in the
                                        schedule's time zone, is in all of the fields; null is any
                                        value, weekday 0 is Sunday

Only such expressions are drawn that follow elapsed time over a change of the clocks (one of second,
minute and hour begins with `*`), and that restrict at most one of day and weekday. So looking at
each instant by itself is enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from sexton.torture.work.clock import SECOND, from_us

INTERVALS = (1, 2, 3, 5, 7, 10, 12, 15, 20, 30, 45, 60)
_OFTEN = (0.3, 0.5, 0.5, 1.5, 1.5, 6, 4, 10, 18, 30, 16, 34)
STEPS = (2, 3, 5, 6, 10, 12, 15, 20, 30)
_STEPS_OFTEN = (0.3, 0.3, 1, 1, 3, 3, 6, 10, 16)
ZONES = (
    "UTC",
    "Europe/Paris",
    "America/New_York",
    "America/St_Johns",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Pacific/Auckland",
)
_FIELDS = ("second", "minute", "hour", "day", "month", "weekday")
_SIZES = {"second": 60, "minute": 60, "hour": 24, "weekday": 7}
Clause = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """The values of a field of cron, and how they are written."""

    values: list[int]
    text: str


@dataclass(frozen=True, slots=True)
class Rule:
    """`told` are options of a schedule, `when` their description, `rate` the fires a second."""

    told: dict[str, Any]
    when: list[Clause]
    rate: float
    timezone: str = "UTC"

    @property
    def whole(self) -> dict[str, Any]:
        """Everything that replaces a rule which was there before."""
        return {**self.told, "timezone": self.timezone}


def iso(at: int) -> str:
    return from_us(at).isoformat()


def every(random: Random, begins: int, seconds: int | None = None) -> Rule:
    """Intervals on a grid whose anchor lies in the past, at a millisecond of its own."""
    length = seconds or random.choices(INTERVALS, _OFTEN)[0]
    anchor = begins - random.randrange(1, 7200 * 1000) * 1000
    told = {"every": length, "anchor": iso(anchor)}
    return Rule(told, [{"every_us": length * SECOND, "anchor_us": anchor}], 1.0 / length)


def once(random: Random, begins: int, seconds: float) -> Rule:
    """One shot, within so many seconds but not at once."""
    at = begins + 5 * SECOND + random.randrange(max(1, round((seconds - 5) * 1000))) * 1000
    return Rule({"at": iso(at)}, [{"at_us": at}], 1.0 / max(seconds, 10.0))


def cron(random: Random) -> Rule:
    """Expressions with seconds, and without."""
    zone = random.choice(ZONES)
    step = random.choices(STEPS, _STEPS_OFTEN)[0]
    some = _these(sorted(random.sample(range(60), random.randint(1, 4))))
    low = random.randrange(30)
    match random.choices(range(8), (6, 5, 4, 4, 2, 3, 2, 2))[0]:
        case 0:
            parts = {"second": _steps(step)}
        case 1:
            parts = {"second": some}
        case 2:
            parts = {"second": _range(low, low + random.randint(10, 29), step)}
        case 3:  # five fields: every minute
            return _said({}, zone, seconds=False)
        case 4:
            return _said({"minute": _steps(2)}, zone, seconds=False)
        case 5:
            parts = {"second": some, "minute": _range(low, low + 29)}
        case 6:  # what the hour is depends on where
            parts = {"second": _steps(max(step, 10)), "hour": _range(6, 17)}
        case _:
            parts = {"second": _steps(max(step, 10)), "weekday": _range(1, 5)}
    return _said(parts, zone)


def union(random: Random, begins: int, seconds: float) -> Rule:
    """Two or three rules of different kinds."""
    first = cron(random)
    others = [every(random, begins, random.choice((10, 15, 20, 30, 60)))]
    if random.random() < 0.4:
        others.append(once(random, begins, seconds))
    told = [first.told["cron"], *(each.told for each in others)]
    clauses = [clause for each in (first, *others) for clause in each.when]
    rate = sum(each.rate for each in (first, *others))
    return Rule({"any": told}, clauses, rate, first.timezone)


def rephased(random: Random, when: list[Clause], begins: int) -> Rule | None:
    """A rule that fires as often as this one, at other instants; None: there is none like that."""
    [clause, *more] = when
    if more:
        return None
    if "every_us" in clause:
        return every(random, begins, clause["every_us"] // SECOND)
    if "at_us" in clause:
        return once(random, begins, 40.0)
    seconds = clause["fields"]["second"]
    if len(seconds or ()) < 2 or any(clause["fields"][name] for name in _FIELDS[1:]):
        return cron(random)
    shift = random.randrange(60)
    moved = sorted((each + shift) % 60 for each in seconds)
    return _said({"second": _these(moved)}, random.choice(ZONES))


def _these(values: Sequence[int]) -> Part:
    return Part([*values], ",".join(map(str, values)))


def _steps(step: int) -> Part:
    return Part([*range(0, 60, step)], f"*/{step}")


def _range(low: int, high: int, step: int = 1) -> Part:
    text = f"{low}-{high}" + (f"/{step}" if step > 1 else "")
    return Part([*range(low, high + 1, step)], text)


def _said(parts: dict[str, Part], zone: str, *, seconds: bool = True) -> Rule:
    """The expression of some fields; those that are left out are `*`."""
    names = _FIELDS if seconds else _FIELDS[1:]
    text = " ".join(parts[name].text if name in parts else "*" for name in names)
    fields = {name: parts[name].values if name in parts else None for name in _FIELDS}
    if not seconds:
        fields["second"] = [0]
    rate = 1.0
    for name, size in _SIZES.items():
        values = fields[name]
        rate *= 1.0 if values is None else len(values) / size
    return Rule({"cron": text}, [{"cron": text, "fields": fields}], rate, zone)
