"""What an application has open in one event loop: a pool, the store over it, a waker."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sexton.domain.job import Enqueued, NewJob
from sexton.flow.wake import Waker
from sexton.settings import Settings
from sexton.store import Borrowed, Clock, Pool, Store
from sexton.store.connection import Address
from sexton.store.foreign import driver_of, enqueue_call, run_async, run_sync


class Client:
    """Enqueues over connections of its own, or over the caller's."""

    def __init__(self, address: Address, settings: Settings, clock: Clock | None) -> None:
        self.loop = asyncio.get_running_loop()
        self.address = address
        self.pool = Pool(address, settings.pool_size)
        self.store = Store(self.pool, settings.schema, clock)
        self.waker = Waker(self.store)

    async def enqueue(self, job: NewJob, connection: Any = None) -> Enqueued:
        if connection is not None:
            return await self._enqueue_in(connection, job)
        if job.key is None:
            enqueued = await self.store.jobs.enqueue_one(job)
        else:
            _, ids = await self.store.jobs.reserve(1)
            [enqueued] = await self.store.jobs.enqueue_keyed(ids, [job])
        if not enqueued.duplicate:
            self.waker.poke(job.queue)
        return enqueued

    async def enqueue_named(self, job: NewJob, connection: Any = None) -> Enqueued:
        """A task that this application does not declare: the database knows its queue."""
        if connection is not None:
            return await self._enqueue_in(connection, job)
        async with self.pool.transaction() as own:
            return await self._enqueue_in(own, job)

    async def enqueue_many(self, jobs: Sequence[NewJob], connection: Any = None) -> list[Enqueued]:
        """In one transaction: COPY for those without a key, an upsert for the others."""
        if not jobs:
            return []
        if connection is None:
            async with self.pool.transaction() as own:
                enqueued = await self._enqueue_batch(Borrowed(own), jobs)
            for queue in {job.queue for job in jobs}:
                self.waker.poke(queue)
            return enqueued
        if driver_of(connection) != "asyncpg":
            return [await self._enqueue_in(connection, job) for job in jobs]
        async with connection.transaction():
            enqueued = await self._enqueue_batch(Borrowed(connection), jobs)
            await self.store.over(Borrowed(connection)).jobs.notify_idle(
                sorted({job.queue for job in jobs})
            )
        return enqueued

    async def _enqueue_batch(self, source: Borrowed, jobs: Sequence[NewJob]) -> list[Enqueued]:
        store = self.store.over(source)
        now, ids = await store.jobs.reserve(len(jobs))
        if all(job.key is None for job in jobs):
            await store.jobs.enqueue_plain(now, ids, jobs)
            return [Enqueued(id) for id in ids]
        plain = [(id, job) for id, job in zip(ids, jobs, strict=True) if job.key is None]
        keyed = [(id, job) for id, job in zip(ids, jobs, strict=True) if job.key is not None]
        if plain:
            await store.jobs.enqueue_plain(now, *zip(*plain, strict=True))
        answers = await store.jobs.enqueue_keyed(*zip(*keyed, strict=True))
        by_id = {id: answer for (id, _), answer in zip(keyed, answers, strict=True)}
        return [by_id.get(id) or Enqueued(id) for id in ids]

    async def _enqueue_in(self, connection: Any, job: NewJob) -> Enqueued:
        call = enqueue_call(self.store.schema, job, self.store.now())
        id, duplicate = await run_async(connection, call)
        return Enqueued(id, duplicate)

    @staticmethod
    def enqueue_in_sync(
        schema: str, job: NewJob, connection: Any, now: datetime | None
    ) -> Enqueued:
        """In the caller's own transaction, without any loop or connection of ours."""
        id, duplicate = run_sync(connection, enqueue_call(schema, job, now))
        return Enqueued(id, duplicate)

    async def close(self) -> None:
        await self.waker.close()
        await self.pool.close()
