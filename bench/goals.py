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
    Goal("RSS after the last tenth, × after half of the jobs", own("growth"), at_most=1.05),
    Goal("small stampede (full: 10,000), 1 node, s", own("small1"), at_most=0.7),
    Goal("small stampede, 2 nodes, s", own("small2"), at_most=0.7),
    Goal("large stampede (full: 100,000), 1 node, s", own("large1"), at_most=5),
    Goal("large stampede, 2 nodes, s", own("large2"), at_most=5),
    Goal("stampede: fires before their time", own("early"), at_most=0),
    Goal("steady: fires a minute", own("pace"), at_least=10_000),
    Goal("steady: fire_at to committed job p50, ms", own("lag_p50"), at_most=10),
    Goal("steady: fire_at to committed job p99, ms", own("lag_p99"), at_most=50),
    Goal("steady: fire_at to task start p99, ms", own("begun_p99"), at_most=100),
    Goal("wake-up with nothing due, most × fewest registered", own("none_growth"), at_most=1.5),
    Goal("wake-up with 100 due, most × fewest registered", own("some_growth"), at_most=1.5),
    Goal("node's RSS, MB", own("node_rss"), at_most=150),
    Goal("node's RSS, most × fewest registered", own("node_growth"), at_most=1.5),
    Goal("schedules registered in bulk, /s", own("registered"), at_least=30_000),
    Goal("kill -9 of the leader: longest gap, s", own("kill_gap"), at_most=5),
    Goal("the leader leaves: longest gap, s", own("leave_gap"), at_most=0.5),
    Goal("fires lost by all that", own("lost"), at_most=0),
    Goal("fires doubled by all that, or early", own("doubled"), at_most=0),
    Goal("next fire of 100,000 mixed expressions, s", own("calendar"), at_most=1),
    Goal("HTTP deliveries/s, 2 workers", own("delivered"), at_least=2500),
    Goal("schedules in bulk through the API, /s", own("api_bulk"), at_least=10_000),
    Goal("schedules created one by one through the API, /s", own("api_create"), at_least=700),
    Goal("reads through the API, /s", own("api_read"), at_least=1_500),
    Goal("claimed and settled by remote workers, jobs/s", own("api_remote"), at_least=3_000),
    Goal("page 1,000 of a million jobs, × page 1", own("api_pages"), at_most=1.5),
)
