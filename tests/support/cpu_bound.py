"""Functions that a child process can import by name."""

import os
import time
from typing import Any

from sexton import Job


def crunch(job: Job, n: int) -> dict[str, Any]:
    return {"sum": sum(range(n)), "attempt": job.attempt, "here": os.getppid() == 1}


def die() -> None:
    os._exit(3)


def endless() -> None:
    while True:
        pass


def nap(job: Job, seconds: float) -> float | None:
    """What was left of its time when it began."""
    left = job.remaining
    time.sleep(seconds)
    return left
