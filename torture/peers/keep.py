"""Where runs are kept, by seed and length: all of a run here, its counts in the repository."""

from __future__ import annotations

from pathlib import Path

from torture.peers.counts import Counts
from torture.peers.run import ABOUT, counted
from torture.peers.systems import CACHE, HERE, System

RUNS, RESULTS = CACHE / "runs", HERE / "results"


class NotKept(Exception):
    """Nothing is left of such a run; the message says of which."""


def place(seed: int, seconds: int) -> str:
    return f"seed-{seed}-{seconds}s"


def folder(system: System, seed: int, seconds: int) -> Path:
    """Of everything that a run leaves: its logs and its effects."""
    return RUNS / place(seed, seconds) / system.name


def record(counts: Counts) -> None:
    about = counts.about
    counts.keep(RESULTS / place(about.seed, about.seconds) / f"{about.system}.json")


def again(system: System, seed: int, seconds: int) -> Counts:
    """Counted anew if the whole run is still here, else as it was recorded."""
    whole = folder(system, seed, seconds)
    if (whole / ABOUT).exists():
        return Counts.of(counted(system, whole))
    recorded = RESULTS / place(seed, seconds) / f"{system.name}.json"
    if recorded.exists():
        return Counts.read(recorded)
    raise NotKept(f"no run with seed {seed} and {seconds} s was kept")
