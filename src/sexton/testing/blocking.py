"""The harness for tests that do not await; the work is done in a thread with a loop of its own."""

from typing import TYPE_CHECKING, Any

from sexton.domain.duration import Duration
from sexton.domain.job import JobView
from sexton.targets.task import Call, Task
from sexton.testing.ran import Ran

if TYPE_CHECKING:
    from sexton.testing.harness import Harness


class BlockingHarness:
    """Every method of `Harness`, without `await`; where `enqueue_sync` enqueues, this runs."""

    def __init__(self, harness: "Harness") -> None:
        self._harness = harness
        # That of `enqueue_sync`: both use the same connections.
        self._run = harness.app._portal.run

    def run_once(self, **options: Any) -> list[Ran]:
        return self._run(self._harness.run_once(**options))

    def drain(self, **options: Any) -> list[Ran]:
        return self._run(self._harness.drain(**options))

    def advance(self, by: Duration, **options: Any) -> list[Ran]:
        return self._run(self._harness.advance(by, **options))

    def exhaust(self, **options: Any) -> list[Ran]:
        return self._run(self._harness.exhaust(**options))

    def run_inline(self, call: Call) -> Any:
        return self._run(self._harness.run_inline(call))

    def reap(self) -> int:
        return self._run(self._harness.reap())

    def job(self, id: int) -> JobView:
        return self._run(self._harness.app.job(id))

    def jobs(self, task: str | Task[Any, Any] | None = None, **filters: Any) -> list[JobView]:
        return self._run(self._harness.jobs(task, **filters))

    def assert_enqueued(
        self, task: str | Task[Any, Any], *, times: int | None = None, **wanted: Any
    ) -> list[JobView]:
        return self._run(self._harness.assert_enqueued(task, times=times, **wanted))

    def assert_not_enqueued(self, task: str | Task[Any, Any], **wanted: Any) -> None:
        self._run(self._harness.assert_not_enqueued(task, **wanted))

    def close(self) -> None:
        """Close what this thread's loop has open; the fixture does it by itself."""
        self._run(self._harness.close())
        self._harness.app._portal.close()
