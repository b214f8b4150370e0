"""What an application has open in one event loop: a pool, the store over it, a waker."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import asyncpg

from sexton.domain.job import Enqueued, NewJob
from sexton.errors import InvalidJob, Unavailable
from sexton.flow.wake import Waker
from sexton.observe import traces
from sexton.settings import Settings
from sexton.store import Borrowed, Clock, Held, Jobs, Migrated, Store
from sexton.store.connection import Address
from sexton.store.foreign import demands_schema, driver_of, enqueue_call, run_async, run_sync
from sexton.targets.task import Call

log = logging.getLogger("sexton.enqueue")

# PostgreSQL begins early with a small one; large ones cost fewer round trips.
FIRST_BATCH = 1000
LARGEST_BATCH = 8000
# So many times our patience a change waits for what another has locked.
LOCKED_TIMES = 6
# For so long (s) a change may stand still before it is ended: a million rules take their time to be
# computed.
STILL_FOR = 300


class Client:
    """Enqueues over connections of its own, or over the caller's."""

    def __init__(self, address: Address, settings: Settings, clock: Clock | None) -> None:
        self.loop = asyncio.get_running_loop()
        self.address = address
        self.pool = Migrated(address, settings.pool_size, settings.schema)
        self.store = Store(self.pool, settings.schema, clock)
        self.waker = Waker(self.store)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Store]:
        """The store in one transaction, in which no answer is waited for for ever; of statements
        for longer than usual, because they may wait for what somebody else has locked."""
        patience = self.address.patience
        within = LOCKED_TIMES * patience
        begin = (
            f"begin; set local lock_timeout = {1000 * within:.0f}; "
            f"set local idle_in_transaction_session_timeout = {1000 * STILL_FOR}"
        )
        try:
            async with self.pool.demanded(), self.pool.transaction(ours=True, begin=begin) as own:
                yield self.store.over(Held(own, patience, locked_for=within))
        except asyncpg.LockNotAvailableError as error:
            raise Unavailable(
                f"another change has had this locked for {within:g} s: nothing was changed; try "
                "again when it is over"
            ) from error

    async def enqueue(self, job: NewJob, connection: Any = None) -> Enqueued:
        try:
            with traces.enqueued(job) as made:
                enqueued = await self._enqueue(job, connection)
                made(enqueued.id)
                return enqueued
        except (asyncpg.DataError, OverflowError) as error:
            raise InvalidJob(f"task {job.task!r}: PostgreSQL cannot take this: {error}") from error

    async def _enqueue(self, job: NewJob, connection: Any) -> Enqueued:
        if connection is not None:
            return await self._enqueue_in(connection, job)
        if job.key is None:
            return await self._enqueue_one(job)
        [enqueued] = await self.store.jobs.enqueue_keyed([job])
        if not enqueued.duplicate:
            self.waker.wake(job.queue, job.tenant)
        return enqueued

    async def _enqueue_one(self, job: NewJob) -> Enqueued:
        """The first after a quiet moment carries its notification, the others share one."""
        if self.waker.may_carry():
            try:
                return await self.store.jobs.enqueue_one(job, wake=True)
            except asyncpg.ProgramLimitExceededError as error:
                # PostgreSQL's queue of notifications is full: that must not fail an enqueue.
                log.warning("enqueueing without a notification: %s", error)
        enqueued = await self.store.jobs.enqueue_one(job)
        self.waker.wake(job.queue, job.tenant)
        return enqueued

    async def enqueue_named(self, job: NewJob, connection: Any = None) -> Enqueued:
        """A task that this application does not declare: the database knows its queue.

        In a transaction of somebody's own, or in one of ours that is held.
        """
        with traces.enqueued(job) as made:
            enqueued = await self._enqueue_named(job, connection)
            made(enqueued.id)
            return enqueued

    async def _enqueue_named(self, job: NewJob, connection: Any) -> Enqueued:
        if connection is not None and not isinstance(connection, Held):
            return await self._enqueue_in(connection, job)
        call = enqueue_call(self.store.schema, job, self.store.now())
        [row] = await (connection or self.pool).fetch(call.text("$"), *call.values().values())
        return Enqueued(*row)

    async def enqueue_many(self, calls: Iterable[Call], connection: Any = None) -> list[Enqueued]:
        """In one transaction: COPY for those without a key, an upsert for the others."""
        async with self.pool.demanded():
            with traces.enqueued_many(calls) as carrying:
                return await self._enqueue_many(carrying, connection)

    async def _enqueue_many(self, calls: Iterable[Call], connection: Any) -> list[Enqueued]:
        if connection is None:
            async with self.pool.transaction(ours=True) as own:
                held = self.store.over(Held(own, self.address.patience)).jobs
                enqueued, queues = await self._enqueue_batches(held, calls)
            for queue, tenant in queues:
                self.waker.wake(queue, tenant)
            return enqueued
        if driver_of(connection) != "asyncpg":
            return [await self._enqueue_in(connection, _job(call)) for call in _drawn(calls)]
        async with connection.transaction():
            jobs = self.store.over(Borrowed(connection)).jobs
            enqueued, queues = await self._enqueue_batches(jobs, calls)
            await jobs.notify_idle([each for each, _ in queues], [tenant for _, tenant in queues])
        return enqueued

    async def _enqueue_batches(
        self, jobs: Jobs, calls: Iterable[Call]
    ) -> tuple[list[Enqueued], set[tuple[str, int]]]:
        """While PostgreSQL takes in one batch, the next is drawn from `calls`.

        Those with a key come last and sorted over all batches, so that two callers with the same
        keys cannot wait for each other.
        """
        enqueued: list[Enqueued] = []
        keyed: list[tuple[int, NewJob]] = []
        queues: set[tuple[str, int]] = set()
        drawn = _drawn(calls)
        size = FIRST_BATCH
        sending: asyncio.Task[None] | None = None
        try:
            while batch := [_job(call) for call in itertools.islice(drawn, size)]:
                if sending is not None:
                    await sending
                now, ids = await jobs.reserve(len(batch))
                queues.update({(job.queue, job.tenant) for job in batch})
                keyed += [
                    (nth, job)
                    for nth, job in enumerate(batch, len(enqueued))
                    if job.key is not None
                ]
                enqueued += map(Enqueued, ids)
                sending = asyncio.create_task(_enqueue_plain(jobs, now, ids, batch))
                await asyncio.sleep(0)
                size = min(2 * size, LARGEST_BATCH)
            if sending is not None:
                await sending
        except BaseException:
            if sending is not None:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
            raise
        keyed.sort(key=_by_key)
        for first in range(0, len(keyed), FIRST_BATCH):
            part = keyed[first : first + FIRST_BATCH]
            answers = await jobs.enqueue_keyed([job for _, job in part])
            for (nth, _), answer in zip(part, answers, strict=True):
                enqueued[nth] = answer
        return enqueued, queues

    async def _enqueue_in(self, connection: Any, job: NewJob) -> Enqueued:
        call = enqueue_call(self.store.schema, job, self.store.now())
        with demands_schema(self.store.schema):
            id, duplicate = await run_async(connection, call)
        return Enqueued(id, duplicate)

    @staticmethod
    def enqueue_in_sync(
        schema: str, job: NewJob, connection: Any, now: datetime | None
    ) -> Enqueued:
        """In the caller's own transaction, without any loop or connection of ours."""
        with traces.enqueued(job) as made, demands_schema(schema):
            id, duplicate = run_sync(connection, enqueue_call(schema, job, now))
            made(id)
            return Enqueued(id, duplicate)

    async def close(self) -> None:
        await self.waker.close()
        await self.pool.close()


def _drawn(calls: Iterable[Call]) -> Iterator[Call]:
    try:
        return iter(calls)
    except TypeError:
        raise InvalidJob(
            f"enqueue_many takes calls, like [task.call(…), …], not {calls!r:.100}"
        ) from None


def _job(call: Call) -> NewJob:
    if not isinstance(call, Call):
        raise InvalidJob(f"enqueue_many takes calls, like task.call(…), not {call!r:.100}")
    return call.job


def _by_key(numbered: tuple[int, NewJob]) -> tuple[int, str, str]:
    _, job = numbered
    return job.tenant, job.task, job.key or ""


async def _enqueue_plain(
    store: Jobs, now: datetime, ids: Sequence[int], jobs: Sequence[NewJob]
) -> None:
    if any(job.key is not None for job in jobs):
        plain = [(id, job) for id, job in zip(ids, jobs, strict=True) if job.key is None]
        if not plain:
            return
        ids, jobs = zip(*plain, strict=True)
    await store.enqueue_plain(now, ids, jobs)
