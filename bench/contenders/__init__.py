"""Who takes part: for each contender how it is started, what "settled" means, and its settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Contender:
    """One row of the table. `remaining` counts the jobs that are not settled yet."""

    name: str
    program: str  # a module of bench.contenders, or a .mjs file beside it
    runtime: str  # ours: this environment; peers: bench/.cache/venv; node: bench/.cache/node
    remaining: str
    settings: str
    bulk_styles: tuple[str, ...] = ("",)
    drain_scale: float = 1.0  # the slow get fewer jobs, so that a run ends today
    single_scale: float = 1.0
    measures_claims: bool = False
    delays: bool = False  # `bulk` honours a delay
    package: str = ""
    queues: bool = True  # takes part where jobs are enqueued
    firing: str = ""  # the module that fires its schedules, if it has any
    crowds: tuple[str, ...] = ()  # which stampedes it is put to: which size, how many nodes
    registers: float = 0.0  # schedules a second, about: how long ahead to begin
    once: bool = False  # slow: one round is enough


CONTENDERS = (
    Contender(
        name="floor",
        program="floor",
        runtime="ours",
        remaining="select count(*) from job",
        settings="hand-written SQL, batches of 500, one asyncio task per job, history kept",
        bulk_styles=("copy", "unnest"),
        measures_claims=True,
        delays=True,
        firing="floor_firing",
        crowds=("small1", "large1"),
        registers=50_000,
    ),
    Contender(
        name="sexton",
        program="sexton_app",
        runtime="ours",
        remaining="select count(*) from sexton.job",
        settings="concurrency 2,000",
        measures_claims=True,
        delays=True,
        package="sexton",
        firing="sexton_node",
        crowds=("small1", "small2", "large1", "large2"),
        registers=30_000,
    ),
    Contender(
        name="graphile",
        program="graphile.mjs",
        runtime="node",
        remaining="select count(*) from graphile_worker._private_jobs",
        settings="concurrency 100, local queue of 2,000, completion batch delay 0; no history",
        single_scale=0.3,
        package="graphile-worker",
    ),
    Contender(
        name="pgboss",
        program="pgboss.mjs",
        runtime="node",
        remaining="select count(*) from pgboss.job where name = 'bench' and state < 'completed'",
        settings="batches of 1,000, refetch at once while full, LISTEN/NOTIFY",
        single_scale=0.3,
        package="pg-boss",
    ),
    Contender(
        name="pgqueuer",
        program="pgqueuer_app",
        runtime="peers",
        remaining="select count(*) from pgqueuer",
        settings="asyncpg pool, batch 500, uvloop",
        drain_scale=0.4,
        single_scale=0.5,
        package="pgqueuer",
    ),
    Contender(
        name="awa",
        program="awa_app",
        runtime="peers",
        remaining="select (select count(*) from awa.ready_entries)"
        " - (select coalesce(sum(completed_count), 0) from awa.receipt_completion_batches)",
        settings="queue storage, 2 claimers of 256, 500 workers",
        drain_scale=0.15,
        single_scale=0.3,
        package="awa-pg",
    ),
    Contender(
        name="procrastinate",
        program="procrastinate_app",
        runtime="peers",
        remaining="select count(*) from procrastinate_jobs where status in ('todo', 'doing')",
        settings="concurrency 20, psycopg pool",
        drain_scale=0.015,
        single_scale=0.3,
        package="procrastinate",
    ),
    Contender(
        name="apscheduler",
        program="apscheduler_app",
        runtime="peers",
        remaining="select 0",
        settings="SQLAlchemy store over psycopg, 10 threads, no misfire grace",
        package="apscheduler",
        queues=False,
        firing="apscheduler_app",
        crowds=("small1",),
        registers=600,
        once=True,
    ),
)

BY_NAME = {contender.name: contender for contender in CONTENDERS}
