"""A job in the hands of a remote worker, and the function that it is for."""

import inspect
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from sexton.domain.duration import Duration, seconds
from sexton.errors import ConfigurationError, JobCancelled
from sexton.targets.arguments import Arguments


class Claimed(msgspec.Struct):
    """A job as the service hands it out."""

    id: int
    fence: int
    attempt: int
    task: str
    queue: str
    payload: msgspec.Raw
    key: str | None
    idempotency_key: str
    schedule: str | None
    fire_at: datetime | None
    created_at: datetime
    due_at: datetime


class RemoteJob:
    """What a function sees of the job it runs for."""

    def __init__(self, claimed: Claimed, say: Callable[["RemoteJob", Any], None]) -> None:
        self.id = claimed.id
        self.task = claimed.task
        self.queue = claimed.queue
        self.attempt = claimed.attempt  # counted from 1
        self.fence = claimed.fence  # larger with every claim
        self.key = claimed.key
        self.idempotency_key = claimed.idempotency_key  # the same over all attempts
        self.schedule = claimed.schedule
        self.fire_at = claimed.fire_at
        self.created_at = claimed.created_at
        self.due_at = claimed.due_at
        self._say = say
        self._stopped = threading.Event()

    @property
    def cancelled(self) -> bool:
        """Somebody cancelled it, its time is up, or its lease is lost: stop soon."""
        return self._stopped.is_set()

    def check(self) -> None:
        """Raise if the job should stop; for long loops in plain functions."""
        if self.cancelled:
            raise JobCancelled(f"job {self.id} was told to stop")

    def progress(self, value: Any) -> None:
        """Say how far it is; any JSON. Sent in the background, at most once a second."""
        self._say(self, value)

    def __repr__(self) -> str:
        return f"<RemoteJob {self.id} {self.task} attempt={self.attempt} fence={self.fence}>"


class RemoteTask:
    """A function and what its arguments must be."""

    def __init__(
        self, name: str, function: Callable[..., Any], timeout: Duration | None = None
    ) -> None:
        if not callable(function):
            raise ConfigurationError(f"task {name!r} is a function, not {function!r:.100}")
        self.name = name
        self.function = function
        self.timeout = None if timeout is None else seconds(timeout)
        self.awaited = inspect.iscoroutinefunction(function)
        self.arguments = Arguments(function, name, RemoteJob)

    def bound(self, claimed: Claimed, job: RemoteJob) -> dict[str, Any]:
        """What to call it with; ArgumentMismatch if the payload does not fit."""
        arguments = self.arguments.decode(bytes(claimed.payload).decode())
        if self.arguments.job_parameter is not None:
            arguments[self.arguments.job_parameter] = job
        return arguments
