"""Sexton as its users run it: one queue, concurrency 1,000, everything else as it comes."""

from __future__ import annotations

import asyncio

from bench.contenders.agent import Agent, arguments, main
from sexton import Sexton

CONCURRENCY = 2_000


class SextonAgent(Agent):
    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.app = Sexton(database_url=url)

        @self.app.task(queue="bench")
        async def noop(n: int, pad: str) -> None:
            self.tally.ran(n)

        self.noop = noop

    async def setup(self) -> None:
        await self.open()
        await self.app.migrate()

    async def open(self) -> None:
        await self.app.__aenter__()

    async def enqueue_one(self, n: int) -> None:
        await self.noop.enqueue(**arguments(n))

    async def enqueue_many(self, first: int, count: int, style: str, delay: float) -> None:
        calls = (self.noop.call(**arguments(n)) for n in range(first, first + count))
        await self.app.enqueue_many(
            (call.options(delay=delay) for call in calls) if delay else calls
        )

    async def work(self) -> None:
        self.worker = await self.app.worker({"bench": CONCURRENCY})
        running = asyncio.create_task(self.worker.run())
        try:
            await asyncio.shield(running)
        finally:
            self.worker.stop()
            await running

    def take_claims(self) -> list[float]:
        return self.worker.take_claim_seconds()

    async def close(self) -> None:
        await self.app.__aexit__(None, None, None)


if __name__ == "__main__":
    main(SextonAgent)
