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
)

BY_NAME = {contender.name: contender for contender in CONTENDERS}
