"""How far chance may have moved a figure, at 95 %.

Fires are not independent of each other: after one fault hundreds fail together. Faults nearly are,
so all of this counts faults.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

TAIL = 0.025  # on either side
ROUNDS = 2000


def share(bad: int, of: int) -> tuple[float, float]:
    """Of so many faults so many were bad: Clopper and Pearson, rather too wide than too narrow."""
    low = _root(lambda p: TAIL - _at_most(of - bad, of, 1 - p)) if bad else 0.0
    high = _root(lambda p: _at_most(bad, of, p) - TAIL) if bad < of else 1.0
    return low, high


def _at_most(bad: int, of: int, p: float) -> float:
    """How likely no more than `bad` are."""
    return sum(math.comb(of, n) * p**n * (1 - p) ** (of - n) for n in range(bad + 1))


def _root(falling: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return low


def rate(strata: Sequence[Sequence[tuple[int, int]]]) -> tuple[float, float]:
    """Of (how many, of how many due) for each fault, by kind: what other faults may have given.

    A bootstrap: as many faults of each kind are drawn from those there were, again and again. It
    knows nothing of what was never seen, so of a zero it says nothing: `share` does.
    """
    dice = random.Random(0)
    drawn = []
    for _ in range(ROUNDS):
        faults = [fault for each in strata for fault in dice.choices(each, k=len(each))]
        drawn.append(sum(many for many, _ in faults) / max(1, sum(due for _, due in faults)))
    drawn.sort()
    return drawn[int(ROUNDS * TAIL)], drawn[int(ROUNDS * (1 - TAIL)) - 1]


def sign(one: int, other: int) -> float:
    """Of the faults that were bad for one of two only: how often chance alone is as one-sided."""
    faults = one + other
    tail = sum(math.comb(faults, n) for n in range(min(one, other) + 1))
    return min(1.0, tail / math.pow(2, faults - 1))
