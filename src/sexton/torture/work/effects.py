"""The effect log: what tasks did, told from outside PostgreSQL and before it is acknowledged."""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from sexton import Job
from sexton.remote import RemoteJob
from sexton.targets import child
from sexton.torture.work.clock import now_us, to_us
from sexton.torture.work.journal import Journal, process_name, run_folder

LONGEST_WHY = 200
# Often enough that there is always something to be written when a worker comes back to itself.
SAID_EVERY = 0.3
Mark = Callable[[], None]


@cache
def effect_log() -> Journal:
    """This process's, opened when it is first needed: importing the tasks writes nothing."""
    return Journal(run_folder() / "effects", process_name())


@contextlib.contextmanager
def effect(job: Job | RemoteJob, **payload: Any) -> Iterator[Mark]:
    """`begin` before the body, `end` or `fail` after it, `effect` when what it yields is called."""
    known = _facts(job, payload)

    def write(event: str, why: str | None = None) -> None:
        effect_log().write({"at": now_us(), "event": event, **known, "why": why})

    write("begin")
    try:
        yield lambda: write("effect")
    except BaseException as error:
        write("fail", f"{type(error).__name__}: {error}"[:LONGEST_WHY])
        raise
    write("end")


async def say_progress(job: Job | RemoteJob, seconds: float) -> None:
    """Wait for so long, and say again and again how far it is, and with which fence."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        job.progress({"fence": job.fence, "left": round(left, 3)})
        await asyncio.sleep(min(left, SAID_EVERY))


def worker_pid() -> int:
    """Of the worker, also from a child process of its."""
    return os.getppid() if child.serving else os.getpid()


def _facts(job: Job | RemoteJob, payload: dict[str, Any]) -> dict[str, Any]:
    return {
        "job": job.id,
        "attempt": job.attempt,
        "fence": job.fence,
        "key": job.key,
        "idempotency_key": job.idempotency_key,
        "task": job.task,
        "tenant": payload["tenant"],
        "worker_pid": worker_pid(),
        **_fire(job),
        "payload": payload,
    }


def _fire(job: Job | RemoteJob) -> dict[str, Any]:
    """What a remote worker is not told of a fire is null."""
    if isinstance(job, RemoteJob):
        at = None if job.fire_at is None else to_us(job.fire_at)
        return {"schedule": job.schedule, "fire_at": at, "catch_up": None, "backfill": None}
    fire = job.fire
    if fire is None:
        return {"schedule": None, "fire_at": None, "catch_up": False, "backfill": False}
    return {
        "schedule": fire.schedule,
        "fire_at": to_us(fire.fire_at),
        "catch_up": fire.catch_up,
        "backfill": fire.backfill,
    }
