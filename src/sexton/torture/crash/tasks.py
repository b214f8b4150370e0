"""The application of the crash points: what its tasks do goes to a log outside PostgreSQL."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator
from typing import Any

import asyncpg

from sexton import Job, Retry, Sexton

AGAIN = 0.4  # what comes late of an attempt shall meet the next one, and not its end
HANG = 3600.0
QUICK = Retry(max_attempts=20, base=0.02, cap=0.1)
# Who waits for an answer that does not come is tried again after this (s).
TIMEOUT = 5.0
EFFECT = "insert into crash.effect (job_id, fence) values ($1, $2)"


class Log:
    """One line an event, written whole before the task goes on."""

    def __init__(self, path: str, name: str = "") -> None:
        self.name = name
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    @contextlib.asynccontextmanager
    async def of(self, job: Job) -> AsyncIterator[None]:
        """The beginning and the end of an attempt, unless its process has neither."""
        self._say("begin", job)
        try:
            if job.attempt > 1:
                await asyncio.sleep(AGAIN)
            yield
        except BaseException:
            self._say("fail", job)
            raise
        self._say("end", job)

    def _say(self, event: str, job: Job) -> None:
        said = {"at": time.time(), "event": event, "job": job.id, "fence": job.fence}
        os.write(self._file, json.dumps(said | {"by": self.name}).encode() + b"\n")


def make(log: Log, **settings: Any) -> Sexton:
    """Made in the process that runs it, from what that was told."""
    app = Sexton(name="crash", **settings)

    @app.task(retry=QUICK)
    async def quick(job: Job) -> None:
        async with log.of(job):
            pass

    @app.task(retry=QUICK)
    async def answers(job: Job) -> dict[str, int]:
        async with log.of(job):
            return {"attempt": job.attempt}

    @app.task(retry=QUICK)
    async def long(job: Job, seconds: float) -> None:
        async with log.of(job):
            await asyncio.sleep(seconds)

    @app.task(retry=QUICK)
    async def hangs(job: Job, at: str) -> None:
        async with log.of(job):
            await asyncio.sleep(HANG if log.name == at else AGAIN)

    @app.task(retry=QUICK)
    async def fails_once(job: Job) -> None:
        async with log.of(job):
            if job.attempt == 1:
                await asyncio.sleep(0.1)
                raise RuntimeError("as it should, the first time")

    @app.task(retry=QUICK, timeout=TIMEOUT)
    async def writes(job: Job) -> None:
        async with log.of(job), job.transaction() as connection:
            await connection.execute(EFFECT, job.id, job.fence)

    @app.task(retry=QUICK, timeout=TIMEOUT)
    async def carries(job: Job) -> None:
        connection = await asyncpg.connect(settings["database_url"])
        try:
            async with log.of(job), connection.transaction():
                await connection.execute(EFFECT, job.id, job.fence)
                await job.settle_in(connection)
        finally:
            connection.terminate()

    @app.task(retry=QUICK, queue="limited", max_running=1)
    async def alone(job: Job) -> None:
        async with log.of(job):
            pass

    return app
