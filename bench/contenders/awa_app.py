"""awa-pg: a Rust core that calls Python tasks. Queue storage, 2 claimers of 256, 500 workers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import awa

from bench.contenders.agent import Agent, arguments, main

ENQUEUE_BATCH = 10_000
QUEUE = {"name": "bench", "max_workers": 500, "claimers": 2, "claim_batch_size": 256}


@dataclass
class Noop:
    n: int
    pad: str


class Awa(Agent):
    async def setup(self) -> None:
        await self.open()
        await self.client.migrate()
        await self.client.install_queue_storage()

    async def open(self) -> None:
        self.client: Any = awa.AsyncClient(self.url, max_connections=20)

    async def enqueue_one(self, n: int) -> None:
        await self.client.insert(Noop(**arguments(n)), queue="bench")

    async def enqueue_many(self, first: int, count: int, style: str, delay: float) -> None:
        for start in range(first, first + count, ENQUEUE_BATCH):
            end = min(start + ENQUEUE_BATCH, first + count)
            jobs = [Noop(**arguments(n)) for n in range(start, end)]
            await self.client.enqueue_many_copy(jobs, queue="bench")

    async def work(self) -> None:
        @self.client.task(Noop, queue="bench")  # type: ignore[untyped-decorator]
        async def noop(job: Any) -> None:
            self.tally.ran(job.args.n)

        await self.client.start([QUEUE])
        self.started = True
        await asyncio.Event().wait()

    started = False

    async def close(self) -> None:
        if self.started:
            await self.client.shutdown()
        await self.client.close()


if __name__ == "__main__":
    main(Awa)
