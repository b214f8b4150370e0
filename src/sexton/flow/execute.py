"""Running a claim: on the loop, in a thread or in a child process, until it has an outcome."""

import asyncio
import contextvars
import inspect
import logging
import types
from collections import deque
from collections.abc import Callable, Generator
from sys import getrefcount
from typing import TYPE_CHECKING, Any, Literal
from weakref import getweakrefcount

import msgspec

from sexton.domain.job import Claim
from sexton.domain.outcome import (
    Cancelled,
    Failed,
    Lost,
    Outcome,
    Released,
    Snoozed,
    Succeeded,
)
from sexton.domain.retry import Retry
from sexton.errors import JobCancelled, JobTimeout
from sexton.flow.current import CURRENT, Slot
from sexton.flow.meters import QUICK, RUN, Histograms, Streak
from sexton.flow.spans import Spans
from sexton.targets.arguments import ArgumentMismatch
from sexton.targets.job import Channel, Job
from sexton.targets.process import ProcessPool
from sexton.targets.task import Task
from sexton.targets.threads import ThreadCall, ThreadPool
from sexton.targets.verdict import demand_done, describe, raised, returned

if TYPE_CHECKING:
    from sexton.targets.http.deliver import Delivery

log = logging.getLogger("sexton.execute")

# Another version of the code may know the task: put the job back rather than fail it, for a while.
UNKNOWN_TASK_DELAY = 30.0
UNKNOWN_TASK_PATIENCE = 86400.0
CANCEL_AGAIN_AFTER = 1.0
# Then whatever else the loop has to do gets its turn.
LONGEST_TURN = 0.005

Why = Literal["timeout", "cancelled", "lease", "shutdown"]


class Running(msgspec.Struct):
    """A claim that is being run here."""

    claim: Claim
    worker: int
    queue: str
    task: Any  # Task | None, which msgspec need not look into
    job: Job | None = None
    handle: Any = None  # asyncio.Task | ThreadCall | None
    timer: Any = None  # asyncio.TimerHandle | None
    stopped: Why | None = None
    began: float = 0.0  # by the loop's clock
    trace: str | None = None  # the span that enqueued it, as W3C writes it
    span: Any = None
    ended: bool = False
    given_up: bool = False  # for longer than patience lasts no worker has known its task

    @property
    def takes_job(self) -> bool:
        if self.task is None:
            return False
        return self.task.runs == "http" or self.task.arguments.job_parameter is not None


Finished = Callable[[Running, Outcome, Retry], None]


