"""What a task sees of the job it runs for."""

import contextlib
import threading
import time
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, Protocol

from sexton.domain.job import Claim, Fire, instant
from sexton.errors import JobCancelled


class Channel(Protocol):
    """How a job reaches back to its worker; threads and child processes have one of their own."""

    schema: str
    installation: str  # a short name of it

    def progress(self, job: "Job", value: Any) -> None: ...

    def transaction(
        self, job: "Job", result: Any
    ) -> contextlib.AbstractAsyncContextManager[Any]: ...

    def settle_in(self, job: "Job", connection: Any, result: Any) -> Any: ...


class Job:
    """The job context: who this is, which attempt, until when, and how to report."""

    __slots__ = ("_cancelled", "_channel", "_claim", "_deadline", "carried", "settled")

    def __init__(self, claim: Claim, channel: Channel, timeout: float | None) -> None:
        self._claim = claim
        self._channel = channel
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._cancelled: threading.Event | None = None
        # The settlement was committed together with the task's writes.
        self.settled = False
        # A transaction of the task's own carries it; whether that commits is not seen from here.
        self.carried = False

    @property
    def id(self) -> int:
        return self._claim.id

    @property
    def task(self) -> str:
        return self._claim.task

    @property
    def attempt(self) -> int:
        """Counted from 1."""
        return self._claim.attempt

    @property
    def fence(self) -> int:
        """Larger with every claim: pass it to systems that can refuse an older one."""
        return self._claim.fence

    @property
    def key(self) -> str | None:
        return self._claim.key

    @property
    def idempotency_key(self) -> str:
        """The same over all attempts, redrives and re-fires: for effects outside the database.

        No other installation has the same, whoever else talks to the same other side.
        """
        return idempotency_key(self._claim, self._channel.installation)

    @property
    def fire(self) -> Fire | None:
        """The fire that made this job, with the one before it; None for an enqueued job."""
        return self._claim.fire

    @property
    def created_at(self) -> datetime:
        return instant(self._claim.created)

    @property
    def due_at(self) -> datetime:
        return instant(self._claim.due)

    @property
    def remaining(self) -> float | None:
        """Seconds until the timeout; None without one."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    @property
    def deadline(self) -> float | None:
        """The timeout on time.monotonic()'s scale; None without one."""
        return self._deadline

    @property
    def cancelled(self) -> bool:
        """Somebody cancelled this job, its time is up, or its lease is lost: stop soon."""
        return self._cancelled is not None and self._cancelled.is_set()

    def check(self) -> None:
        """Raise if the job should stop; for long loops in plain functions."""
        if self.cancelled:
            raise JobCancelled(f"job {self.id} was told to stop")

    def progress(self, value: Any) -> None:
        """Say how far it is; any JSON. Written in the background, at most once a second."""
        self._channel.progress(self, value)

    @contextlib.asynccontextmanager
    async def transaction(self, *, result: Any = None) -> AsyncIterator[Any]:
        """An asyncpg transaction whose commit also settles this job as succeeded.

        The task's writes and its success commit together, or neither does; if the job was
        claimed again by another worker, the commit is refused with LeaseLost.
        """
        async with self._channel.transaction(self, result) as connection:
            yield connection

    def settle_in(self, connection: Any, *, result: Any = None) -> Any:
        """The same in a transaction of the task's own, as its last statement before the commit.

        Takes a psycopg or SQLAlchemy connection or session, sync or async (then await it).
        """
        return self._channel.settle_in(self, connection, result)

    def _begin(self, timeout: float | None) -> None:
        """From now on its time runs."""
        self._deadline = None if timeout is None else time.monotonic() + timeout

    def _stop(self) -> None:
        if self._cancelled is None:
            self._cancelled = threading.Event()
        self._cancelled.set()

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.task} attempt={self.attempt} fence={self.fence}>"


def idempotency_key(claim: Claim, installation: str) -> str:
    """Of the fire that made the job or, if none did, of the job."""
    if claim.schedule_id is not None and claim.fire_at is not None:
        fire_at = round(claim.fire_at * 1_000_000)
        return f"sexton-{installation}-fire-{claim.schedule_id}-{fire_at}"
    return f"sexton-{installation}-job-{claim.id}"
