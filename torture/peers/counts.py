"""What a run comes to: a few KB, to be kept in the repository and pooled with other seeds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from torture.peers.count import Fire, Gap, Happened, Tally, fallen, gaps
from torture.peers.run import About, Outcome

CALM = "calm"
# The schedules that everybody has, and those that some have not.
PARTS = {"ten and minute": ("ten", "minute"), "second": ("second",)}


class CannotPool(Exception):
    """What was counted under different conditions does not add up; the message says which."""


@dataclass(frozen=True)
class Aftermath:
    """A fault, and what became of the fires that fell to it; or the calm before the first."""

    kind: str
    tally: Tally
    gap: Gap | None = None


@dataclass(frozen=True)
class Part:
    """Some schedules of one run: the calm and every fault in its turn, and how late runs began."""

    aftermaths: list[Aftermath]
    lags: Counter[float]

    @classmethod
    def of(cls, fires: Sequence[Fire], faults: Sequence[Happened], end: int) -> Part:
        calm, *fell = fallen(fires, faults)
        after = zip(fell, gaps(fires, faults, end), strict=True)
        return cls(
            [Aftermath(CALM, calm), *(Aftermath(gap.kind, tally, gap) for tally, gap in after)],
            Counter(two_digits(fire.lag) for fire in fires if not fire.missed),
        )


@dataclass(frozen=True)
class Counts:
    """One system through the faults of one seed."""

    about: About
    stray: int
    parts: dict[str, Part]

    @classmethod
    def of(cls, outcome: Outcome) -> Counts:
        parts = {}
        for name, groups in PARTS.items():
            fires = [fire for fire in outcome.fires if fire.schedule.group in groups]
            if fires:
                parts[name] = Part.of(fires, outcome.faults, outcome.about.end)
        return cls(outcome.about, outcome.stray, parts)

    @property
    def kinds(self) -> list[str]:
        return [aftermath.kind for aftermath in next(iter(self.parts.values())).aftermaths]

    def keep(self, path: Path) -> None:
        """One line for each thing, so that a difference can be read."""
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = {**asdict(self.about), "stray": self.stray}
        for name, part in self.parts.items():
            lines[name] = {
                "faults": [_row(aftermath) for aftermath in part.aftermaths],
                "lags": sorted(part.lags.items()),
            }
        body = ",\n".join(f"{json.dumps(key)}: {json.dumps(line)}" for key, line in lines.items())
        path.write_text(f"{{\n{body}\n}}\n")

    @classmethod
    def read(cls, path: Path) -> Counts:
        lines = json.loads(path.read_text())
        parts = {
            name: Part([_aftermath(*row) for row in part["faults"]], Counter(dict(part["lags"])))
            for name in PARTS
            if (part := lines.pop(name, None))
        }
        stray = lines.pop("stray")
        return cls(About(**lines), stray, parts)


def two_digits(lag: float) -> float:
    """As exactly as it is worth keeping, and 0.01 s at least."""
    return float(f"{max(lag, 0.01):.2g}")


def _row(aftermath: Aftermath) -> list[Any]:
    gap = aftermath.gap
    after = [] if gap is None else [round(gap.seconds, 1), gap.open]
    return [aftermath.kind, *astuple(aftermath.tally), *after]


def _aftermath(kind: str, *row: Any) -> Aftermath:
    tally, after = Tally(*row[:5]), row[5:]
    return Aftermath(kind, tally, Gap(kind, *after) if after else None)


def fit(all_counts: Iterable[Counts]) -> list[Counts]:
    """The same, if they may be pooled: one workload, one length, and for each seed one plan."""
    found = list(all_counts)
    plans: dict[int, list[str]] = {}
    for counts in found:
        about, first = counts.about, found[0].about
        if (about.workload, about.seconds) != (first.workload, first.seconds):
            raise CannotPool(
                f"{about.system} with seed {about.seed} had {about.workload} for {about.seconds} s,"
                f" and {first.system} with seed {first.seed} {first.workload} for {first.seconds} s"
            )
        if plans.setdefault(about.seed, counts.kinds) != counts.kinds:
            raise CannotPool(f"{about.system} had other faults with seed {about.seed} than others")
    return found
