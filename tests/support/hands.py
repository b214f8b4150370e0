"""The engine by hand: a registered worker whose every step the test takes itself."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from sexton.domain.job import PRIORITIES, Claim, Enqueued, NewJob
from sexton.domain.outcome import Outcome
from sexton.domain.retry import Retry
from sexton.domain.transitions import settle
from sexton.store import Clock, Line, Store
from sexton.store.connection import Address
from sexton.store.jobs import BEGINNING


class Hands:
    """One worker, and the statements it would run."""

    def __init__(self, store: Store, worker: int) -> None:
        self.store = store
        self.worker = worker

    async def enqueue(self, task: str = "t", **fields: Any) -> Enqueued:
        fields.setdefault("queue", "default")
        job = NewJob(task, fields.pop("payload", "{}"), **fields)
        if job.key is None:
            return await self.store.jobs.enqueue_one(job)
        return (await self.store.jobs.enqueue_keyed([job]))[0]

    async def claim(
        self, limit: int = 1, queue: str = "default", since: datetime = BEGINNING
    ) -> list[Claim]:
        lanes = list(PRIORITIES)
        return await self.store.jobs.claim(queue, limit, self.worker, lanes, [since] * len(lanes))

    async def settle(
        self, claim: Claim, outcome: Outcome, retry: Retry | None = None, noise: float = 1.0
    ) -> bool:
        settlement = settle(
            outcome, tries=claim.tries, retry=retry or Retry(), expires_in=None, noise=noise
        )
        return claim.id in await self.store.jobs.settle([(claim.id, claim.fence, settlement)])

    async def rows(self, query: str, *args: Any) -> Sequence[Any]:
        return await self.store.source.fetch(query, *args)

    async def value(self, query: str, *args: Any) -> Any:
        return (await self.rows(query, *args))[0][0]


@asynccontextmanager
async def hands(
    address: Address, *, lease: float = 30.0, clock: Clock | None = None, name: str = "hands"
) -> AsyncIterator[Hands]:
    line = Line(address)
    try:
        store = Store(line, "sexton", clock)
        worker = await store.workers.register(name, ["default"], "test", lease)
        yield Hands(store, worker)
    finally:
        await line.close()
