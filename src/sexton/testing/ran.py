"""What the harness ran, and what it says when it cannot go on."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sexton.domain.job import State
from sexton.domain.transitions import OutcomeName
from sexton.errors import JobCancelled, SextonError


class HarnessError(SextonError):
    """The harness was asked for something it cannot do."""


class Endless(HarnessError):
    """More attempts than a test can mean: something enqueues itself, or never stops retrying."""


class TaskFailed(HarnessError):
    """A task failed where its exception could not be brought here, as in a process of its own."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One attempt, as it was settled."""

    job_id: int
    task: str
    arguments: dict[str, Any]
    attempt: int
    # What happened, and where the job is now: a failed attempt leaves it waiting, ready or dead.
    outcome: OutcomeName
    state: State
    # As history keeps it, after its way through JSON.
    result: Any = None
    error: str | None = None
    # What the task raised, if it was raised in this process.
    exception: BaseException | None = field(default=None, compare=False)
    progress: tuple[Any, ...] = ()
    # Somebody else had claimed the job meanwhile: the database did not take this outcome.
    refused: bool = False

    def value(self) -> Any:
        """The result of a success; otherwise raises what the task raised."""
        if self.refused:
            raise HarnessError(
                f"job {self.job_id} ({self.task}): its outcome was refused, "
                "because somebody else had claimed it meanwhile"
            )
        if self.outcome == "succeeded":
            return self.result
        raise self.failure()

    def failure(self) -> BaseException:
        """What to raise for an attempt that did not succeed; it says what became of the job."""
        error = self.exception
        if error is None and self.outcome == "cancelled":
            error = JobCancelled(f"job {self.job_id} was cancelled")
        if error is None:
            error = TaskFailed(self.error or self.outcome)
        note = f"Sexton: {self}"
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        return error

    def __str__(self) -> str:
        first = f": {self.error.splitlines()[0]}" if self.error else ""
        return (
            f"job {self.job_id} ({self.task}), attempt {self.attempt}: {self.outcome}, "
            f"now {self.state}{first}"
        )


def endless(ran: Sequence[Ran]) -> Endless:
    """Names the tasks that ran most: one of them is the one that does not end."""
    most = Counter(each.task for each in ran).most_common(3)
    said = ", ".join(f"{task} ({times} times)" for task, times in most)
    return Endless(
        f"{len(ran)} attempts ran and there is still work: {said}. Does a task enqueue itself? "
        "Then run it for a while with advance('1d'). Otherwise give a larger limit="
    )
