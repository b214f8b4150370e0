"""How fast waiting jobs are executed and settled, and what that writes.

Workers are started and connected first, then told to go. The clock runs from the start of the first
task to the moment the database holds no unsettled job, for everyone: a peer's own start-up is not
held against it. That spares each worker its first claim, which favours large ones
(graphile-worker's 2,000 per process: at most 2 % of a full run, 7 % of a quick one).

The workers are asked every 10 ms how many tasks ran; only when all have does the harness look at
the database, so that it does not compete with the worker.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial

from bench.arena import Arena, Stage
from bench.contenders import Contender
from bench.driver import ContenderFailed, Process
from bench.scenarios.base import Column, Figures, Scenario, Sizes

STALLED = 30.0


async def drained(stage: Stage, workers: list[Process], count: int) -> float:
    """Seconds from the first task's start to the last settlement of `count` jobs."""
    for worker in workers:
        await worker.ask("work", timeout=60)
    seen, seen_at = 0, time.monotonic()
    while True:
        told = [await worker.ask("report", timeout=60) for worker in workers]
        done = sum(report["done"] for report in told)
        if done >= count:
            break
        if done > seen:
            seen, seen_at = done, time.monotonic()
        elif time.monotonic() - seen_at > STALLED:
            raise ContenderFailed(f"stalled: {done} of {count} jobs ran")
        await asyncio.sleep(0.01)
    end = await stage.wait_until_settled()
    ran = sum([(await worker.ask("report"))["done"] for worker in workers])
    if ran != count:
        raise ContenderFailed(f"{ran} tasks ran for {count} jobs")
    first: float = min(report["first"] for report in told if report["first"] is not None)
    return end - first


async def filled(stage: Stage, count: int) -> None:
    """Enqueue what will be drained, by a process that then ends."""
    process = await stage.process()
    await process.ask("bulk", count=count, style=stage.contender.bulk_styles[0])
    await stage.stop(process)


def drain_count(contender: Contender, sizes: Sizes) -> int:
    return max(sizes.drain_least, int(sizes.drain * contender.drain_scale))


async def drain(processes: int, arena: Arena, contender: Contender, sizes: Sizes) -> Figures:
    count = drain_count(contender, sizes)
    async with arena.stage(contender) as stage:
        await filled(stage, count)
        await stage.settle_down()
        workers = [await stage.process() for _ in range(processes)]
        return {f"drain{processes}": count / await drained(stage, workers, count)}


async def wal(arena: Arena, contender: Contender, sizes: Sizes) -> Figures:
    """Bytes of WAL from enqueue to history, and commits while draining.

    The checkpoint between the two is the worst case for page images: each page of waiting jobs is
    written whole when it is first claimed from.
    """
    count = min(sizes.wal, drain_count(contender, sizes))
    async with arena.stage(contender) as stage:
        await stage.settle_down()
        start = await arena.wal_position()
        await filled(stage, count)
        await arena.checkpoint()
        before = await stage.commits()
        worker = await stage.process()
        await drained(stage, [worker], count)
        await stage.stop(worker)
        end = await arena.wal_position()
        written = end - start
        figures = {"wal": written / count, "commits": (await stage.commits() - before) / count}
        if arena.server is not None:
            images = arena.server.page_image_bytes(start, end)
            figures["wal_lean"] = (written - images) / count
        return figures


DRAIN1 = Scenario(
    name="drain1",
    about="drain with 1 worker process",
    columns=(Column("drain1", "drain, 1 process, jobs/s"),),
    run=partial(drain, 1),
)
DRAIN2 = Scenario(
    name="drain2",
    about="drain with 2 worker processes",
    columns=(Column("drain2", "drain, 2 processes, jobs/s"),),
    run=partial(drain, 2),
)
WAL = Scenario(
    name="wal",
    about="WAL and commits over a job's whole life",
    columns=(
        Column("wal", "WAL, bytes/job", more_is_better=False),
        Column("wal_lean", "WAL without page images, bytes/job", more_is_better=False),
        Column("commits", "commits/drained job", ".4f", more_is_better=False),
    ),
    run=wal,
)
