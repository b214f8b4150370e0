"""One system over all its seeds: fires are added up, faults are counted one by one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from torture.peers import confidence
from torture.peers.count import Tally, percentile
from torture.peers.counts import CALM, PARTS, Aftermath, Counts

ENOUGH = 6  # faults of each kind, to draw others from them
Fault = tuple[int, int]  # its seed and its number within it; the calm before is number 0


@dataclass(frozen=True)
class Pooled:
    """Some or all schedules of one system, over all its seeds; gaps are those of the first part."""

    system: str
    runs: list[Counts]
    aftermaths: dict[Fault, Aftermath]
    lags: Counter[float] = field(default_factory=Counter)

    @classmethod
    def of(cls, runs: list[Counts], parts: Iterable[str] = tuple(PARTS)) -> Pooled:
        """Of these parts, those that the system has."""
        wanted = set(parts)
        found: dict[Fault, Aftermath] = {}
        lags: Counter[float] = Counter()
        for counts in runs:
            for part in (part for name, part in counts.parts.items() if name in wanted):
                lags += part.lags
                for number, each in enumerate(part.aftermaths):
                    fault = counts.about.seed, number
                    before = found.get(fault, Aftermath(each.kind, Tally(), each.gap))
                    found[fault] = replace(before, tally=before.tally + each.tally)
        return cls(runs[0].about.system, runs, found, lags)

    def tally(self, *, kind: str | None = None, seed: int | None = None) -> Tally:
        chosen = (
            each.tally
            for fault, each in self.aftermaths.items()
            if kind in (None, each.kind) and seed in (None, fault[0])
        )
        return sum(chosen, Tally())

    def late(self, share: float) -> float:
        return percentile([*self.lags.elements()], share)

    def rate(self, many: Callable[[Tally], int]) -> tuple[float, float] | None:
        """Within which bounds the rate of these is, per fire due; of too few faults, none."""
        strata = defaultdict(list)
        for each in self.aftermaths.values():
            strata[each.kind].append((many(each.tally), each.tally.due))
        if any(len(each) < ENOUGH for kind, each in strata.items() if kind != CALM):
            return None
        return confidence.rate([*strata.values()])

    def bad(self, many: Callable[[Tally], int], kind: str | None = None) -> tuple[int, int]:
        """To how many faults any of these fell, and of how many."""
        faults = [
            each
            for each in self.aftermaths.values()
            if each.kind != CALM and kind in (None, each.kind)
        ]
        return sum(many(each.tally) > 0 for each in faults), len(faults)

    def against(self, other: Pooled) -> tuple[int, int]:
        """Of the faults that both had: how many harmed only this one, and how many only that."""
        pairs = [
            (each.tally.harmed > 0, other.aftermaths[fault].tally.harmed > 0)
            for fault, each in self.aftermaths.items()
            if each.kind != CALM and fault in other.aftermaths
        ]
        return pairs.count((True, False)), pairs.count((False, True))


def by_system(all_counts: Iterable[Counts]) -> list[list[Counts]]:
    """The runs of each system, in the order in which systems come."""
    found = defaultdict(list)
    for counts in all_counts:
        found[counts.about.system].append(counts)
    return [*found.values()]
