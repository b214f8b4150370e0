"""How a running job reaches back: progress, and a transaction that carries its settlement."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from sexton.domain.transitions import Settlement
from sexton.store import Borrowed, Pool, Store
from sexton.store.connection import is_transient, say
from sexton.targets.arguments import encode
from sexton.targets.job import Job
from sexton.targets.settlement import demand, result_text, settle_in

log = logging.getLogger("sexton.job")


class WorkerChannel:
    """The channel of jobs that run in the worker's own process."""

    def __init__(self, pool: Pool, store: Store, max_bytes: int) -> None:
        self._pool = pool
        self._store = store
        self.schema = store.schema
        self.installation = ""  # told when the worker starts
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
        if not said:
            return
        left: Iterable[int] = said
        try:
            left = await self._store.jobs.progress(said)
        except Exception as error:
            if is_transient(error):
                raise
            left = await self._write_one_by_one(said)
        finally:
            for fence in left:
                self._progress.setdefault(fence, said[fence])  # unless there is something newer

    async def _write_one_by_one(self, said: Mapping[int, tuple[int, str]]) -> set[int]:
        """One that PostgreSQL will not take is not written; returns those to be tried again."""
        left: set[int] = set()
        for fence, each in said.items():
            try:
                left |= await self._store.jobs.progress({fence: each})
            except Exception as error:
                if is_transient(error):
                    left.add(fence)
                else:
                    log.warning("job %d: its progress is not kept: %s", each[0], say(error))
        return left

    @contextlib.asynccontextmanager
    async def transaction(self, job: Job, result: Any) -> AsyncIterator[Any]:
        text = result_text(job, result, self._max_bytes)
        async with self._pool.transaction() as connection:
            yield connection
            accepted = await self._store.over(Borrowed(connection)).jobs.settle(
                [(job.id, job.fence, Settlement("succeeded", "succeeded", result=text))]
            )
            demand(job, job.id in accepted)
        job.settled = True

    def settle_in(self, job: Job, connection: Any, result: Any) -> Any:
        text = result_text(job, result, self._max_bytes)
        return settle_in(job, connection, self.schema, text, self._store.now())
