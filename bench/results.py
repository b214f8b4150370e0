"""The figures of a run: kept by round, so that a ratio compares what ran side by side."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass, field

from bench.scenarios import Figures


@dataclass
class Results:
    """`figures[key][contender][round]`; a key is a column's. Notes say what is missing and why."""

    figures: dict[str, dict[str, dict[int, float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(dict))
    )
    notes: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)

    def add(self, contender: str, number: int, figures: Figures) -> None:
        for key, value in figures.items():
            self.figures[key][contender][number] = value

    def median(self, key: str, contender: str) -> float | None:
        rounds = self.figures[key][contender]
        return statistics.median(rounds.values()) if rounds else None

    def ratio(self, key: str, contender: str, other: str, other_key: str = "") -> float | None:
        """The median over rounds of one contender's figure against the other's in that round."""
        mine, theirs = self.figures[key][contender], self.figures[other_key or key][other]
        shared = [mine[n] / theirs[n] for n in mine.keys() & theirs.keys() if theirs[n]]
        return statistics.median(shared) if shared else None
