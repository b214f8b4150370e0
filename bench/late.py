"""How long a job waits whose transaction went on for a while after it was enqueued.

    python -m bench.late                      # transactions of 0.1, 0.3, 0.5, 1 and 3 seconds
    python -m bench.late --times 100          # more of each

One worker with default settings, alone, on a queue in which 200 other jobs a second are enqueued
and claimed: when such a transaction commits, the worker has gone past its job. The wait is from the
return of the commit to the task's first line.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator

import asyncpg

from bench.report import table
from bench.scenarios.base import percentile
from bench.server import Server, ServerFailed
from sexton import Sexton

HOLDS = (0.1, 0.3, 0.5, 1.0, 3.0)
BEAT = 0.005


class Queue:
    """A worker, and what was begun there."""

    def __init__(self, url: str) -> None:
        self.app = Sexton(url, grace=0)
        self.began: dict[int, float] = {}
        self._others = 0

        @self.app.task
        async def note(n: int) -> None:
            self.began[n] = time.monotonic()

        self.note = note

    @contextlib.asynccontextmanager
    async def busy(self) -> AsyncIterator[None]:
        """With others to do all the while."""
        await self.app.migrate()
        worker = await self.app.worker()
        working = asyncio.create_task(worker.run())
        await worker.started.wait()
        flow = asyncio.create_task(self._flow())
        try:
            yield
        finally:
            flow.cancel()
            await asyncio.gather(flow, return_exceptions=True)
            worker.stop()
            await working
            await self.app.close()

    async def _flow(self) -> None:
        while True:
            self._others -= 1
            await self.note.enqueue(self._others)
            await asyncio.sleep(BEAT)

    async def waited(self, connection: asyncpg.Connection, n: int, hold: float) -> float:
        """One that is committed so long after it was enqueued."""
        async with connection.transaction():
            await self.note.enqueue(n, connection=connection)
            await asyncio.sleep(hold)
        committed = time.monotonic()
        while n not in self.began:
            await asyncio.sleep(0.001)
        return max(0.0, self.began[n] - committed)


async def measured(url: str, times: int) -> None:
    queue = Queue(url)
    connection = await asyncpg.connect(url)
    waits: dict[float, list[float]] = {hold: [] for hold in HOLDS}
    async with queue.busy():
        for nth in range(times):
            for place, hold in enumerate(HOLDS):
                n = nth * len(HOLDS) + place
                waits[hold].append(await queue.waited(connection, n, hold))
    await connection.close()
    head = ["transaction, s", "p50, ms", "p90, ms", "most, ms"]
    rows = [[f"{hold:g}", *(f"{each * 1000:,.0f}" for each in _of(waits[hold]))] for hold in HOLDS]
    print(table(head, rows))


def _of(waits: list[float]) -> tuple[float, float, float]:
    return percentile(waits, 0.5), percentile(waits, 0.9), max(waits)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=30, help="of each length")
    arguments = parser.parse_args()
    try:
        with Server() as server:
            asyncio.run(measured(server.url, arguments.times))
    except ServerFailed as reason:
        print(reason, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
