"""The engine without its loops: every step is the worker's own, taken one after the other."""

import asyncio
import collections
import contextlib
import logging
from collections.abc import AsyncGenerator, Sequence, Set
from datetime import date
from typing import TYPE_CHECKING, Any

from sexton import __version__
from sexton.app import Sexton
from sexton.client import Client
from sexton.domain.job import AGEING, Claim
from sexton.domain.outcome import Cancelled, Failed, Outcome, Released
from sexton.domain.retry import Retry
from sexton.domain.transitions import OutcomeName, Settlement
from sexton.errors import JobCancelled, JobTimeout, SextonError
from sexton.flow.channel import WorkerChannel
from sexton.flow.claim import Claimer
from sexton.flow.execute import UNKNOWN_TASK_PATIENCE, Executor, Running, unknown_task
from sexton.flow.settle import Settler, decide
from sexton.flow.wake import CANCEL, Waker
from sexton.store import Store
from sexton.targets.job import Job
from sexton.targets.task import Task

if TYPE_CHECKING:
    from sexton.targets.http.deliver import Delivery
from sexton.testing.ran import Ran, TaskFailed

log = logging.getLogger("sexton.testing")

NAME = "testing harness"
_STOPS = (asyncio.CancelledError, JobTimeout, JobCancelled)
# A thread that does not react when the test is cancelled is left behind after this.
_STOP_WITHIN = 2.0


class _Executor(Executor):
    """Also remembers what was raised, so that a test sees the exception and not only its text."""

    raised: dict[int, BaseException]

    def _verdict(
        self, running: Running, task: "Task[Any, Any] | Delivery", error: BaseException
    ) -> tuple[Outcome, Retry]:
        self.raised[running.claim.fence] = error
        return super()._verdict(running, task, error)


class _Channel(WorkerChannel):
    """Also remembers all that was said, where a worker writes only the latest."""

    said: collections.defaultdict[int, list[Any]]

    def progress(self, job: Job, value: Any) -> None:
        super().progress(job, value)
        self.said[job.fence].append(value)


class QuietWaker(Waker):
    """There is nobody to notify; a cancellation reaches the engine, if there is one, directly."""

    def __init__(self, store: Store, engine: "Engine | None" = None) -> None:
        super().__init__(store)
        self._engine = engine

    def poke(self, payload: str) -> None:
        if self._engine is not None and payload.startswith(CANCEL):
            self._engine.look_for_cancellations()


