"""What a remote worker runs: each job from its claim to an outcome that is on its way."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from sexton.domain.outcome import Failed, Outcome, Snoozed, Succeeded
from sexton.domain.retry import Retry
from sexton.errors import JobCancelled
from sexton.remote.job import Claimed, RemoteJob, RemoteTask
from sexton.targets.verdict import demand_done, describe, raised, returned

log = logging.getLogger("sexton.remote")

# Another worker may know the task: put the job back rather than fail it.
UNKNOWN_TASK_DELAY = 30.0
# More than the service keeps, unless it was told otherwise: it says what it leaves out.
MAX_RESULT_BYTES = 512 * 1024
Why = Literal["cancelled", "timeout", "lease", "shutdown"]
_ANY = Retry()


@dataclass(frozen=True, slots=True)
class Said:
    """What became of a job, as the service is told; under the worker that claimed it."""

    worker: int
    result: dict[str, Any]


@dataclass(slots=True)
class Running:
    """A job that is being run here."""

    worker: int
    claimed: Claimed
    job: RemoteJob
    handle: asyncio.Task[Outcome]
    stopped: Why | None = None


class Attempts:
    """Runs jobs, and hands on how each ended."""

    def __init__(
        self, tasks: Mapping[str, RemoteTask], slots: int, ended: Callable[[Said], None]
    ) -> None:
        self._tasks = tasks
        self._ended = ended
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix="sexton-remote")
        self.running: dict[int, Running] = {}  # by fence
        self.changed = asyncio.Event()  # something has ended
        self.said: dict[int, tuple[RemoteJob, Any]] = {}  # progress, by fence
        self._loop = asyncio.get_running_loop()

    def start(self, claimed: Claimed, worker: int) -> None:
        job = RemoteJob(claimed, self._say)
        handle = asyncio.create_task(self._outcome(claimed, job))
        self.running[claimed.fence] = Running(worker, claimed, job, handle)
        handle.add_done_callback(lambda done: self._end(claimed, done))

    def stop(self, fence: int, why: Why) -> None:
        """End an attempt early; a thread is asked, and its outcome dropped."""
        running = self.running.get(fence)
        if running is not None and running.stopped is None:
            running.stopped = why
            running.job._stopped.set()
            running.handle.cancel()

    def abandon(self) -> None:
        """The lease is lost: what these do now counts for nothing."""
        for fence in [*self.running]:
            self.stop(fence, "lease")

    async def all_ended(self) -> None:
        while self.running:
            self.changed.clear()
            await self.changed.wait()

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _end(self, claimed: Claimed, done: "asyncio.Task[Outcome]") -> None:
        """A slot is free, and there is something to say; one that was cancelled knows why."""
        outcome: Outcome | None = None
        if not done.cancelled():
            error = done.exception()
            outcome = done.result() if error is None else Failed(describe(error))
        running = self.running.pop(claimed.fence)
        self.said.pop(claimed.fence, None)
        self.changed.set()
        said = _said(outcome, running.stopped)
        if said is not None:
            result = {"id": claimed.id, "fence": claimed.fence, **said}
            self._ended(Said(running.worker, result))

    async def _outcome(self, claimed: Claimed, job: RemoteJob) -> Outcome:
        task = self._tasks.get(claimed.task)
        if task is None:
            reason = f"no task {claimed.task!r} in this worker's code"
            log.warning("job %d: %s; put back for %g s", job.id, reason, UNKNOWN_TASK_DELAY)
            return Snoozed(UNKNOWN_TASK_DELAY, reason)
        try:
            async with asyncio.timeout(task.timeout) as limit:
                arguments = task.bound(claimed, job)
                if task.awaited:
                    result = await task.function(**arguments)
                else:
                    result = await self._in_thread(task, arguments)
            return returned(result, MAX_RESULT_BYTES)
        except TimeoutError as error:
            if not limit.expired():
                return raised(error, _ANY)[0]
            job._stopped.set()
            return Failed(f"JobTimeout: it ran longer than {task.timeout:g} s")
        except JobCancelled as error:
            if job.cancelled:
                raise asyncio.CancelledError from None
            return raised(error, _ANY)[0]
        except Exception as error:
            return raised(error, _ANY)[0]

    async def _in_thread(self, task: RemoteTask, arguments: dict[str, Any]) -> Any:
        def call() -> Any:
            return demand_done(task.function(**arguments))

        return await self._loop.run_in_executor(self._threads, call)

    def _say(self, job: RemoteJob, value: Any) -> None:
        """A function may run in a thread; the newest value wins."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is there to be told
            self._loop.call_soon_threadsafe(self._remember, job, value)

    def _remember(self, job: RemoteJob, value: Any) -> None:
        if job.fence in self.running:
            self.said[job.fence] = (job, value)


def _said(outcome: Outcome | None, stopped: Why | None) -> dict[str, Any] | None:
    """As the API says it; None: there is nobody to be told."""
    match outcome:
        case Succeeded(result, note):
            if note is not None:
                log.warning("a job succeeded, and %s", note)
            return {
                "outcome": "succeeded",
                "result": None if result is None else msgspec.Raw(result.encode()),
            }
        case Snoozed(delay, reason):
            return {"outcome": "snoozed", "retry_after": delay, "error": reason}
        case Failed(error, permanent, retry_in):
            return {
                "outcome": "failed",
                "error": error,
                "permanent": permanent,
                "retry_after": retry_in,
            }
    match stopped:
        case "cancelled":
            return {"outcome": "cancelled"}
        case "lease":
            return None
        case "shutdown" | None:
            return {"outcome": "released"}
    return {"outcome": "failed", "error": "JobTimeout: its time was up"}
