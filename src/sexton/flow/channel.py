"""How a running job reaches back: progress, and a transaction that carries its settlement."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable
from typing import Any

from sexton.domain.transitions import Settlement
from sexton.errors import LeaseLost, SextonError
from sexton.store import Borrowed, Pool, Store
from sexton.store.foreign import run, succeed_call
from sexton.targets.arguments import encode
from sexton.targets.job import Job


class WorkerChannel:
    """The channel of jobs that run in the worker's own process."""

    def __init__(self, pool: Pool, store: Store, max_bytes: int) -> None:
        self._pool = pool
        self._store = store
        self._max_bytes = max_bytes
        self._loop = asyncio.get_running_loop()
        self._progress: dict[int, tuple[int, str]] = {}

    def progress(self, job: Job, value: Any) -> None:
        text = encode(value, "progress", self._max_bytes)
        # A task may run in a thread; the newest value wins.
        self._loop.call_soon_threadsafe(self._progress.__setitem__, job.fence, (job.id, text))

    async def write_progress(self) -> None:
        """Write what has been said since the last time; a stale claim's is refused."""
        said, self._progress = self._progress, {}
        for fence, (id, text) in said.items():
            await self._store.jobs.progress(id, fence, text)

    @contextlib.asynccontextmanager
    async def transaction(self, job: Job, result: Any) -> AsyncIterator[Any]:
        text = self._result(job, result)
        async with self._pool.transaction() as connection:
            yield connection
            accepted = await self._store.over(Borrowed(connection)).jobs.settle(
                [(job.id, job.fence, Settlement("succeeded", "succeeded", result=text))]
            )
            self._demand(job, job.id in accepted)
        job.settled = True

    def settle_in(self, job: Job, connection: Any, result: Any) -> Any:
        store = self._store
        text = self._result(job, result)
        call = succeed_call(store.schema, job.id, job.fence, text, store.now())
        row = run(connection, call)
        if isinstance(row, tuple):
            self._demand(job, row[0])
            job.settled = True
            return None
        return self._await_settlement(job, row)

    async def _await_settlement(self, job: Job, row: Awaitable[tuple[Any, ...]]) -> None:
        self._demand(job, (await row)[0])
        job.settled = True

    def _result(self, job: Job, result: Any) -> str | None:
        if job.settled:
            raise SextonError(f"job {job.id} is settled already: one transaction can carry it")
        return None if result is None else encode(result, "the result", self._max_bytes)

    def _demand(self, job: Job, accepted: bool) -> None:
        if not accepted:
            raise LeaseLost(
                f"job {job.id} was claimed again: fence {job.fence} is old, this transaction "
                "must not commit"
            )
