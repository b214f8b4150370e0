"""For which job the code that runs at this moment runs: a line of a log can say so."""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from sexton.domain.job import Claim


class Slot:
    """Holds what runs now. One turn of the loop runs many jobs, and its context stays the same."""

    __slots__ = ("running",)

    def __init__(self, running: Any = None) -> None:
        self.running = running  # execute.Running | None


CURRENT: ContextVar[Slot | None] = ContextVar("sexton_running", default=None)


def about(claim: Claim, queue: str | None = None) -> dict[str, Any]:
    """What a record of the log says of a claim, given as its `extra`."""
    said: dict[str, Any] = {
        "job": claim.id,
        "task": claim.task,
        "attempt": claim.attempt,
        "fence": claim.fence,
        "tenant": claim.tenant,
    }
    if queue is not None:
        said["queue"] = queue
    if claim.schedule_id is not None:
        said["schedule"] = claim.schedule_id if claim.fire is None else claim.fire.schedule
    return said


def about_current() -> Mapping[str, Any]:
    """The same of the job whose code logs; empty outside of any."""
    slot = CURRENT.get()
    running = None if slot is None else slot.running
    return {} if running is None else about(running.claim, running.queue)
