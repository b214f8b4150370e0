"""How soon a task starts on an idle worker: from just before the enqueue call to the task's first
line, in another process. Both sides read CLOCK_MONOTONIC, which processes of one host share."""

from __future__ import annotations

import asyncio

from bench.arena import Arena
from bench.contenders import Contender
from bench.driver import ContenderFailed
from bench.scenarios.base import Column, Figures, Scenario, Sizes, percentile

GAP = 0.035  # seconds, jittered by half
WARM_UP = 20


async def latency(arena: Arena, contender: Contender, sizes: Sizes) -> Figures:
    async with arena.stage(contender) as stage:
        worker, enqueuer = await stage.process(), await stage.process()
        await worker.ask("work", record=True)
        await asyncio.sleep(1)
        count = sizes.latency + WARM_UP
        sent = (await enqueuer.ask("pace", count=count, gap=GAP))["sent"]
        for _ in range(100):
            told = await worker.ask("report", full=True)
            if told["done"] >= count:
                break
            await asyncio.sleep(0.1)
        else:
            raise ContenderFailed(f"{told['done']} of {count} jobs started")
        starts = dict(told["starts"])
        waits = [starts[n] - sent[n] for n in range(WARM_UP, count)]
        return {"p50": percentile(waits, 0.5) * 1000, "p99": percentile(waits, 0.99) * 1000}


LATENCY = Scenario(
    name="latency",
    about="enqueue to task start on an idle worker",
    columns=(
        Column("p50", "idle latency p50, ms", ".2f", more_is_better=False),
        Column("p99", "idle latency p99, ms", ".2f", more_is_better=False),
    ),
    run=latency,
)
