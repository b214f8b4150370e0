"""Which faults befall everybody, and when: the same for each, from one seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

Card = TypeVar("Card")

KINDS = ("kill", "stop", "fast", "immediate", "postmaster")
ABOUT = {
    "kill": "kill -9 of a process",
    "stop": "a process frozen by SIGSTOP",
    "fast": "PostgreSQL restarted, fast",
    "immediate": "PostgreSQL restarted, immediate",
    "postmaster": "kill -9 of PostgreSQL",
}
PROCESSES = 3
# A freeze that hardly matters, one longer than a node's lease, one longer than a worker's.
FREEZES = (2.0, 12.0, 40.0)
DOWN = (0.0, 1.0, 3.0)
EACH = 20  # seconds for one fault and what follows it, about
CALM = 15.0  # before the first


@dataclass(frozen=True)
class Fault:
    """`at` is seconds from the beginning; `for_s` how long it is frozen or down."""

    kind: str
    at: float
    target: int = 0
    for_s: float = 0.0


def plan(seed: int, seconds: float) -> tuple[Fault, ...]:
    """Every kind as often as any other, one after the other, with time to recover in between."""
    dice = random.Random(seed)
    calm = min(CALM, seconds / 5)
    kinds = _shuffled(dice, KINDS)
    freezes = _shuffled(dice, [each for each in FREEZES if each <= seconds / 6] or [1.0])
    downs = _shuffled(dice, DOWN)
    drawn: list[tuple[Fault, float]] = []
    for _ in range(max(1, int(seconds // EACH))):
        kind = next(kinds)
        for_s = 0.0 if kind == "kill" else next(freezes if kind == "stop" else downs)
        drawn.append((Fault(kind, 0.0, dice.randrange(PROCESSES), for_s), dice.uniform(0.7, 1.3)))
    room = seconds - calm - sum(fault.for_s for fault, _ in drawn)
    unit = room / sum(weight for _, weight in drawn)
    planned, at = [], calm
    for fault, weight in drawn:
        planned.append(replace(fault, at=round(at, 2)))
        at += fault.for_s + unit * weight
    return tuple(planned)


def _shuffled(dice: random.Random, cards: Sequence[Card]) -> Iterator[Card]:
    """Deck after deck, so that after each deck every card was drawn equally often."""
    while True:
        yield from dice.sample(cards, len(cards))
