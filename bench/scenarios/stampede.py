"""How long it takes until every schedule that is due in the same second has its job.

The nodes are up and idle. The clock runs from the instant itself to the last commit, each commit
noted by the process that made it, by the database's clock. Nobody executes the jobs meanwhile;
APScheduler, which has no queue, starts the tasks themselves.
"""

from __future__ import annotations

import asyncio
import math
import time
from functools import partial

from bench.arena import Arena, Stage
from bench.contenders import Contender
from bench.driver import ContenderFailed, Process
from bench.scenarios.base import Column, Figures, Scenario, Sizes
from bench.scenarios.nodes import as_node, clock, even, is_sexton

IDLE = 1.0  # at least, before the instant
TRIES = 4
STALLED = 60.0
EARLY = "select count(*) from sexton.fire where decided_at < fire_at"
LEDGER = """
select (select count(*) from sexton.fire where decision = 'fired') = $1
    and (select count(distinct schedule_id) from sexton.job) = $1
"""


class TooSoon(ContenderFailed):
    """The instant came before everything was ready."""


async def all_fired(nodes: list[Process], count: int) -> float:
    """When the last of them was committed."""
    seen, seen_at = 0, time.monotonic()
    while True:
        told = [await node.ask("fired") for node in nodes]
        done = sum(each["count"] for each in told)
        if done >= count:
            if done > count:
                raise ContenderFailed(f"{done} fires of {count} schedules")
            return float(max(each["last"] for each in told if each["last"] is not None))
        if done > seen:
            seen, seen_at = done, time.monotonic()
        elif time.monotonic() - seen_at > STALLED:
            raise ContenderFailed(f"stalled: {done} of {count} schedules have fired")
        await asyncio.sleep(0.05)


async def check(stage: Stage, count: int) -> int:
    """Every schedule has its job, and one only; how many were early."""
    if is_sexton(stage.contender):
        if not await stage.watcher.fetchval(LEDGER, count):
            raise ContenderFailed("the ledger and the jobs are not one for each schedule")
        return int(await stage.watcher.fetchval(EARLY))
    return 0


async def one(
    arena: Arena, contender: Contender, count: int, nodes: int, lead: float
) -> tuple[float, int]:
    async with arena.stage(as_node(contender)) as stage:
        processes = [await stage.process() for _ in range(nodes)]
        await processes[0].ask("setup")
        at = math.ceil(await clock(stage) + lead)
        await processes[0].ask("crowd", count=count, at=at)
        await stage.settle_down()
        for process in processes:
            await process.ask("fire", timeout=60)
        if is_sexton(contender):
            await even(stage, nodes)
        left = at - await clock(stage)
        if left < IDLE:
            raise TooSoon(f"ready {IDLE - left:.1f} s too late")
        await asyncio.sleep(left)
        last = await all_fired(processes, count)
        if contender.queues:
            await stage.expect(count)
        return last - at, await check(stage, count)


async def stampede(arena: Arena, contender: Contender, sizes: Sizes) -> Figures:
    figures: Figures = {}
    for crowd in contender.crowds:
        count = sizes.crowd * (10 if crowd.startswith("large") else 1)
        nodes = int(crowd[-1])
        lead = 3.0 + nodes + 1.5 * count / contender.registers
        attempt = partial(one, arena, contender, count, nodes)
        for number in range(TRIES):
            try:
                figures[crowd], early = await attempt(lead * 2**number)
                break
            except TooSoon:
                if number == TRIES - 1:
                    raise
        if is_sexton(contender):
            figures["early"] = figures.get("early", 0) + early
    return figures


STAMPEDE = Scenario(
    name="stampede",
    about="schedules that are all due in the same second",
    columns=(
        Column("small1", "small stampede, 1 node, s", ".2f", more_is_better=False),
        Column("small2", "2 nodes, s", ".2f", more_is_better=False),
        Column("large1", "large stampede, 1 node, s", ".2f", more_is_better=False),
        Column("large2", "2 nodes, s", ".2f", more_is_better=False),
        Column("early", "early", ".0f", more_is_better=False),
    ),
    run=stampede,
    takes=lambda contender: bool(contender.crowds),
    rounds=3,
)
