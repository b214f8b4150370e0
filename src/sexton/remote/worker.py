"""A worker that needs no database: it claims, renews and settles over HTTP."""

import asyncio
import contextlib
import logging
import os
import random
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from sexton.domain.duration import Duration, seconds
from sexton.domain.lease import Lease
from sexton.errors import ConfigurationError, SextonError, Unavailable
from sexton.remote.attempts import Attempts
from sexton.remote.errors import Busy, Conflict, NotFound, Refused
from sexton.remote.job import Claimed, RemoteTask
from sexton.remote.outbox import Outbox
from sexton.remote.wire import Wire
from sexton.store.pause import Backoff, wait

log = logging.getLogger("sexton.remote")

F = TypeVar("F", bound=Callable[..., Any])

MOST_CLAIMED = 500
LONG_POLL = 30.0
# Claim in bulk: wait this long for more slots before asking for only a few jobs.
GATHER_FOR = 0.005
PROGRESS_EVERY = 1.0
# More outcomes than this wait to be recorded: no use in producing more of them.
MOST_UNSETTLED = 5000


class _Joined(msgspec.Struct):
    id: int
    lease: float


class _Cancel(msgspec.Struct):
    id: int
    fence: int


class _Claims(msgspec.Struct):
    jobs: list[Claimed]
    cancel: list[_Cancel]


class _Renewed(msgspec.Struct):
    lease_until: datetime
    cancel: list[_Cancel]