class Executor:
    """Starts claims and says how each ended, exactly once."""

    def __init__(
        self,
        channel: Channel,
        finished: Finished,
        max_result_bytes: int,
        spans: Spans | None = None,
    ) -> None:
        self._channel = channel
        self._spans = spans
        self._finished = finished
        self._max_result_bytes = max_result_bytes
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._turns: deque[Running] = deque()  # coroutines to be begun
        self._turning = False
        self.ran = Histograms(RUN)
        self._threads = ThreadPool()
        self._processes = ProcessPool(max_result_bytes=max_result_bytes)

    def start(self, running: Running) -> None:
        """Begin soon; `finished` is called later, or at once if the claim cannot be run."""
        claim, task = running.claim, running.task
        if task is None:
            self._finished(running, _unknown(running), _PLAIN)
            return
        if claim.expires is not None and claim.claimed >= claim.expires:
            self._finished(running, Failed("it was not started within its maximum age"), task.retry)
            return
        if task.runs == "http":
            running.handle = self._loop.create_task(self._deliver(running, task))
            return
        if running.stopped is not None:
            self._end(running, *self._verdict(running, task, asyncio.CancelledError()))
            return
        if task.runs == "loop":
            self._turns.append(running)
            if not self._turning:
                self._turning = True
                self._loop.create_task(self._take_turns(), context=self._context.copy())
            return
        if task.runs == "process":
            job = running.job = Job(claim, self._channel, None)
            running.handle = self._loop.create_task(self._run_in_process(running, task, job))
            return
        self._set_timer(running, task)
        try:
            arguments = self._arguments(running, task)
        except ArgumentMismatch as error:
            self._end(running, *raised(error, task.retry))
            return
        self._start_in_thread(running, task, arguments)

    def _arguments(self, running: Running, task: Task[Any, Any]) -> dict[str, Any]:
        arguments = task.arguments.decode(running.claim.payload)
        if task.arguments.job_parameter is not None:
            running.job = Job(running.claim, self._channel, task.timeout)
            arguments[task.arguments.job_parameter] = running.job
        return arguments

    def _set_timer(self, running: Running, task: Task[Any, Any]) -> None:
        timeout = task.timeout
        if timeout is not None:
            running.timer = self._loop.call_later(timeout, self._time_is_up, running, timeout)

    def _time_is_up(self, running: Running, timeout: float) -> None:
        """Unless its thread has begun later than it was asked to, on a host short of CPU."""
        handle, ended = running.handle, running.ended  # one that never got a thread has ended
        if isinstance(handle, ThreadCall) and not ended and (left := handle.left(timeout)) > 0:
            running.timer = self._loop.call_later(left, self._time_is_up, running, timeout)
        else:
            self.stop(running, "timeout")

    async def _take_turns(self) -> None:
        """Run one coroutine after the other until one has to wait; then be that one's own.

        An asyncio task for each would cost as much as claiming it. One that never waits cannot
        tell that it had none; one that left something behind, in the context, by cancelling it or
        by keeping hold of it, is the last of its turn. What cannot be seen is the task's name or
        id() kept somewhere; a callback on the task's end is called when the whole turn has ended.
        """
        me = asyncio.current_task()
        assert me is not None
        try:
            waiting = self._run_until_one_waits(me)
        finally:
            self._turning = bool(self._turns)
            if self._turning:
                self._loop.create_task(self._take_turns(), context=self._context.copy())
        if waiting is not None:
            await self._wait_on(*waiting)

    def _run_until_one_waits(
        self, me: asyncio.Task[Any]
    ) -> tuple[Running, Task[Any, Any], Any, Any] | None:
        slot = Slot()
        CURRENT.set(slot)
        fresh = contextvars.copy_context()
        held_by = getrefcount(me) + getweakrefcount(me)
        spans = self._spans
        streak = Streak(self.ran)
        now = self._loop.time()
        yield_at = now + LONGEST_TURN
        while self._turns:
            running = self._turns.popleft()
            began = now
            slot.running = running
            token = None if spans is None else spans.enter(running)
            task = running.task
            outcome: Outcome
            try:
                try:
                    if running.stopped is not None:
                        raise asyncio.CancelledError
                    coroutine = task.function(**self._arguments(running, task))
                    waits_for = coroutine.send(None)
                except StopIteration as done:
                    outcome, retry = returned(done.value, self._max_result_bytes), task.retry
                except ArgumentMismatch as error:
                    outcome, retry = raised(error, task.retry)
                else:
                    self._set_timer(running, task)
                    running.handle = me
                    running.began = began
                    streak.end(began)
                    return running, task, coroutine, waits_for
            except BaseException as error:
                outcome, retry = self._verdict(running, task, error)
            self._end(running, outcome, retry)
            if spans is not None:
                spans.leave(token)
            changed = (
                contextvars.copy_context() != fresh
                or me.cancelling()
                or getrefcount(me) + getweakrefcount(me) > held_by
            )
            now = self._loop.time()
            if task is streak.task and now - began <= QUICK:
                streak.many += 1
            else:
                streak.add(task, began, now)
            if changed or now > yield_at:
                break
        slot.running = None
        streak.end(now)
        return None

    async def _wait_on(
        self, running: Running, task: Task[Any, Any], coroutine: Any, waits_for: Any
    ) -> None:
        try:
            result = await _rest(coroutine, waits_for)
            outcome: Outcome = returned(result, self._max_result_bytes)
            retry = task.retry
        except BaseException as error:
            outcome, retry = self._verdict(running, task, error)
        self._end(running, outcome, retry)

    async def _deliver(self, running: Running, delivery: "Delivery") -> None:
        """A job for an endpoint, which has its own timeout."""
        running.began = self._loop.time()
        CURRENT.set(Slot(running))
        if self._spans is not None:
            self._spans.enter(running)
        job = running.job = Job(running.claim, self._channel, None)
        try:
            if running.stopped is not None:
                raise asyncio.CancelledError
            outcome, retry = await delivery.deliver(job, running.claim)
        except BaseException as error:
            outcome, retry = self._verdict(running, delivery, error)
            if isinstance(outcome, Failed | Lost):
                retry = await self._policy(running, delivery)
        self._end(running, outcome, retry)

    async def _policy(self, running: Running, delivery: "Delivery") -> Retry:
        """The endpoint's own: not for the delay alone, it also says how many attempts there are.

        The outcome is known, so nobody can end this a second time.
        """
        if running.timer is not None:
            running.timer.cancel()
        running.handle = running.timer = None
        try:
            return await delivery.policy(running.claim)
        except Exception:
            log.exception("the policy of %s is not known", running.claim.task)
            return delivery.retry

    async def _run_in_process(self, running: Running, task: Task[Any, Any], job: Job) -> None:
        def begin() -> None:
            # Waiting for a child is not the task's doing.
            running.began = self._loop.time()
            job._begin(task.timeout)
            if running.stopped is None:
                self._set_timer(running, task)

        if self._spans is not None:
            self._spans.enter(running)
        try:
            outcome, retry = await self._processes.run(
                task, job, running.claim.payload, job.progress, begin
            )
        except BaseException as error:
            outcome, retry = self._verdict(running, task, error)
        self._end(running, outcome, retry)

    def _start_in_thread(
        self, running: Running, task: Task[Any, Any], arguments: dict[str, Any]
    ) -> None:
        def done(call: ThreadCall) -> None:
            self._loop.call_soon_threadsafe(self._end_of_thread, running, task, call)

        def run() -> Any:
            CURRENT.set(Slot(running))
            if running.job is not None:
                running.job._begin(task.timeout)
            return task.function(**arguments)

        token = None if self._spans is None else self._spans.enter(running)
        call = ThreadCall(run, done)  # in a copy of the context as it is now
        if token is not None and self._spans is not None:
            self._spans.leave(token)
        running.handle = call
        running.began = self._loop.time()
        self._threads.start(call)

    def _end_of_thread(self, running: Running, task: Task[Any, Any], call: ThreadCall) -> None:
        outcome: Outcome
        try:
            if call.error is not None:
                raise call.error
            result = demand_done(call.result)
            outcome, retry = returned(result, self._max_result_bytes), task.retry
        except BaseException as error:
            outcome, retry = self._verdict(running, task, error)
        self._end(running, outcome, retry)

    def _end(self, running: Running, outcome: Outcome, retry: Retry) -> None:
        if running.timer is not None:
            running.timer.cancel()
        # A task's context knows what runs in it: without this they would keep each other.
        running.handle = running.timer = None
        if running.began:  # or else its turn is timed
            self.ran.add(running.claim.task, self._loop.time() - running.began)
        if running.job is not None and running.job.carried and isinstance(outcome, Succeeded):
            # If its transaction did commit, the job is gone and this is refused.
            outcome = Failed("the transaction that was to settle this job did not commit")
        if running.span is not None and self._spans is not None:
            self._spans.end(running, outcome)
        self._finished(running, outcome, retry)

    def stop(self, running: Running, why: Why) -> None:
        """End an attempt early: cancel the coroutine, interrupt the thread, kill the child.

        A task that swallows the first cancellation gets another every second.
        """
        running.stopped = running.stopped or why
        if running.job is not None:
            running.job._stop()
        handle = running.handle
        if isinstance(handle, ThreadCall):
            handle.interrupt(JobTimeout if running.stopped == "timeout" else JobCancelled)
            return
        if handle is None or handle.done():
            return
        if inspect.getcoroutinestate(handle.get_coro()) == inspect.CORO_CREATED:
            # Cancelled before its first step it would end without an outcome.
            self._loop.call_soon(self.stop, running, why)
            return
        handle.cancel()
        if running.timer is not None:
            running.timer.cancel()
        running.timer = self._loop.call_later(CANCEL_AGAIN_AFTER, self.stop, running, why)

    def _verdict(
        self, running: Running, task: "Task[Any, Any] | Delivery", error: BaseException
    ) -> tuple[Outcome, Retry]:
        stopping = isinstance(error, asyncio.CancelledError | JobTimeout | JobCancelled)
        if not stopping or running.stopped is None:
            try:
                return raised(error, task.retry)
            except Exception as second:  # an exception that cannot even be looked at
                return Failed(f"{type(error).__name__}, and then {describe(second)}"), Retry()
        match running.stopped:
            case "timeout":
                return Failed(f"JobTimeout: it ran longer than {task.timeout:g} s"), task.retry
            case "cancelled":
                return Cancelled(), task.retry
            case "shutdown":
                return Released(), task.retry
            case "lease":
                return Lost("its worker lost its lease while it ran this attempt"), task.retry

    async def close(self) -> None:
        self._threads.close()
        await self._processes.close()


@types.coroutine
def _rest(coroutine: Any, waits_for: Any) -> Generator[Any, Any, Any]:
    """What is left of a coroutine whose first step was taken by hand."""
    while True:
        try:
            yield waits_for
        except BaseException as error:
            try:
                waits_for = coroutine.throw(error)
            except StopIteration as done:
                return done.value
        else:
            return (yield from coroutine)


_PLAIN = Retry()


def unknown_task(claim: Claim) -> str:
    """What is said of a job whose task is not known; history is asked for these very words."""
    return f"no task {claim.task!r} in this worker's code"


def _unknown(running: Running) -> Outcome:
    claim, reason = running.claim, unknown_task(running.claim)
    if running.given_up:
        return Failed(f"{reason}, nor in any other that tried for a day", permanent=True)
    log.warning("job %d: %s; put back for %g s", claim.id, reason, UNKNOWN_TASK_DELAY)
    return Snoozed(UNKNOWN_TASK_DELAY, reason)