class Engine:
    """One worker in one event loop, which claims, runs and settles when it is told to."""

    def __init__(self, app: Sexton, client: Client, noise: float | None) -> None:
        self._app = app
        self._noise = noise
        self._loop = asyncio.get_running_loop()
        self.store = client.store
        size = app.settings.max_result_bytes
        self._channel = _Channel(client.pool, client.store, size)
        self._channel.said = collections.defaultdict(list)
        self._executor = _Executor(self._channel, self._ended, size)
        self._executor.raised = {}
        self._settler = Settler(client.store, self._settled)
        self._refused: set[int] = set()
        self._worker: int | None = None
        self._declared: set[str] = set()
        self._buckets_for: date | None = None
        self._running: tuple[Running, asyncio.Future[tuple[Outcome, Retry]]] | None = None
        self._cancelled: set[int] = set()
        self._errands: set[asyncio.Task[None]] = set()
        client.waker = QuietWaker(client.store, self)

    async def _prepare(self) -> int:
        """What a worker sees to before it claims: its tasks, its lease, today's bucket."""
        if self._declared != self._app.tasks.keys():
            await self.store.workers.declare(
                [task.declaration for task in self._app.tasks.values()]
            )
            self._declared = set(self._app.tasks)
            self._channel.installation = await self.store.workers.installation()
        if self._worker is None or await self.store.workers.renew(self._worker) is None:
            lease = self._app.settings.lease
            self._worker = await self.store.workers.register(NAME, [], __version__, lease)
        now = self._app.clock() if self._app.clock else None
        if now is not None and now.date() != self._buckets_for:
            # A manual clock is soon beyond the days that were made ahead, and a task's own
            # transaction cannot make one.
            await self.store.history.make_buckets()
            self._buckets_for = now.date()
        return self._worker

    async def ready_queues(self) -> list[str]:
        counts = await self.store.history.counts()
        return [queue for queue, each in counts.items() if each.ready]

    async def claim(self, queue: str, limit: int) -> list[Claim]:
        """The most urgent first: here the order in which a batch starts is the one it runs in."""
        worker = await self._prepare()
        return sorted(await self._claimer(queue).run_once(limit, worker), key=_urgency)

    async def claim_one(self, id: int) -> Claim | None:
        """This job, due or not, whatever else is ready."""
        return await self.store.jobs.claim_one(id, await self._prepare())

    async def next_due_in(self) -> float | None:
        """Seconds until the first job becomes due that is not due yet; None if there is none."""
        queues = [q for q, each in (await self.store.history.counts()).items() if each.waiting]
        ahead = [await self._claimer(queue).next_due_in() for queue in queues]
        return min((each for each in ahead if each is not None and each > 0), default=None)

    def _claimer(self, queue: str) -> Claimer:
        """A new one each time: it remembers where nothing is left, and test clocks go back."""
        limited = [task.name for task in self._app.tasks.values() if task.limited]
        return Claimer(self.store, queue, list(self._app.tasks), limited)

    async def run(self, claims: Sequence[tuple[str, Claim]]) -> AsyncGenerator[Ran, None]:
        """Run and settle them in order; those it does not come to are put back."""
        left = collections.deque(claims)
        try:
            while left:
                await self._finish_errands()
                yield await self._run_one(*left.popleft())
        finally:
            self._cancelled.clear()
            for _, claim in left:
                await self._settle(claim, decide(claim, Released(), Retry()))

    async def _run_one(self, queue: str, claim: Claim) -> Ran:
        assert self._worker is not None
        running = Running(claim, self._worker, queue, self._app.tasks.get(claim.task))
        if running.task is None:
            reason = {claim.id: unknown_task(claim)}
            long = await self.store.jobs.long_unknown(reason, UNKNOWN_TASK_PATIENCE)
            running.given_up = claim.id in long
        retry = Retry()
        outcome: Outcome = Cancelled()
        if claim.fence not in self._cancelled:
            try:
                outcome, retry = await self._execute(running)
            except BaseException:
                if running.job is None or not running.job.settled:
                    await self._settle(claim, decide(claim, Released(), retry))
                raise
        exception = self._exception(running, outcome)
        settled: OutcomeName = "succeeded"
        error = None
        if running.job is None or not running.job.settled:
            settlement = decide(claim, outcome, retry, self._noise)
            settled, error = settlement.outcome, settlement.error
            await self._settle(claim, settlement)
            if running.job is not None and running.job.carried and claim.fence in self._refused:
                # The task's own transaction committed, and with it the success.
                self._refused.discard(claim.fence)
                settled, error = "succeeded", None
        elif exception is not None:
            log.warning("job %d failed after its transaction had settled it", claim.id)
        view = await self.store.history.job(claim.id)
        assert view is not None
        ran = Ran(
            claim.id,
            claim.task,
            view.payload,
            claim.attempt,
            settled,
            view.state,
            view.result if settled == "succeeded" else None,
            error,
            exception,
            tuple(self._channel.said.pop(claim.fence, ())),
            claim.fence in self._refused,
        )
        if settled != "succeeded":
            log.warning("%s", ran)  # pytest shows it below a test that fails
        return ran

    async def _execute(self, running: Running) -> tuple[Outcome, Retry]:
        ended: asyncio.Future[tuple[Outcome, Retry]] = self._loop.create_future()
        self._running = (running, ended)
        try:
            self._executor.start(running)
            return await ended
        except BaseException:
            # The test itself is cancelled: so is the task, and its job put back.
            self._executor.stop(running, "shutdown")
            stopped = self._loop.create_future()
            self._running = (running, stopped)
            await asyncio.wait([stopped], timeout=_STOP_WITHIN)
            raise
        finally:
            self._running = None

    def _ended(self, running: Running, outcome: Outcome, retry: Retry) -> None:
        if running.ended or self._running is None or self._running[0] is not running:
            return
        ended = self._running[1]
        if not ended.done():
            running.ended = True
            ended.set_result((outcome, retry))

    async def _settle(self, claim: Claim, settlement: Settlement) -> None:
        await self._channel.write_progress()
        self._settler.add(claim, settlement)
        await self._settler.run_once()
        if self._settler.unsettled:
            raise SextonError(
                f"the outcome of job {claim.id} could not be recorded: another session locks it"
            )

    def _settled(self, claims: Sequence[Claim], ours: Set[int]) -> None:
        self._refused |= {claim.fence for claim in claims if claim.id not in ours}

    def _exception(self, running: Running, outcome: Outcome) -> BaseException | None:
        error = self._executor.raised.pop(running.claim.fence, None)
        if not isinstance(error, _STOPS):
            return error
        match running.stopped, outcome:
            case "timeout", Failed(error=said):
                return JobTimeout(said.removeprefix("JobTimeout: "))
            case "cancelled", _:
                return JobCancelled(f"job {running.claim.id} was cancelled while it ran")
        # Raised as it is, it would cancel the test.
        return TaskFailed(f"the task raised {type(error).__name__} itself")

    # ── cancelling ──────────────────────────────────────────────────────────

    def look_for_cancellations(self) -> None:
        errand = self._loop.create_task(self._ask_cancelled())
        self._errands.add(errand)
        errand.add_done_callback(self._errands.discard)

    async def _ask_cancelled(self) -> None:
        if self._worker is None:
            return
        for fence in await self.store.workers.cancel_requests(self._worker):
            self._cancelled.add(fence)
            if self._running is not None and self._running[0].claim.fence == fence:
                self._executor.stop(self._running[0], "cancelled")

    async def _finish_errands(self) -> None:
        if self._errands:
            await asyncio.wait(self._errands)

    # ── leaving ─────────────────────────────────────────────────────────────

    async def leave(self) -> None:
        """Say good-bye to the database."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await self.store.workers.leave(worker)

    async def close(self) -> None:
        """End threads and child processes; needs no database."""
        for errand in self._errands:
            errand.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_WITHIN):
                await self._executor.close()


def _urgency(claim: Claim) -> tuple[float, int]:
    return claim.due - claim.priority * AGEING, claim.id
