"""The application that worker processes of the tests run: every effect goes to a log outside."""

import asyncio
import os
import signal
import time
from pathlib import Path

from sexton import Job, Retry, Sexton

app = Sexton()
LOG = Path(os.environ.get("EFFECTS", "/dev/null"))
QUICK = Retry(max_attempts=5, base=0.05, cap=0.2)


def effect(*words: object) -> None:
    """One line, appended whole and flushed before anything else happens."""
    line = " ".join(str(word) for word in words) + "\n"
    handle = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, line.encode())
        os.fsync(handle)
    finally:
        os.close(handle)


@app.task(retry=QUICK)
async def note(job: Job, n: int) -> None:
    effect("note", n, job.attempt, job.fence)


@app.task(retry=QUICK)
async def slow(job: Job, n: int, seconds: float = 0.05) -> None:
    effect("begin", n, job.attempt, job.fence, os.getpid())
    await asyncio.sleep(seconds)
    effect("end", n, job.attempt, job.fence, os.getpid())


@app.task(retry=QUICK)
async def hang(job: Job, n: int) -> None:
    """Runs for ever the first time, ends at once the second."""
    effect("begin", n, job.attempt, job.fence, os.getpid())
    if job.attempt == 1:
        await asyncio.sleep(3600)
    effect("end", n, job.attempt, job.fence, os.getpid())


@app.task(retry=QUICK)
async def hang_and_write(job: Job, n: int, seconds: float) -> None:
    """Tries to commit its effect together with its settlement after a pause."""
    effect("begin", n, job.attempt, job.fence, os.getpid())
    if job.attempt == 1:
        time.sleep(seconds)
    async with job.transaction() as connection:
        await connection.execute(
            "insert into effect (n, attempt, fence) values ($1, $2, $3)", n, job.attempt, job.fence
        )
    effect("end", n, job.attempt, job.fence, os.getpid())


@app.task(retry=QUICK)
async def block_the_loop(job: Job, n: int, seconds: float) -> None:
    effect("begin", n, job.attempt, job.fence, os.getpid())
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(1000))
    effect("end", n, job.attempt, job.fence, os.getpid())


@app.task(retry=Retry(max_attempts=3, base=0.05, cap=0.2))
async def kill_the_worker(job: Job, n: int) -> None:
    effect("begin", n, job.attempt, job.fence, os.getpid())
    os._exit(7)


@app.task(retry=Retry(max_attempts=3, base=0.05, cap=0.2))
async def kill_the_worker_hard(job: Job, n: int) -> None:
    effect("begin", n, job.attempt, job.fence, os.getpid())
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(queue="limited", max_running=3, retry=Retry(max_attempts=1000, base=0.01, cap=0.05))
async def limited(job: Job, n: int) -> None:
    effect("begin", n, job.attempt, job.fence, os.getpid())
    await asyncio.sleep(0.03)
    effect("end", n, job.attempt, job.fence, os.getpid())
