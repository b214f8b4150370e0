"""A scenario, its figures, and how large a run is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bench.arena import Arena
from bench.contenders import Contender

Figures = dict[str, float]  # column key -> measured value; a missing key is shown as a dash


@dataclass(frozen=True)
class Column:
    key: str
    title: str
    form: str = ",.0f"
    more_is_better: bool = True


@dataclass(frozen=True)
class Sizes:
    """How much work a run does. The quick one is for a look; the full one for the record."""

    single: int = 4_000
    bulk: int = 100_000
    drain: int = 200_000
    latency: int = 300
    wal: int = 30_000
    held_seconds: float = 300
    idle_seconds: float = 30
    waiting: int = 1_000_000
    rss_jobs: int = 1_000_000
    drain_least: int = 1_000


QUICK = Sizes(
    single=1_000,
    bulk=40_000,
    drain=60_000,
    latency=100,
    wal=10_000,
    held_seconds=60,
    idle_seconds=10,
    waiting=200_000,
    rss_jobs=200_000,
    drain_least=500,
)


@dataclass(frozen=True)
class Scenario:
    name: str
    about: str
    columns: tuple[Column, ...]
    run: Callable[[Arena, Contender, Sizes], Awaitable[Figures]]
    takes: Callable[[Contender], bool] = lambda contender: True
    once: bool = False  # long: one round is enough
    by_default: bool = True


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
