"""What Sexton should reach, as the issue asks, and whether this run says it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.results import Results

PEERS = ("graphile", "pgboss", "pgqueuer", "awa", "procrastinate")


@dataclass(frozen=True)
class Goal:
    about: str
    measured: Callable[[Results], float | None]
    at_least: float | None = None
    at_most: float | None = None

    def bound(self) -> str:
        return f"≥ {self.at_least:g}" if self.at_least is not None else f"≤ {self.at_most:g}"

    def reached(self, value: float) -> bool:
        if self.at_least is not None:
            return value >= self.at_least
        assert self.at_most is not None
        return value <= self.at_most


def against(key: str, other: str) -> Callable[[Results], float | None]:
    return lambda results: results.ratio(key, "sexton", other)


def own(key: str) -> Callable[[Results], float | None]:
    return lambda results: results.median(key, "sexton")


def against_best_peer(key: str) -> Callable[[Results], float | None]:
    def worst(results: Results) -> float | None:
        ratios = [results.ratio(key, "sexton", peer) for peer in PEERS]
        known = [ratio for ratio in ratios if ratio is not None]
        return max(known) if known else None

    return worst


GOALS = (
    Goal("drain, 2 processes, × graphile-worker", against("drain2", "graphile"), at_least=1.2),
    Goal("drain, 2 processes, × PgQueuer", against("drain2", "pgqueuer"), at_least=2),
    Goal("drain, 2 processes, × floor", against("drain2", "floor"), at_least=0.65),
    Goal("drain, 1 process, × floor", against("drain1", "floor"), at_least=0.6),
    Goal("bulk enqueue, × COPY", against("bulk", "floor"), at_least=0.6),
    Goal("one by one, × bare INSERT", against("single", "floor"), at_least=0.8),
    Goal("idle latency p50, × floor", against("p50", "floor"), at_most=1.5),
    Goal("idle latency p99, × floor", against("p99", "floor"), at_most=2),
    Goal("idle latency p50, × the best peer", against_best_peer("p50"), at_most=1),
    Goal("idle latency p99, × the best peer", against_best_peer("p99"), at_most=1),
    Goal("WAL per job, × floor", against("wal", "floor"), at_most=1.3),
    Goal("WAL per job without page images, × floor", against("wal_lean", "floor"), at_most=1.3),
    Goal("commits per drained job", own("commits"), at_most=0.03),
    Goal("claim p99 under a held transaction, × usual", own("claim_ratio"), at_most=3),
    Goal("idle worker, % of a core", own("cpu"), at_most=1),
    Goal("idle worker, MB RSS", own("rss"), at_most=90),
    Goal("claim among a million waiting, × alone", own("slower"), at_most=1.5),
    Goal("RSS after the last tenth, × after the first", own("growth"), at_most=1.05),
)
