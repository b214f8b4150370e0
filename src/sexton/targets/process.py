"""CPU-bound tasks in child processes (placeholder: replaced below)."""

from collections.abc import Callable
from typing import Any

from sexton.domain.outcome import Outcome
from sexton.domain.retry import Retry
from sexton.targets.job import Job
from sexton.targets.task import Task


class ProcessPool:
    async def run(
        self, task: Task[Any, Any], job: Job, payload: str, on_progress: Callable[[Any], None]
    ) -> tuple[Outcome, Retry]:
        raise RuntimeError("not built yet")

    async def close(self) -> None:
        pass
