"""APScheduler 3 as its manual says for jobs that survive: a SQLAlchemy store, a pool of threads.

It has no queue: a job is submitted to a thread, then its row is updated, one commit each. What is
measured is the start of the task in its thread.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import asyncpg

from bench.contenders.agent import arguments, main
from bench.contenders.firing import FiringAgent, clock_offset

# The store names tasks by module, and imports that module once more: what ran is noted there.
NOOP = "bench.contenders.apscheduler_app:noop"
RAN: list[float] = []


def noop(n: int, pad: str) -> None:
    RAN.append(time.time())


class ApschedulerAgent(FiringAgent):
    scheduler: Any = None

    async def setup(self) -> None:
        """The store makes its table by itself."""

    async def open(self) -> None:
        connection = await asyncpg.connect(self.url)
        self.offset = await clock_offset(connection)
        await connection.close()
        store = import_module("apscheduler.jobstores.sqlalchemy").SQLAlchemyJobStore
        background = import_module("apscheduler.schedulers.background").BackgroundScheduler
        self.scheduler = background(
            jobstores={"default": store(url=self.url.replace("://", "+psycopg://", 1))},
            job_defaults={"misfire_grace_time": None},
            timezone=UTC,
        )
        await asyncio.to_thread(self.scheduler.start, paused=True)

    async def crowd(self, count: int, at: float) -> None:
        await asyncio.to_thread(self.add, count, datetime.fromtimestamp(at, UTC))

    def add(self, count: int, first: datetime) -> None:
        when = {"hour": first.hour, "minute": first.minute, "second": first.second}
        for n in range(count):
            self.scheduler.add_job(NOOP, "cron", kwargs=arguments(n), id=f"schedule {n}", **when)

    async def fire(self) -> None:
        await asyncio.to_thread(self.scheduler.resume)
        await asyncio.Event().wait()

    async def ready(self) -> None:
        await asyncio.sleep(0.1)

    def told(self, *, full: bool) -> dict[str, Any]:
        return {"count": len(RAN), "last": max(RAN) + self.offset if RAN else None}

    async def close(self) -> None:
        await super().close()
        if self.scheduler is not None:
            await asyncio.to_thread(self.scheduler.shutdown, wait=False)


if __name__ == "__main__":
    main(import_module("bench.contenders.apscheduler_app").ApschedulerAgent)
