"""Procrastinate: psycopg pool, concurrency 20, finished jobs kept (its default)."""

from __future__ import annotations

import logging
from typing import Any

import procrastinate

from bench.contenders.agent import Agent, arguments, main

CONCURRENCY = 20
ENQUEUE_BATCH = 1_000


class Procrastinate(Agent):
    def __init__(self, url: str) -> None:
        super().__init__(url)
        logging.getLogger("procrastinate").setLevel(logging.ERROR)
        connector = procrastinate.PsycopgConnector(conninfo=url, min_size=4, max_size=CONCURRENCY)
        self.app: Any = procrastinate.App(connector=connector)

        @self.app.task(queue="bench", name="noop")  # type: ignore[untyped-decorator]
        async def noop(n: int, pad: str) -> None:
            self.tally.ran(n)

        self.noop: Any = noop

    async def setup(self) -> None:
        await self.open()
        await self.app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        await self.app.open_async()

    async def enqueue_one(self, n: int) -> None:
        await self.noop.defer_async(**arguments(n))

    async def enqueue_many(self, first: int, count: int, style: str, delay: float) -> None:
        for start in range(first, first + count, ENQUEUE_BATCH):
            end = min(start + ENQUEUE_BATCH, first + count)
            await self.noop.batch_defer_async(*(arguments(n) for n in range(start, end)))

    async def work(self) -> None:
        await self.app.run_worker_async(
            queues=["bench"],
            concurrency=CONCURRENCY,
            wait=True,
            install_signal_handlers=False,
        )

    async def close(self) -> None:
        await self.app.close_async()


if __name__ == "__main__":
    main(Procrastinate)
