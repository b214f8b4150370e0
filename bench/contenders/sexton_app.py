"""Sexton as its users run it: one queue, concurrency 1,000, everything else as it comes."""

from __future__ import annotations

from collections.abc import MutableSequence

from bench.contenders.agent import Agent, arguments, main
from sexton import Sexton

CONCURRENCY = 1_000


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
        calls = [self.noop.call(**arguments(n)) for n in range(first, first + count)]
        if delay:
            calls = [call.options(delay=delay) for call in calls]
        await self.app.enqueue_many(calls)

    async def work(self) -> None:
        await self.app.run_worker(queues={"bench": CONCURRENCY})

    def take_claims(self) -> list[float]:
        worker = getattr(self.app, "worker", None)
        if worker is None:
            return []
        seconds: MutableSequence[float] = worker.stats.claim_seconds
        taken = list(seconds)
        seconds.clear()
        return taken

    async def close(self) -> None:
        await self.app.__aexit__(None, None, None)


if __name__ == "__main__":
    main(SextonAgent)
