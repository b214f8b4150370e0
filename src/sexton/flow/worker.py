"""A process that runs jobs: claims, executes, renews, settles, and leaves nothing behind."""

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence, Set
from typing import Any

from sexton import __version__
from sexton.domain.job import Claim
from sexton.domain.outcome import Failed, Outcome, Released, Succeeded
from sexton.domain.retry import Retry
from sexton.domain.transitions import Settlement
from sexton.errors import Unavailable
from sexton.flow import prune, reap
from sexton.flow.channel import WorkerChannel
from sexton.flow.claim import Claimer
from sexton.flow.execute import Executor, Running
from sexton.flow.fetch import Fetcher
from sexton.flow.health import Health
from sexton.flow.keep import Backoff, keep_doing
from sexton.flow.outage import Outage
from sexton.flow.renew import LeaseKeeper, Registration
from sexton.flow.settle import Settler, decide
from sexton.flow.wake import CANCEL, QUEUE, Listener
from sexton.settings import Settings
from sexton.store import Clock, Line, Pool, Store
from sexton.store.connection import Address, is_transient
from sexton.targets.task import Task
from sexton.targets.verdict import describe

log = logging.getLogger("sexton.worker")
jobs_log = logging.getLogger("sexton.job")  # of its own, for those who see the jobs elsewhere

PRUNE_EVERY = 600.0
PROGRESS_EVERY = 1.0
REVIVE_EVERY = 2.0
# A claim whose answer was lost may be committed a while after that.
STRAYS_EVERY = 10.0
STRAYS_FOR = 600.0
# A thread that does not react is left behind after this; its outcome is refused by the fence.
THREADS_GET = 2.0


