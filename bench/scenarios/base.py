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
    crowd: int = 10_000  # schedules due in one second; the large stampede has ten times as many
    registered: int = 1_000_000
    fires_a_minute: int = 10_000
    warm_up_seconds: float = 60
    steady_seconds: float = 120
    populations: tuple[int, ...] = (10_000, 1_000_000)
    wake_ups: int = 100
    failovers: int = 5
    calendar: int = 100_000
    deliveries: int = 50_000
    api_bulk: int = 100_000
    api_single: int = 5_000
    api_jobs: int = 50_000


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
    crowd=2_000,
    registered=20_000,
    fires_a_minute=2_000,
    warm_up_seconds=10,
    steady_seconds=20,
    populations=(1_000, 20_000),
    wake_ups=20,
    failovers=1,
    deliveries=10_000,
    api_bulk=20_000,
    api_single=1_000,
    api_jobs=10_000,
)


@dataclass(frozen=True)
class Scenario:
    name: str
    about: str
    columns: tuple[Column, ...]
    run: Callable[[Arena, Contender, Sizes], Awaitable[Figures]]
    takes: Callable[[Contender], bool] = lambda contender: contender.queues
    once: bool = False  # long: one round is enough
    rounds: int = 100  # at most
    by_default: bool = True


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
