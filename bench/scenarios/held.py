"""What a forgotten transaction does: jobs flow steadily while another session keeps two open, one
with an old snapshot and one with a transaction id, so that no dead row can be cleaned away.

`usual` is the claim p99 before; `held` is the claim p99 in the last fifth of the held time, the
worst of it. Peers whose claims cannot be seen show the same for enqueue-to-start.
"""

from __future__ import annotations

import asyncio
import time

import asyncpg

from bench.arena import Arena
from bench.contenders import Contender
from bench.driver import Process
from bench.scenarios.base import Column, Figures, Scenario, Sizes, percentile

BEAT = 0.02  # seconds
BATCH = 10  # jobs a beat: 500 a second
USUAL_SECONDS = 10.0


class Phase:
    """The claims, and the waits for a start, of one stretch of time."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.ended = 0.0
        self.claims: list[float] = []

    async def end(self, worker: Process) -> None:
        self.claims = (await worker.ask("report", full=True))["claims"]
        self.ended = time.monotonic()

    def waits(self, sent: list[float], starts: dict[int, float]) -> list[float]:
        return [
            starts[n] - at
            for beat, at in enumerate(sent)
            for n in range(beat * BATCH, (beat + 1) * BATCH)
            if self.began <= at < self.ended and n in starts
        ]


async def held(arena: Arena, contender: Contender, sizes: Sizes) -> Figures:
    async with arena.stage(contender) as stage:
        worker, enqueuer = await stage.process(), await stage.process()
        await worker.ask("work", record=True)
        warm_up = 3.0
        beats = int((warm_up + USUAL_SECONDS + sizes.held_seconds) / BEAT)
        flow = asyncio.create_task(
            enqueuer.ask("pace", timeout=beats * BEAT * 3, count=beats, gap=BEAT, batch=BATCH)
        )
        await asyncio.sleep(warm_up)
        await worker.ask("report", full=True)  # forget the claims so far
        usual = Phase()
        await asyncio.sleep(USUAL_SECONDS)
        await usual.end(worker)
        snapshot, writer = await asyncpg.connect(stage.url), await asyncpg.connect(stage.url)
        try:
            await snapshot.execute("begin isolation level repeatable read")
            await snapshot.fetch("select count(*) from pg_class")
            await writer.execute("begin")
            await writer.fetchval("select pg_current_xact_id()")
            await asyncio.sleep(sizes.held_seconds * 0.8)
            await Phase().end(worker)
            last = Phase()
            sent = (await flow)["sent"]
            await last.end(worker)
            await asyncio.sleep(1)
            told = await worker.ask("report", full=True)
        finally:
            flow.cancel()
            await snapshot.close()
            await writer.close()
        return compared(usual, last, sent, dict(told["starts"]))


def compared(usual: Phase, last: Phase, sent: list[float], starts: dict[int, float]) -> Figures:
    figures: Figures = {}
    pairs = {
        "claim": (usual.claims, last.claims),
        "start": (usual.waits(sent, starts), last.waits(sent, starts)),
    }
    for name, (before, under) in pairs.items():
        if before and under:
            figures[f"{name}_usual"] = percentile(before, 0.99) * 1000
            figures[f"{name}_held"] = percentile(under, 0.99) * 1000
            figures[f"{name}_ratio"] = figures[f"{name}_held"] / figures[f"{name}_usual"]
            figures[f"{name}_ratio_p50"] = percentile(under, 0.5) / percentile(before, 0.5)
    return figures


HELD = Scenario(
    name="held",
    about="500 jobs/s while another session holds transactions open",
    columns=(
        Column("claim_usual", "claim p99 usual, ms", ".1f", more_is_better=False),
        Column("claim_held", "claim p99 held, ms", ".1f", more_is_better=False),
        Column("claim_ratio", "claim p99, × usual", ".2f", more_is_better=False),
        Column("claim_ratio_p50", "claim p50, × usual", ".2f", more_is_better=False),
        Column("start_usual", "start p99 usual, ms", ".1f", more_is_better=False),
        Column("start_held", "start p99 held, ms", ".1f", more_is_better=False),
        Column("start_ratio", "start p99, × usual", ".2f", more_is_better=False),
        Column("start_ratio_p50", "start p50, × usual", ".2f", more_is_better=False),
    ),
    run=held,
    takes=lambda contender: contender.name in ("floor", "sexton", "graphile"),
    once=True,
)
