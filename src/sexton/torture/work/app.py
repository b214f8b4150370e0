"""Tasks of every temper; each writes its lines to the effect log.

Every payload has an `id` that only one enqueue or one schedule has, the tenant it is meant for, and
`rev`, which an edit of a schedule counts up. Retries come quickly, so that jobs move within a run.
"""

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sexton import Job, PermanentFailure, Retry, Sexton, Snooze
from sexton.torture.work.clock import SECOND, now_us, to_us
from sexton.torture.work.effects import effect, say_progress, worker_pid

# Lost attempts count: a worker dies every few seconds.
STEADY = Retry(max_attempts=12, base=0.2, factor=2, cap=2)
BRIEF = Retry(max_attempts=6, base=0.5, factor=2, cap=5)
FEW = Retry(max_attempts=3, base=0.3, factor=3, cap=3)
TWICE = Retry(max_attempts=2, base=0.5, factor=2, cap=2)

# What a worker of the rig serves, as `sexton worker --queue` takes it.
QUEUES: Sequence[str] = (
    "quick:40",
    "slow:40",
    "threads:12",
    "processes:4",
    "rough:6",
    "remote:2",
    "http:24",
)
_INSERT = Path(__file__).with_name("effect_insert.sql").read_text()
_STEP = 0.05

app = Sexton()


# ── those that succeed ──────────────────────────────────────────────────────


@app.task(queue="quick", retry=STEADY, timeout=10)
async def quick(job: Job, id: str, tenant: str, rev: int = 0) -> None:
    """Succeeds at once."""
    with effect(job, id=id, tenant=tenant, rev=rev):
        pass


@app.task(queue="threads", retry=STEADY, timeout=10)
def quick_sync(job: Job, id: str, tenant: str, rev: int = 0) -> None:
    """Succeeds at once, in a thread."""
    with effect(job, id=id, tenant=tenant, rev=rev):
        pass


@app.task(queue="processes", retry=STEADY, timeout=20, process=True)
def apart(job: Job, id: str, tenant: str, rev: int = 0) -> None:
    """Succeeds at once, in a child process."""
    with effect(job, id=id, tenant=tenant, rev=rev):
        pass


@app.task(queue="slow", retry=STEADY, timeout=20)
async def slow(job: Job, id: str, tenant: str, seconds: float, rev: int = 0) -> None:
    """Waits for so long, then succeeds."""
    with effect(job, id=id, tenant=tenant, rev=rev, seconds=seconds):
        await asyncio.sleep(seconds)


@app.task(queue="threads", retry=STEADY, timeout=20)
def slow_sync(job: Job, id: str, tenant: str, seconds: float, rev: int = 0) -> None:
    """Waits for so long in a thread, then succeeds."""
    with effect(job, id=id, tenant=tenant, rev=rev, seconds=seconds):
        _wait(seconds)


@app.task(queue="slow", retry=STEADY, timeout=60)
async def long(job: Job, id: str, tenant: str, seconds: float, rev: int = 0) -> None:
    """Runs for longer than a lease, which its worker has to keep; says so all the while."""
    with effect(job, id=id, tenant=tenant, rev=rev, seconds=seconds):
        await say_progress(job, seconds)


@app.task(queue="quick", retry=STEADY, timeout=10)
async def keyed(job: Job, id: str, tenant: str, seconds: float = 0.0, rev: int = 0) -> None:
    """Enqueued under keys that others want too; holds its own for so long."""
    with effect(job, id=id, tenant=tenant, rev=rev, seconds=seconds):
        await asyncio.sleep(seconds)


@app.task(queue="quick", retry=STEADY, timeout=10, max_running=4, max_running_per_key=1)
async def limited(job: Job, id: str, tenant: str, seconds: float = 0.0, rev: int = 0) -> None:
    """At most four at once, and one for each limit key."""
    with effect(job, id=id, tenant=tenant, rev=rev, seconds=seconds):
        await asyncio.sleep(seconds)


@app.task(queue="quick", retry=STEADY, timeout=10)
async def transactional(job: Job, id: str, tenant: str, seconds: float = 0.0, rev: int = 0) -> None:
    """Writes a row of torture.effect in the transaction that settles it, after so long."""
    with effect(job, id=id, tenant=tenant, rev=rev, seconds=seconds) as done:
        async with job.transaction() as connection:
            values = (job.id, job.attempt, job.fence, id, tenant, worker_pid())
            await connection.execute(_INSERT, *values)
            await asyncio.sleep(seconds)
        done()


@app.task(queue="remote", retry=STEADY, timeout=10)
async def far(job: Job, id: str, tenant: str, seconds: float = 0.0, rev: int = 0) -> None:
    """Waits for so long, and says so; remote workers and others compete for it."""
    with effect(job, id=id, tenant=tenant, rev=rev, seconds=seconds):
        await say_progress(job, seconds)


# ── those that fail ─────────────────────────────────────────────────────────


@app.task(queue="quick", retry=STEADY, timeout=10)
async def fails(job: Job, id: str, tenant: str, times: int, rev: int = 0) -> None:
    """Fails in its first attempts, then succeeds."""
    with effect(job, id=id, tenant=tenant, rev=rev, times=times):
        _fail_first(job, times)