class RemoteWorker:
    """Runs jobs of some queues until it is told to stop.

    `RemoteWorker("https://sexton.internal", key, queues=["mail"], tasks={"send": send})`. A
    function gets the payload's fields by name and, if it has a parameter for one, the RemoteJob;
    it is async, or plain and runs in a thread. What it raises means what it means in a task.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        queues: Sequence[str] = ("default",),
        tasks: Mapping[str, Callable[..., Any]] | None = None,
        concurrency: int = 50,
        lease: Duration = 30,
        grace: Duration = 30,
        name: str | None = None,
    ) -> None:
        if isinstance(queues, str) or not queues:
            raise ConfigurationError(f"queues are a list of names, not {queues!r:.100}")
        if isinstance(concurrency, bool) or not 1 <= concurrency <= 100_000:
            raise ConfigurationError(f"concurrency is {concurrency!r}: from 1 to 100,000")
        self._wire = Wire(url, key)
        self._queues = [*queues]
        self._slots = concurrency
        self._lease_for = seconds(lease)
        self._grace = seconds(grace)
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self.tasks = {each: RemoteTask(each, function) for each, function in (tasks or {}).items()}
        self.id: int | None = None
        self._lease: Lease | None = None
        self.started = asyncio.Event()
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()

    def task(self, name: str | None = None, *, timeout: Duration | None = None) -> Callable[[F], F]:
        """`@worker.task("send")`: this function is for jobs of that name."""

        def declare(function: F) -> F:
            called = name or function.__name__
            self.tasks[called] = RemoteTask(called, function, timeout)
            return function

        return declare

    # ── life ────────────────────────────────────────────────────────────────

    def stop(self) -> None:
        """Stop claiming and let jobs finish; called again, do not wait for them."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    async def run(self, *, handle_signals: bool = False) -> None:
        """Work until `stop`, or SIGTERM or Ctrl-C with `handle_signals`; then finish and leave."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT) if handle_signals else ()
        for each in signals:
            loop.add_signal_handler(each, self.stop)
        self._outbox = Outbox(self._wire)
        self._attempts = Attempts(self.tasks, self._slots, self._outbox.add)
        await self._wire.open()
        try:
            await self._work()
        finally:
            for each in signals:
                loop.remove_signal_handler(each)
            self._attempts.close()
            await self._wire.close()

    async def _work(self) -> None:
        await self._join()
        sending = asyncio.create_task(self._outbox.run())
        keeping = [
            asyncio.create_task(self._keep_lease()),
            asyncio.create_task(self._say_progress()),
        ]
        claiming = asyncio.create_task(self._claim())
        try:
            await self._stop.wait()
        finally:
            self._stop.set()
            claiming.cancel()
            await asyncio.gather(claiming, return_exceptions=True)
            await self._finish()
            for each in (sending, *keeping):
                each.cancel()
            await asyncio.gather(sending, *keeping, return_exceptions=True)
            await self._leave()

    async def _finish(self) -> None:
        """What runs gets its grace, then goes back; everything that ended is said."""
        attempts = self._attempts
        if attempts.running:
            log.info("stopping: %d jobs get %g s to finish", len(attempts.running), self._grace)
            waits = {
                asyncio.ensure_future(attempts.all_ended()),
                asyncio.ensure_future(self._hurry.wait()),
            }
            await asyncio.wait(waits, timeout=self._grace, return_when=asyncio.FIRST_COMPLETED)
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        for fence in [*attempts.running]:
            attempts.stop(fence, "shutdown")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(attempts.all_ended(), 2.0)
        try:
            await asyncio.wait_for(self._outbox.drained(), self._lease_for)
        except TimeoutError:
            log.error("%d outcomes are lost: the jobs will run again", self._outbox.waiting)

    async def _leave(self) -> None:
        if self.id is not None:
            with contextlib.suppress(SextonError):
                await self._wire.ask("DELETE", f"/v1/workers/{self.id}", kind=dict, once=True)
            self.id = None

    # ── the lease ───────────────────────────────────────────────────────────

    async def _join(self) -> None:
        """Register, however long it takes; a service that refuses is not asked again at first."""
        backoff = Backoff()
        said = {"name": self.name, "queues": self._queues, "lease": self._lease_for}
        while not self._stop.is_set():
            asked_at = time.monotonic()
            try:
                joined = await self._wire.ask("POST", "/v1/workers", said, kind=_Joined, once=True)
            except Unavailable as error:
                log.warning("waiting for the service: %s", error)
                await wait(self._stop, backoff.next())
                continue
            except Refused:
                if not self.started.is_set():
                    raise
                log.exception("registering again was refused, and will be tried again")
                await wait(self._stop, backoff.next())
                continue
            self.id = joined.id
            self._lease = Lease(joined.lease, asked_at)
            self.started.set()
            log.info("worker %s serves %s at %s", self.name, self._queues, self._wire.url)
            return

    async def _keep_lease(self) -> None:
        backoff = Backoff()
        while True:
            assert self._lease is not None
            await asyncio.sleep(max(0.0, self._lease.renew_at(random.random()) - time.monotonic()))
            while not await self._renew():
                if not self._lease.trusted(time.monotonic()):
                    await self._lost("it could not be renewed in time")
                    break
                await asyncio.sleep(backoff.next())
            backoff.clear()

    async def _renew(self) -> bool:
        """Whether there is a lease to go on with, the old one or a new one."""
        asked_at, worker = time.monotonic(), self.id
        if worker is None or self._lease is None:
            await self._join()
            return True
        left = max(1.0, self._lease.trusted_until - asked_at)
        held = self._held()
        try:
            renewed = await self._wire.ask(
                "POST",
                f"/v1/workers/{worker}/renew",
                {"held": held},
                kind=_Renewed,
                timeout=min(left, 10.0),
                once=True,
            )
        except (NotFound, Conflict) as error:
            await self._lost(str(error), worker)
            return True
        except (Unavailable, Refused) as error:
            log.info("the lease was not renewed: %s", error)
            return False
        self._lease = Lease(self._lease.length, asked_at)
        self._cancel(renewed.cancel)
        return True

    async def _lost(self, why: str, worker: int | None = None) -> None:
        """Its jobs run elsewhere: stop them here, and begin anew."""
        if worker is not None and worker != self.id:
            return  # somebody else has noticed, and begun anew
        log.error("the lease is lost: %s; abandoning %d jobs", why, len(self._attempts.running))
        self.id = None
        self._attempts.abandon()
        await self._join()

    def _held(self) -> list[int]:
        """The fences of all that was claimed here and is not settled."""
        return [*self._attempts.running, *self._outbox.fences]

    def _cancel(self, wanted: Sequence[_Cancel]) -> None:
        for each in wanted:
            self._attempts.stop(each.fence, "cancelled")

    # ── jobs ────────────────────────────────────────────────────────────────

    async def _claim(self) -> None:
        backoff = Backoff()
        in_doubt = False  # whether the last claim gave us something that we do not know of
        while not self._stop.is_set():
            room = await self._room()
            worker = self.id
            if worker is None:
                await wait(self._stop, 0.05)
                continue
            said: dict[str, Any] = {"limit": min(room, MOST_CLAIMED), "wait": LONG_POLL}
            if in_doubt:
                said["held"] = self._held()
            try:
                claims = await self._wire.ask(
                    "POST",
                    f"/v1/workers/{worker}/claim",
                    said,
                    kind=_Claims,
                    timeout=LONG_POLL + 15.0,
                    once=True,
                )
                backoff.clear()
                in_doubt = False
            except (NotFound, Conflict) as error:
                await self._lost(str(error), worker)
                continue
            except (Unavailable, Refused) as error:
                in_doubt = True
                asked = error.retry_after if isinstance(error, Busy) else None
                log.info("claiming will be tried again: %s", error)
                await wait(self._stop, max(backoff.next(), min(asked or 0.0, 30.0)))
                continue
            self._cancel(claims.cancel)
            if worker == self.id:
                for claimed in claims.jobs:
                    self._attempts.start(claimed, worker)

    async def _room(self) -> int:
        """Until there is a slot; until there are several, if they come quickly."""
        attempts, gathered = self._attempts, False
        while True:
            attempts.changed.clear()
            room = self._slots - len(attempts.running)
            if self._outbox.waiting > MOST_UNSETTLED:
                room = 0
            if room >= max(1, self._slots // 4) or (room > 0 and gathered):
                return room
            if room > 0:
                gathered = True
                await asyncio.sleep(GATHER_FOR)
            else:
                await wait(attempts.changed, 1.0)

    async def _say_progress(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_EVERY)
            said, self._attempts.said = self._attempts.said, {}
            for job, value in said.values():
                try:
                    await self._wire.ask(
                        "POST",
                        f"/v1/jobs/{job.id}/progress",
                        {"fence": job.fence, "value": value},
                        kind=dict,
                        once=True,
                    )
                except Unavailable:
                    self._attempts.said.setdefault(job.fence, (job, value))
                except Exception as error:  # what it says need not be JSON
                    log.warning("job %d: its progress was not kept: %s", job.id, error)
