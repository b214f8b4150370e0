"""A process that runs jobs: claims, executes, renews, settles, and leaves nothing behind."""

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, get_args

from sexton import __version__
from sexton.domain.transitions import Reason
from sexton.errors import Unavailable
from sexton.flow import prune, reap, stray
from sexton.flow.attempts import Attempts
from sexton.flow.channel import WorkerChannel
from sexton.flow.claim import Claimer
from sexton.flow.deliveries import Deliveries
from sexton.flow.fetch import Fetcher
from sexton.flow.health import Health, Meters
from sexton.flow.keep import keep_doing, took_too_long
from sexton.flow.outage import Outage
from sexton.flow.renew import LeaseKeeper, Registration
from sexton.flow.rest import SOON, Rest
from sexton.flow.spans import Spans
from sexton.flow.wake import CANCEL, TENANTS, Listener, named
from sexton.settings import Settings
from sexton.store import Clock, Line, Pool, Store, close_all
from sexton.store.connection import Address, say
from sexton.targets.http import PREFIX, QUEUE
from sexton.targets.task import Task

log = logging.getLogger("sexton.worker")
jobs_log = logging.getLogger("sexton.job")  # of its own, for those who see the jobs elsewhere

PRUNE_EVERY = 600.0
PROGRESS_EVERY = 1.0
REVIVE_EVERY = 2.0
# More outcomes than this wait to be recorded: no use in producing more of them.
MOST_UNSETTLED = 20_000
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
        spans: Spans | None = None,
    ) -> None:
        self._address = address
        self.pool = pool
        self.reaped = 0
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
        self._errands: set[asyncio.Task[None]] = set()
        self._rests = {queue: Rest() for queue in self._queues}  # of sweeps
        self._next_great_reap = 0.0
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self.started = asyncio.Event()
        channel = WorkerChannel(pool, keeping, settings.max_result_bytes)
        self._channel = channel
        self._outage = Outage()
        self._delivery = Deliveries(keeping, settings, self._queues, self._several_tenants)
        self._attempts = Attempts(
            *(keeping, settling, channel, tasks, self._delivery, settings, self._outage),
            lambda: self._worker,
            spans,
        )
        delivers = [PREFIX] if QUEUE in self._queues else []
        self._attempts.settler.died.expect([*tasks, *delivers], get_args(Reason))
        limited = [task.name for task in tasks.values() if task.limited]
        self._fetchers = {
            queue: Fetcher(
                Claimer(claiming, queue, list(tasks), limited, self._outage.doubt),
                slots,
                settings.poll,
                worker=self._who_claims,
                start=self._attempts.start,
                on_idle=self._mark_idle,
                outage=self._outage,
            )
            for queue, slots in self._queues.items()
        }
        self._attempts.fetchers = self._fetchers
        self._strays = stray.Strays(
            *(keeping, self._attempts.held, self._fetchers.values(), self._outage),
            settings.patience,
        )
        self._listener = Listener(listen, schema, self._wake, address) if listen else None
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
            self._channel.installation = await self._store.workers.installation()
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
        settling = asyncio.create_task(self._attempts.settler.run())
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
            ("looking for strays", lambda: self._strays.run_once(self._worker), stray.EVERY),
            ("sweeping", self._sweep, min(self._settings.poll, SOON)),
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
        held, grace = self._attempts.held, self._settings.grace
        if held:
            log.info("stopping: %d jobs get %g s to finish", len(held), grace)
            await self._until_empty(grace)
        released = sorted({(running.queue, running.claim.tenant) for running in held.values()})
        for running in list(held.values()):
            self._attempts.executor.stop(running, "shutdown")
        if held:
            log.info("stopping: %d jobs did not finish and are released", len(held))
            await self._until_empty(THREADS_GET, hurried=False)
        self._attempts.release_all()
        try:
            await asyncio.wait_for(self._attempts.settler.drained(), self._settings.lease)
        except TimeoutError:
            log.error(
                "PostgreSQL did not come back: %d outcomes are lost, the jobs will run again",
                self._attempts.settler.unsettled,
            )
        settling.cancel()
        for task in keeping:
            task.cancel()
        await asyncio.gather(settling, *keeping, return_exceptions=True)
        with contextlib.suppress(Exception):
            if self._worker is not None:
                await self._store.workers.leave(self._worker)
            if released:
                await self._store.jobs.notify_idle(
                    [queue for queue, _ in released], [tenant for _, tenant in released]
                )
        await self._keeper.stop()
        await self._close()
        log.info("worker %s left after %d jobs", self.name, self.finished)

    async def _close(self) -> None:
        await self._attempts.executor.close()
        await self._delivery.close()
        await close_all(self._lines)

    async def _until_empty(self, seconds: float, hurried: bool = True) -> None:
        """Until nothing runs here any more, the time is over, or somebody is in a hurry."""
        waits = [asyncio.create_task(self._attempts.none_held.wait())]
        if hurried:
            waits.append(asyncio.create_task(self._hurry.wait()))
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()

    @property
    def finished(self) -> int:
        """How many attempts have ended here."""
        return self._attempts.finished

    @property
    def health(self) -> Health:
        return Health(
            worker=self._worker,
            postgresql=not self._outage.lasting,
            lease_trusted=self._keeper.trusted,
            notifications=self._listener is not None and self._listener.hears,
            running=len(self._attempts.held),
            unsettled=self._attempts.settler.unsettled,
            stopping=self._stop.is_set(),
        )

    @property
    def meters(self) -> Meters:
        """What is counted here, for whoever scrapes it."""
        return Meters(
            self._fetchers, self._attempts.settler, self._attempts.executor.ran, self._keeper
        )

    def take_claim_seconds(self) -> list[float]:
        """How long each claim since the last call took."""
        fetchers = self._fetchers.values()
        return [each for fetcher in fetchers for each in fetcher.take_claim_seconds()]

    # ── claims ──────────────────────────────────────────────────────────────

    def _who_claims(self) -> int | None:
        """In whose name to claim; nobody's while too much is left to be settled."""
        return None if self._attempts.settler.unsettled > MOST_UNSETTLED else self._worker

    def _several_tenants(self) -> bool:
        return any(each.claimer.several for each in self._fetchers.values())

    # ── lease ───────────────────────────────────────────────────────────────

    def _lease_held(self, worker: int) -> None:
        self._worker = worker
        self.started.set()
        if self._idle:  # said under the id before
            self._background(self._say_idle())
        self._wake(None)

    def _lease_lost(self, worker: int, why: str) -> None:
        self._worker = None
        lost = [
            each
            for each in self._attempts.held.values()
            if each.worker == worker and not each.ended
        ]
        log.error("the lease is lost: %s; abandoning %d running jobs", why, len(lost))
        for running in lost:
            self._attempts.executor.stop(running, "lease")

    def _cancel(self, fences: Sequence[int]) -> None:
        for fence in fences:
            running = self._attempts.held.get(fence)
            if running is not None and not running.ended and running.stopped is None:
                self._attempts.executor.stop(running, "cancelled")

    async def _reap(self) -> None:
        """Judge others only from a steady place: after an outage everybody was silent."""
        if self._keeper.trusted and (
            time.monotonic() - self._keeper.steady_since >= self._settings.lease
        ):
            everything = time.monotonic() >= self._next_great_reap
            gone_for = None if everything else reap.GONE_LATELY
            count = self._attempts.settler.count
            self.reaped += await reap.run_once(
                self._store, gone_for, lambda orphan, how: count(orphan.task, how)
            )
            if everything:
                self._next_great_reap = time.monotonic() + reap.GONE_LATELY
            for ended in await self._store.cluster.evict(self._settings.lease):
                log.warning("ended: %s", ended)

    async def _revive(self) -> None:
        """The embedded server has nobody but its users to start it again after a crash."""
        if self._outage.lasting and self._revive_server is not None:
            await asyncio.to_thread(self._revive_server)

    # ── wake-ups ────────────────────────────────────────────────────────────

    def _wake(self, payload: str | None) -> None:
        if payload is None:
            for fetcher in self._fetchers.values():
                fetcher.claimer.stir_all()
                fetcher.wake()
        elif payload.startswith(CANCEL):
            if payload == f"{CANCEL}{self._worker}":
                self._background(self._ask_cancelled())
        elif payload == TENANTS:
            for fetcher in self._fetchers.values():
                fetcher.claimer.relearn()
        elif (call := named(payload)) is not None and call[0] in self._fetchers:
            self._fetchers[call[0]].wake(call[1])

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
        for queue, fetcher in self._fetchers.items():
            rest, claimer = self._rests[queue], fetcher.claimer
            if not rest.over(claiming=claimer.claiming):
                continue
            rest.begin()
            try:
                spent = await claimer.sweep(self._store, fetcher.wake)
                rest.after(spent, self._settings.poll)
            except Exception as error:
                # Where others get their answers, this one is too much for the server.
                if took_too_long(error) and not self._outage.lasting:
                    rest.in_vain()
                    log.warning("sweeping %s takes too long: %s", queue, say(error))
                elif isinstance(error, Unavailable):
                    raise
                else:
                    log.exception("sweeping %s failed", queue)

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)


def _said(queues: Mapping[str, int]) -> str:
    return ", ".join(f"{queue} ({slots} at once)" for queue, slots in queues.items())
