"""How late fires are on an ordinary day: some every second, among many schedules that are quiet.

Half of what fires are crons, half intervals of 30 s to 5 minutes, evenly over the minute's seconds,
so that each second has its share at once. `committed` is noted by the node when its commit has
returned, `begun` by the task's first line; both by the database's clock.
"""

from __future__ import annotations

import asyncio

from bench.arena import Arena
from bench.contenders import Contender
from bench.driver import ContenderFailed
from bench.scenarios.base import Column, Figures, Scenario, Sizes, percentile
from bench.scenarios.footprint import megabytes
from bench.scenarios.nodes import as_node, clock, even, is_sexton

LAST_STARTS = 2.0
FIRED = """
select job_id, extract(epoch from fire_at)::float8 as fire_at
from sexton.fire
where decision = 'fired' and fire_at >= to_timestamp($1) and fire_at < to_timestamp($2)
"""
NOT_FIRED = """
select count(*) from sexton.fire
where decision <> 'fired' and fire_at >= to_timestamp($1) and fire_at < to_timestamp($2)
"""


async def steady(arena: Arena, contender: Contender, sizes: Sizes) -> Figures:
    async with arena.stage(as_node(contender)) as stage:
        registrar = await stage.process()
        await registrar.ask("setup")
        busy = await registrar.ask("busy", fires_a_minute=sizes.fires_a_minute)
        quiet = max(0, sizes.registered - busy["count"])
        await registrar.ask("quiet", count=quiet, timeout=600)
        await stage.stop(registrar)
        await stage.settle_down()
        node, worker = await stage.process(), await stage.process()
        await worker.ask("work")
        await node.ask("fire", timeout=60)
        await even(stage, 1)
        await asyncio.sleep(sizes.warm_up_seconds)
        began = float(int(await clock(stage)) + 1)
        ended = began + sizes.steady_seconds
        await asyncio.sleep(ended + LAST_STARTS - await clock(stage))
        told = (await node.ask("fired", full=True))["committed"]
        starts = dict((await worker.ask("starts"))["starts"])
        rows = await stage.watcher.fetch(FIRED, began, ended)
        if refused := await stage.watcher.fetchval(NOT_FIRED, began, ended):
            raise ContenderFailed(f"{refused} fires overlapped with the one before, or were missed")
        if missing := sum(row["job_id"] not in starts for row in rows):
            raise ContenderFailed(f"{missing} of {len(rows)} tasks did not start")
        lags = [at - due for due, at, many in told if began <= due < ended for _ in range(many)]
        begun = [starts[row["job_id"]] - row["fire_at"] for row in rows]
        if len(lags) != len(rows):
            raise ContenderFailed(f"the node says {len(lags)} fires, the ledger {len(rows)}")
        return {
            "pace": len(rows) / sizes.steady_seconds * 60,
            "lag_p50": percentile(lags, 0.5) * 1000,
            "lag_p99": percentile(lags, 0.99) * 1000,
            "lag_max": max(lags) * 1000,
            "begun_p50": percentile(begun, 0.5) * 1000,
            "begun_p99": percentile(begun, 0.99) * 1000,
            "steady_rss": megabytes(node.pid),
        }


STEADY = Scenario(
    name="steady",
    about="fires spread over the seconds, among many quiet schedules",
    columns=(
        Column("pace", "fires a minute"),
        Column("lag_p50", "committed p50, ms", ".1f", more_is_better=False),
        Column("lag_p99", "committed p99, ms", ".1f", more_is_better=False),
        Column("lag_max", "committed max, ms", ".1f", more_is_better=False),
        Column("begun_p50", "begun p50, ms", ".1f", more_is_better=False),
        Column("begun_p99", "begun p99, ms", ".1f", more_is_better=False),
        Column("steady_rss", "node's RSS, MB", ".0f", more_is_better=False),
    ),
    run=steady,
    takes=is_sexton,
    once=True,
)
