"""The claims that a worker holds: each from its start to its settlement."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from sexton.domain.job import Claim
from sexton.domain.outcome import PLAIN_SUCCESS, Failed, Outcome, Released, Succeeded
from sexton.domain.retry import Retry
from sexton.domain.transitions import SUCCEEDED, Settlement, unsettleable
from sexton.flow.channel import WorkerChannel
from sexton.flow.current import about
from sexton.flow.execute import UNKNOWN_TASK_PATIENCE, Executor, Running, unknown_task
from sexton.flow.fetch import Fetcher
from sexton.flow.keep import Backoff
from sexton.flow.outage import Outage
from sexton.flow.settle import Settler, decide
from sexton.flow.spans import Spans
from sexton.settings import Settings
from sexton.store import Store
from sexton.store.connection import is_transient
from sexton.targets.http import PREFIX
from sexton.targets.task import Task
from sexton.targets.verdict import describe

if TYPE_CHECKING:
    from sexton.targets.http.deliver import Delivery

log = logging.getLogger("sexton.worker")
jobs_log = logging.getLogger("sexton.job")  # of its own, for those who see the jobs elsewhere


class Attempts:
    """Starts claims, hands on how they ended, and knows which are still ours."""

    def __init__(
        self,
        store: Store,
        settling: Store,
        channel: WorkerChannel,
        tasks: Mapping[str, Task[Any, Any]],
        delivery: Callable[[], "Delivery"],
        settings: Settings,
        outage: Outage,
        worker: Callable[[], int | None],
        spans: Spans | None = None,
    ) -> None:
        self._store = store
        self._spans = spans
        self._tasks = tasks
        self._delivery = delivery
        self._poll = settings.poll
        self._worker = worker
        self.held: dict[int, Running] = {}
        self.none_held = asyncio.Event()
        self.none_held.set()
        self.finished = 0
        self.fetchers: dict[str, Fetcher] = {}
        self.executor = Executor(channel, self._ended, settings.max_result_bytes, spans)
        self.settler = Settler(settling, self._settled, outage)
        self._going_back: dict[int, str] = {}  # fence to queue, of those due again within the poll
        self._errands: set[asyncio.Task[None]] = set()

    def start(self, claims: Sequence[Claim], worker: int, queue: str) -> None:
        self.none_held.clear()
        if worker != self._worker():
            # The lease was given up while the claim was on its way: not ours to start.
            for claim in claims:
                self.held[claim.fence] = running = Running(claim, worker, queue, None)
                self._ended(running, Released(), Retry())
            return
        fired, unknown, traced = [], [], []
        for claim in claims:
            running = Running(claim, worker, queue, self._task(claim.task))
            self.held[claim.fence] = running
            if claim.schedule_id is not None and running.takes_job:
                fired.append(running)
            elif running.task is None and claim.claimed - claim.created > UNKNOWN_TASK_PATIENCE:
                unknown.append(running)
            elif self._spans is not None:
                traced.append(running)
            else:
                self._begin(running)
        if fired:
            self._background(self._start_fired(fired))
        if unknown:
            self._background(self._start_unknown(unknown))
        if traced:
            self._background(self._start_traced(traced))

    def _task(self, name: str) -> "Task[Any, Any] | Delivery | None":
        return self._delivery() if name.startswith(PREFIX) else self._tasks.get(name)

    async def _start_fired(self, fired: Sequence[Running]) -> None:
        """Jobs that a fire made, and whose tasks may want to know which."""
        backoff = Backoff()
        while True:
            try:
                fires = await self._store.jobs.fires([running.claim for running in fired])
                break
            except Exception as error:
                if not is_transient(error):
                    log.exception("which fires made %d jobs cannot be told", len(fired))
                    fires = {}
                    break
                await asyncio.sleep(backoff.next())
        for running in fired:
            running.claim.fire = fires.get(running.claim.id)
            if not running.ended:
                self._begin(running)

    async def _start_unknown(self, unknown: Sequence[Running]) -> None:
        """Old jobs of unknown tasks: those that every worker has put back for a day are given up.

        How old a job is does not tell, since it may have been delayed or redriven.
        """
        reasons = {running.claim.id: unknown_task(running.claim) for running in unknown}
        given_up: Set[int] = set()
        try:
            given_up = await self._store.jobs.long_unknown(reasons, UNKNOWN_TASK_PATIENCE)
        except Exception as error:
            if not is_transient(error):
                log.exception("since when %d tasks are unknown cannot be told", len(unknown))
        for running in unknown:
            running.given_up = running.claim.id in given_up
            if not running.ended:
                self._begin(running)

    async def _start_traced(self, traced: Sequence[Running]) -> None:
        """With somebody who traces: jobs may carry the span that enqueued them."""
        traces: Mapping[int, str] = {}
        try:
            traces = await self._store.jobs.traces([running.claim.id for running in traced])
        except Exception as error:
            if not is_transient(error):
                log.exception("which traces %d jobs belong to cannot be told", len(traced))
        for running in traced:
            running.trace = traces.get(running.claim.id)
            if not running.ended:
                self._begin(running)

    def _begin(self, running: Running) -> None:
        try:
            self.executor.start(running)
        except Exception as error:
            log.exception("job %d could not be started", running.claim.id)
            retry = Retry() if running.task is None else running.task.retry
            self._ended(running, Failed(describe(error)), retry)

    def _ended(self, running: Running, outcome: Outcome, retry: Retry) -> None:
        """An attempt has its outcome: its slot is free at once, the settlement follows."""
        if running.ended:
            return  # a thread that was given up after all came to its end
        running.ended = True
        self.finished += 1
        self.fetchers[running.queue].give_back()
        claim = running.claim
        if running.job is not None and running.job.settled:
            if not isinstance(outcome, Succeeded):
                log.warning(
                    "job %d failed after its transaction had settled it",
                    claim.id,
                    extra=about(claim, running.queue),
                )
            self.settler.settled.add(claim.task, "succeeded")
            self._settled([claim], {claim.id})
        elif outcome is PLAIN_SUCCESS:
            self.settler.add(claim, SUCCEEDED)
        else:
            settlement = _decided(claim, outcome, retry)
            # By a transaction of the task's own, or by who accepted it, before we could say so.
            carried = settlement.next == "running" or (
                running.job is not None and running.job.carried
            )
            if settlement.error is not None and not carried:
                _say(claim, settlement, running.queue)
            if settlement.next == "waiting" and (settlement.delay or 0.0) < self._poll:
                self._going_back[claim.fence] = running.queue
            self.settler.add(claim, settlement, may_be_refused=carried)

    def _settled(self, claims: Sequence[Claim], ours: Set[int]) -> None:
        """Recorded or refused: either way nothing of ours any more."""
        for claim in claims:
            running = self.held.pop(claim.fence, None)
            if running is not None and running.task is not None and running.task.limited:
                self.fetchers[running.queue].wake(claim.tenant)
        if self._going_back:
            for claim in claims:
                queue = self._going_back.pop(claim.fence, None)
                if queue is not None:
                    self.fetchers[queue].wake(claim.tenant)  # to learn when they are due
        if not self.held:
            self.none_held.set()

    def release_all(self) -> None:
        """What has not ended by now is put back, whatever it may still be doing."""
        for running in list(self.held.values()):
            self._ended(running, Released(), Retry())

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)


def _decided(claim: Claim, outcome: Outcome, retry: Retry) -> Settlement:
    """Whatever a policy of the user's own makes of it, there is a settlement."""
    try:
        return decide(claim, outcome, retry)
    except Exception as error:
        log.exception("job %d: what follows from its attempt cannot be told", claim.id)
        return unsettleable(describe(error))


def _say(claim: Claim, settlement: Settlement, queue: str) -> None:
    """A line for what did not succeed: somebody has to look at a dead job, perhaps."""
    level = logging.WARNING if settlement.next == "dead" else logging.INFO
    if settlement.outcome == "snoozed" and claim.task.startswith(PREFIX):
        level = logging.DEBUG  # a host that is left alone was spoken of already, and has many jobs
    match settlement.next:
        case "waiting":
            then = f"again in {settlement.delay or 0:.1f} s"
        case "dead":
            then = "dead"
        case _:
            then = "with a remark"
    jobs_log.log(
        level,
        "job %d (%.100s) %s at attempt %d, %s: %.300s",
        *(claim.id, claim.task, settlement.outcome, claim.attempt, then),
        (settlement.error or "").partition("\n")[0],
        extra=about(claim, queue),
    )