class Worker:
    """Runs jobs of some queues until it is told to stop."""

    def __init__(
        self,
        *,
        address: Address,
        listen: Address | None,
        pool: Pool,
        settings: Settings,
        tasks: Mapping[str, Task[Any, Any]],
        queues: Mapping[str, int],
        clock: Clock | None = None,
        name: str | None = None,
        revive: Callable[[], None] | None = None,
    ) -> None:
        self._address = address
        self._revive_server = revive
        self._settings = settings
        self._tasks = tasks
        self._queues = dict(queues)
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._lines = [Line(address) for _ in range(3)]
        schema = settings.schema
        claiming, settling, keeping = (Store(line, schema, clock) for line in self._lines)
        self._store = keeping
        self._claiming = claiming
        self._worker: int | None = None
        self._idle: set[str] = set()
        self._held: dict[int, Running] = {}
        self._errands: set[asyncio.Task[None]] = set()
        self._next_sweep = 0.0
        self._next_great_reap = 0.0
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self.started = asyncio.Event()
        self.finished = 0
        channel = WorkerChannel(pool, keeping, settings.max_result_bytes)
        self._channel = channel
        self._executor = Executor(channel, self._ended, settings.max_result_bytes)
        self._outage = Outage()
        self._settler = Settler(settling, self._settled, self._outage)
        limited = [task.name for task in tasks.values() if task.limited]
        self._fetchers = {
            queue: Fetcher(
                Claimer(claiming, queue, list(tasks), limited, self._outage.doubt),
                slots,
                settings.poll,
                worker=lambda: self._worker,
                start=self._start,
                on_idle=self._mark_idle,
                outage=self._outage,
            )
            for queue, slots in self._queues.items()
        }
        self._listener = Listener(listen, schema, self._wake) if listen else None
        self._keeper = LeaseKeeper(
            address,
            schema,
            Registration(self.name, tuple(self._queues), __version__, settings.lease),
            clock=clock,
            on_held=self._lease_held,
            on_lost=self._lease_lost,
            on_cancel=self._cancel,
        )

    # ── life ────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Work until `stop`; then finish, release what is left, and leave."""
        try:
            declared = [task.declaration for task in self._tasks.values()]
            await self._store.workers.declare(declared)
        except BaseException:
            await self._close()
            raise
        self._keeper.start()
        log.info("worker %s serves %s at %s", self.name, _said(self._queues), self._address)
        if self._listener is None:
            log.warning(
                "no notifications through a transaction pooler: polling every %g s instead; "
                "set SEXTON_LISTEN_URL to a direct way to PostgreSQL",
                self._settings.poll,
            )
        settling = asyncio.create_task(self._settler.run())
        keeping = [asyncio.create_task(each) for each in self._loops()]
        fetching = [asyncio.create_task(each.run()) for each in self._fetchers.values()]
        try:
            await self._stop.wait()
        finally:
            await self._shut_down(fetching, keeping, settling)

    def _loops(self) -> list[Any]:
        loops = [
            ("reaping", self._reap, self._settings.lease / 3),
            ("pruning", lambda: prune.run_once(self._store), PRUNE_EVERY),
            ("writing progress", self._channel.write_progress, PROGRESS_EVERY),
            ("looking for strays", self._release_strays, STRAYS_EVERY),
            ("sweeping", self._sweep, self._settings.poll),
        ]
        if self._revive_server is not None:
            loops.append(("reviving PostgreSQL", self._revive, REVIVE_EVERY))
        kept = [keep_doing(n, step, every=s, stop=self._stop, log=log) for n, step, s in loops]
        return kept if self._listener is None else [*kept, self._listener.run(self._stop)]

    def stop(self) -> None:
        """Stop claiming and let tasks finish; called again, do not wait for them."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()
        for fetcher in self._fetchers.values():
            fetcher.stop()

    async def _shut_down(
        self,
        fetching: Sequence[asyncio.Task[None]],
        keeping: Sequence[asyncio.Task[None]],
        settling: asyncio.Task[None],
    ) -> None:
        self._stop.set()
        for fetcher in self._fetchers.values():
            fetcher.stop()
        await asyncio.gather(*fetching, return_exceptions=True)
        if self._held:
            log.info("stopping: %d jobs get %g s to finish", len(self._held), self._settings.grace)
            await self._until_empty(self._settings.grace)
        released = {running.queue for running in self._held.values()}
        for running in list(self._held.values()):
            self._executor.stop(running, "shutdown")
        if self._held:
            log.info("stopping: %d jobs did not finish and are released", len(self._held))
            await self._until_empty(THREADS_GET, hurried=False)
        for running in list(self._held.values()):
            self._ended(running, Released(), Retry())
        try:
            await asyncio.wait_for(self._settler.drained(), self._settings.lease)
        except TimeoutError:
            log.error(
                "PostgreSQL did not come back: %d outcomes are lost, the jobs will run again",
                self._settler.unsettled,
            )
        settling.cancel()
        for task in keeping:
            task.cancel()
        await asyncio.gather(settling, *keeping, return_exceptions=True)
        with contextlib.suppress(Exception):
            if self._worker is not None:
                await self._store.workers.leave(self._worker)
            if released:
                await self._store.jobs.notify_idle(sorted(released))
        await self._keeper.stop()
        await self._close()
        log.info("worker %s left after %d jobs", self.name, self.finished)

    async def _close(self) -> None:
        await self._executor.close()
        for line in self._lines:
            await line.close()

    async def _until_empty(self, seconds: float, hurried: bool = True) -> None:
        """Until nothing runs here any more, the time is over, or somebody is in a hurry."""
        waits = [asyncio.create_task(self._empty.wait())]
        if hurried:
            waits.append(asyncio.create_task(self._hurry.wait()))
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()

    @property
    def health(self) -> Health:
        return Health(
            worker=self._worker,
            postgresql=not self._outage.lasting,
            lease_trusted=self._keeper.trusted,
            notifications=self._listener is not None and self._listener.hears,
            running=len(self._held),
            unsettled=self._settler.unsettled,
            stopping=self._stop.is_set(),
        )

    def take_claim_seconds(self) -> list[float]:
        """How long each claim since the last call took."""
        fetchers = self._fetchers.values()
        return [each for fetcher in fetchers for each in fetcher.take_claim_seconds()]

    # ── claims ──────────────────────────────────────────────────────────────

    def _start(self, claims: Sequence[Claim], worker: int, queue: str) -> None:
        self._empty.clear()
        if worker != self._worker:
            # The lease was given up while the claim was on its way: not ours to start.
            for claim in claims:
                self._held[claim.fence] = running = Running(claim, worker, queue, None)
                self._ended(running, Released(), Retry())
            return
        fired = []
        for claim in claims:
            running = Running(claim, worker, queue, self._tasks.get(claim.task))
            self._held[claim.fence] = running
            if claim.schedule_id is not None and running.takes_job:
                fired.append(running)
            else:
                self._begin(running)
        if fired:
            self._background(self._start_fired(fired))

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

    def _begin(self, running: Running) -> None:
        try:
            self._executor.start(running)
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
        self._fetchers[running.queue].give_back()
        claim = running.claim
        if running.job is not None and running.job.settled:
            if not isinstance(outcome, Succeeded):
                log.warning("job %d failed after its transaction had settled it", claim.id)
            self._settled([claim], {claim.id})
        else:
            carried = running.job is not None and running.job.carried
            settlement = decide(claim, outcome, retry)
            if settlement.error is not None and not carried:
                _say(claim, settlement)
            self._settler.add(claim, settlement, may_be_refused=carried)

    def _settled(self, claims: Sequence[Claim], ours: Set[int]) -> None:
        """Recorded or refused: either way nothing of ours any more."""
        for claim in claims:
            running = self._held.pop(claim.fence, None)
            if running is not None and running.task is not None and running.task.limited:
                self._fetchers[running.queue].wake()
        if not self._held:
            self._empty.set()

    async def _release_strays(self) -> None:
        """Put back claims whose answer never reached us; nobody else would, while we live."""
        if self._worker is None or not self._outage.within(STRAYS_FOR):
            return
        age = self._settings.patience + STRAYS_EVERY
        strays = await self._store.jobs.strays(self._worker, list(self._held), age)
        strays = [(id, fence) for id, fence in strays if fence not in self._held]
        if strays:
            log.warning(
                "%d claims were made but never heard of here; putting them back", len(strays)
            )
            released = Settlement("released", "waiting", delay=0.0)
            await self._store.jobs.settle([(id, fence, released) for id, fence in strays])

    # ── lease ───────────────────────────────────────────────────────────────

    def _lease_held(self, worker: int) -> None:
        self._worker = worker
        self.started.set()
        if self._idle:  # said under the id before
            self._background(self._say_idle())
        self._wake(None)

    def _lease_lost(self, worker: int, why: str) -> None:
        self._worker = None
        lost = [each for each in self._held.values() if each.worker == worker and not each.ended]
        log.error("the lease is lost: %s; abandoning %d running jobs", why, len(lost))
        for running in lost:
            self._executor.stop(running, "lease")

    def _cancel(self, fences: Sequence[int]) -> None:
        for fence in fences:
            running = self._held.get(fence)
            if running is not None and not running.ended and running.stopped is None:
                self._executor.stop(running, "cancelled")

    async def _reap(self) -> None:
        """Judge others only from a steady place: after an outage everybody was silent."""
        if self._keeper.trusted and (
            time.monotonic() - self._keeper.steady_since >= self._settings.lease
        ):
            everything = time.monotonic() >= self._next_great_reap
            await reap.run_once(self._store, None if everything else reap.GONE_LATELY)
            if everything:
                self._next_great_reap = time.monotonic() + reap.GONE_LATELY

    async def _revive(self) -> None:
        """The embedded server has nobody but its users to start it again after a crash."""
        if self._outage.lasting and self._revive_server is not None:
            await asyncio.to_thread(self._revive_server)

    # ── wake-ups ────────────────────────────────────────────────────────────

    def _wake(self, payload: str | None) -> None:
        if payload is None:
            for fetcher in self._fetchers.values():
                fetcher.wake()
        elif payload.startswith(CANCEL):
            if payload == f"{CANCEL}{self._worker}":
                self._background(self._ask_cancelled())
        elif (queue := payload.removeprefix(QUEUE)) in self._fetchers:
            self._fetchers[queue].wake()

    async def _ask_cancelled(self) -> None:
        with contextlib.suppress(Unavailable):  # the next renewal asks too
            if self._worker is not None:
                self._cancel(await self._store.workers.cancel_requests(self._worker))

    async def _mark_idle(self, queue: str, idle: bool) -> None:
        (self._idle.add if idle else self._idle.discard)(queue)
        await self._say_idle()

    async def _say_idle(self) -> None:
        with contextlib.suppress(Unavailable):  # then the poll has to do
            if self._worker is not None:
                await self._claiming.workers.mark_idle(self._worker, sorted(self._idle))

    async def _sweep(self) -> None:
        """Look behind the claimers; seldom, if that takes long."""
        began = time.monotonic()
        if began < self._next_sweep:
            return
        for fetcher in self._fetchers.values():
            try:
                await fetcher.claimer.sweep(self._store, fetcher.wake)
            except Unavailable:
                raise
            except Exception:
                log.exception("sweeping %s failed", fetcher.queue)
        ended = time.monotonic()
        self._next_sweep = ended + min(60.0, 20 * (ended - began))

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)


def _say(claim: Claim, settlement: Settlement) -> None:
    """A line for what did not succeed: somebody has to look at a dead job, perhaps."""
    level = logging.WARNING if settlement.next == "dead" else logging.INFO
    then = "dead" if settlement.next == "dead" else f"again in {settlement.delay or 0:.1f} s"
    jobs_log.log(
        level,
        "job %d (%.100s) %s at attempt %d, %s: %.300s",
        *(claim.id, claim.task, settlement.outcome, claim.attempt, then),
        (settlement.error or "").partition("\n")[0],
    )


def _said(queues: Mapping[str, int]) -> str:
    return ", ".join(f"{queue} ({slots} at once)" for queue, slots in queues.items())
