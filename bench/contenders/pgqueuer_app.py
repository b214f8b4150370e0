"""PgQueuer: asyncpg pool, batch 500, its own log table kept (durability `durable`, the default)."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import asyncpg
from pgqueuer.models import Job
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries

from bench.contenders.agent import Agent, arguments, main

BATCH = 500
ENQUEUE_BATCH = 10_000


def payload(n: int) -> bytes:
    return json.dumps(arguments(n)).encode()


class PgQueuer(Agent):
    async def setup(self) -> None:
        await self.open()
        await self.queries.install()

    async def open(self) -> None:
        self.pool = await asyncpg.create_pool(self.url, min_size=4, max_size=10)
        self.queries = Queries.from_asyncpg_pool(self.pool)

    async def enqueue_one(self, n: int) -> None:
        await self.queries.enqueue("noop", payload(n))

    async def enqueue_many(self, first: int, count: int, style: str, delay: float) -> None:
        for start in range(first, first + count, ENQUEUE_BATCH):
            numbers = range(start, min(start + ENQUEUE_BATCH, first + count))
            await self.queries.enqueue(
                ["noop"] * len(numbers), [payload(n) for n in numbers], [0] * len(numbers)
            )

    async def work(self) -> None:
        manager: Any = QueueManager(self.queries)

        @manager.entrypoint("noop")  # type: ignore[untyped-decorator]
        async def noop(job: Job) -> None:
            assert job.payload is not None
            self.tally.ran(json.loads(job.payload)["n"])

        await manager.run(batch_size=BATCH, dequeue_timeout=timedelta(seconds=30))

    async def close(self) -> None:
        self.pool.terminate()


if __name__ == "__main__":
    main(PgQueuer)