@app.task(queue="threads", retry=STEADY, timeout=10)
def fails_sync(job: Job, id: str, tenant: str, times: int, rev: int = 0) -> None:
    """Fails in its first attempts, in a thread, then succeeds."""
    with effect(job, id=id, tenant=tenant, rev=rev, times=times):
        _fail_first(job, times)


@app.task(queue="quick", retry=FEW, timeout=10)
async def always_fails(job: Job, id: str, tenant: str, rev: int = 0) -> None:
    """Fails until it is dead."""
    with effect(job, id=id, tenant=tenant, rev=rev):
        raise RuntimeError("it always fails")


@app.task(queue="quick", retry=BRIEF, timeout=10)
async def permanent(job: Job, id: str, tenant: str, rev: int = 0) -> None:
    """Says that trying again cannot help: dead at once."""
    with effect(job, id=id, tenant=tenant, rev=rev):
        raise PermanentFailure("there is no use in trying again")


@app.task(queue="quick", retry=BRIEF, timeout=10)
async def snoozes(
    job: Job, id: str, tenant: str, seconds: float, rest: float, rev: int = 0
) -> None:
    """Puts itself off for a rest as long as it is younger than so many seconds."""
    with effect(job, id=id, tenant=tenant, rev=rev, seconds=seconds, rest=rest):
        # By its age: an attempt that was put off is not counted.
        if now_us() < to_us(job.created_at) + seconds * SECOND:
            raise Snooze(rest, "not now")


@app.task(queue="rough", retry=TWICE, timeout=1.5)
async def hangs(job: Job, id: str, tenant: str, rev: int = 0) -> None:
    """Never ends by itself: its time is up, twice, and it is dead."""
    with effect(job, id=id, tenant=tenant, rev=rev):
        await asyncio.sleep(3600)


@app.task(queue="rough", retry=TWICE, timeout=1.5)
def hangs_sync(job: Job, id: str, tenant: str, rev: int = 0) -> None:
    """The same in a thread, which is interrupted."""
    with effect(job, id=id, tenant=tenant, rev=rev):
        _wait(3600)


# ── those that hurt their worker ────────────────────────────────────────────


@app.task(queue="rough", retry=STEADY, timeout=60)
async def blocks(job: Job, id: str, tenant: str, seconds: float, rev: int = 0) -> None:
    """Blocks the event loop, and everything else that its worker runs there."""
    with effect(job, id=id, tenant=tenant, rev=rev, seconds=seconds):
        time.sleep(seconds)  # noqa: ASYNC251 - that is what it is for


@app.task(queue="processes", retry=STEADY, timeout=30, process=True)
def burns(job: Job, id: str, tenant: str, seconds: float, rev: int = 0) -> int:
    """Burns the CPU in a child process."""
    with effect(job, id=id, tenant=tenant, rev=rev, seconds=seconds):
        return _burn(seconds)


@app.task(queue="rough", retry=STEADY, timeout=30)
def burns_sync(job: Job, id: str, tenant: str, seconds: float, rev: int = 0) -> int:
    """Burns the CPU in a thread, and keeps the interpreter from its worker."""
    with effect(job, id=id, tenant=tenant, rev=rev, seconds=seconds):
        return _burn(seconds)


@app.task(queue="rough", retry=BRIEF, timeout=10)
async def suicide(job: Job, id: str, tenant: str, times: int, rev: int = 0) -> None:
    """Kills its worker in its first attempts, with all that runs there, then succeeds."""
    with effect(job, id=id, tenant=tenant, rev=rev, times=times):
        if job.attempt <= times:
            os.kill(os.getpid(), signal.SIGKILL)


@app.task(queue="processes", retry=BRIEF, timeout=20, process=True)
def suicide_apart(job: Job, id: str, tenant: str, times: int, rev: int = 0) -> None:
    """Kills its child process in its first attempts, then succeeds."""
    with effect(job, id=id, tenant=tenant, rev=rev, times=times):
        if job.attempt <= times:
            os.kill(os.getpid(), signal.SIGKILL)


# ── what they have in common ────────────────────────────────────────────────


def _fail_first(job: Job, times: int) -> None:
    if job.attempt <= times:
        raise RuntimeError(f"attempt {job.attempt} of {times} that fail")


def _wait(seconds: float) -> None:
    """In steps, so that a thread can be interrupted."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, _STEP))


def _burn(seconds: float) -> int:
    until, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        rounds += sum(range(1000)) & 1
    return rounds


def described() -> list[dict[str, Any]]:
    """The policy of every task, for whoever checks that it was kept."""
    return [
        {
            "task": task.name,
            "queue": task.queue,
            "runs": task.runs,
            "max_attempts": task.retry.max_attempts,
            "base": task.retry.base,
            "factor": task.retry.factor,
            "cap": task.retry.cap,
            "timeout": task.timeout,
            "max_running": task.max_running,
            "max_running_per_key": task.max_running_per_key,
            "does": task.__doc__,
        }
        for task in app.tasks.values()
    ]
