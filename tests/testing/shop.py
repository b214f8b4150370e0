"""An application as a user writes it: made at import, before anybody knows of a database."""

import asyncio
import os
from datetime import datetime
from typing import Any

from sexton import Job, PermanentFailure, Retry, RetryAfter, Sexton, Snooze

app = Sexton()
log: list[Any] = []


class Busy(Exception):
    """What a task raises that should be tried again."""


@app.task
async def note(word: str) -> str:
    log.append(word)
    return word.upper()


@app.task(queue="mail", retry=Retry(max_attempts=3, base=60, factor=2, cap="1h"))
async def flaky(job: Job, fails: int) -> int:
    if job.attempt <= fails:
        raise Busy(f"attempt {job.attempt}")
    return job.attempt


@app.task(retry=Retry(max_attempts=3, base=10))
def plain(job: Job, n: int) -> int:
    job.progress({"done": n})
    if n < 0:
        raise ValueError("negative")
    return n + 1


@app.task
async def hopeless() -> None:
    raise PermanentFailure("no such customer")


@app.task
async def sleepy(job: Job, until: int) -> str:
    log.append("looked")
    if len(log) < until:
        raise Snooze("1h", "not there yet")
    return "there"


@app.task
async def told_when(job: Job) -> str:
    if job.attempt == 1:
        raise RetryAfter("90s")
    return "later"


@app.task
async def first(n: int) -> None:
    for i in range(n):
        await second.enqueue(i=i)


@app.task(queue="second")
async def second(i: int) -> None:
    log.append(i)


@app.task
async def forever() -> None:
    await forever.enqueue()


@app.task
async def daily(job: Job) -> None:
    log.append(job.due_at)
    await daily.enqueue(delay="1d")


@app.task(timeout=0.05)
async def slow() -> None:
    await asyncio.Event().wait()


@app.task
async def suicidal(job: Job) -> None:
    await app.cancel(job.id)
    await asyncio.Event().wait()


@app.task
async def murderer(victim: int) -> None:
    await app.cancel(victim)


@app.task
async def writes(job: Job, n: int, fails: bool = False) -> None:
    async with job.transaction(result={"n": n}) as connection:
        await connection.execute("create table if not exists effect (n integer)")
        await connection.execute("insert into effect values ($1)", n)
        if fails:
            raise Busy("before the commit")


@app.task(max_running=1)
async def alone(n: int) -> None:
    log.append(n)


@app.task
async def waits() -> None:
    log.append("began")
    await asyncio.Event().wait()


@app.task
async def dated(day: datetime) -> None: ...


@app.task(process=True)
def elsewhere(job: Job, n: int) -> dict[str, int]:
    if n < 0:
        raise ValueError("negative, elsewhere")
    return {"pid": os.getpid(), "n": n}
