"""What a worker costs when nothing happens, when a million jobs wait, and after a million jobs."""

from __future__ import annotations

import asyncio
import statistics
from contextlib import suppress

import psutil

from bench.arena import Arena
from bench.contenders import Contender
from bench.scenarios.base import Column, Figures, Scenario, Sizes
from bench.scenarios.drain import drain_count, drained, filled

A_DAY = 86_400.0
FUTURE_BATCH = 100_000


def family(pid: int) -> list[psutil.Process]:
    parent = psutil.Process(pid)
    return [parent, *parent.children(recursive=True)]


def megabytes(pid: int) -> float:
    return float(sum(process.memory_info().rss for process in family(pid))) / 1e6


def processor_seconds(pid: int) -> float:
    total = 0.0
    for process in family(pid):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


async def idle(arena: Arena, contender: Contender, sizes: Sizes) -> Figures:
    async with arena.stage(contender) as stage:
        worker = await stage.process()
        await worker.ask("work")
        await asyncio.sleep(3)
        before = processor_seconds(worker.pid)
        await asyncio.sleep(sizes.idle_seconds)
        used = processor_seconds(worker.pid) - before
        return {"cpu": 100 * used / sizes.idle_seconds, "rss": megabytes(worker.pid)}


async def claims(arena: Arena, contender: Contender, sizes: Sizes, waiting: int) -> list[float]:
    count = drain_count(contender, sizes) // 2
    async with arena.stage(contender) as stage:
        process = await stage.process()
        style = contender.bulk_styles[0]
        for first in range(0, waiting, FUTURE_BATCH):
            some = min(FUTURE_BATCH, waiting - first)
            await process.ask("bulk", count=some, style=style, delay=A_DAY)
        await stage.stop(process)
        await filled(stage, count)
        await stage.settle_down()
        stage.expected = waiting
        worker = await stage.process()
        await drained(stage, [worker], count)
        seconds: list[float] = (await worker.ask("report", full=True))["claims"]
        return seconds


async def million(arena: Arena, contender: Contender, sizes: Sizes) -> Figures:
    without = await claims(arena, contender, sizes, 0)
    among = await claims(arena, contender, sizes, sizes.waiting)
    if not without or not among:
        return {}
    few, many = statistics.median(without) * 1000, statistics.median(among) * 1000
    return {"claim_alone": few, "claim_among": many, "slower": many / few}


async def rss(arena: Arena, contender: Contender, sizes: Sizes) -> Figures:
    """The worker's memory after each tenth of the jobs.

    The allocator takes memory in arenas of 1 MiB and reaches its high-water mark somewhere in the
    first half; a leak would go on growing, so what counts is the second half's growth.
    """
    tenth = sizes.rss_jobs // 10
    sampled: list[float] = []
    async with arena.stage(contender) as stage:
        worker = await stage.process()
        enqueuer = await stage.process()
        for part in range(10):
            await enqueuer.ask("bulk", first=part * tenth, count=tenth, style="paced")
            if part == 0:
                await worker.ask("work")
            await asyncio.sleep(0.5)
            while (await worker.ask("report"))["done"] < (part + 1) * tenth:
                await worker.ask(
                    "report", full=True
                )  # takes the claim times, so they do not add up
                await asyncio.sleep(0.2)
            await stage.wait_until_settled()
            sampled.append(megabytes(worker.pid))
    return {
        "rss_first": sampled[0],
        "rss_half": sampled[4],
        "rss_last": sampled[-1],
        "growth": sampled[-1] / sampled[4],
    }


IDLE = Scenario(
    name="idle",
    about="an idle worker",
    columns=(
        Column("cpu", "idle CPU, % of a core", ".2f", more_is_better=False),
        Column("rss", "idle RSS, MB", ".0f", more_is_better=False),
    ),
    run=idle,
    once=True,
)
MILLION = Scenario(
    name="million",
    about="claiming among a million jobs that are due later",
    columns=(
        Column("claim_alone", "claim p50 alone, ms", ".2f", more_is_better=False),
        Column("claim_among", "among the waiting, ms", ".2f", more_is_better=False),
        Column("slower", "times slower", ".2f", more_is_better=False),
    ),
    run=million,
    takes=lambda contender: contender.delays and contender.measures_claims,
    once=True,
)
RSS = Scenario(
    name="rss",
    about="a worker's memory over a million jobs",
    columns=(
        Column("rss_first", "RSS after the first tenth, MB", ".0f", more_is_better=False),
        Column("rss_half", "after half, MB", ".0f", more_is_better=False),
        Column("rss_last", "after the last, MB", ".0f", more_is_better=False),
        Column("growth", "last × half", ".3f", more_is_better=False),
    ),
    run=rss,
    takes=lambda contender: contender.name in ("floor", "sexton"),
    once=True,
)
