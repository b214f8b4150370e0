"""The lease of a worker over all its claims, kept by a thread and a connection of its own.

A task may block the event loop or burn the CPU for a minute: the thread still gets its turn.
When the lease cannot be renewed in time, or the database says it is gone, the worker is told
to abandon its attempts, and a new lease under a new id is sought.
"""

import asyncio
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sexton.cluster.clock import DatabaseClock
from sexton.domain.lease import Lease
from sexton.flow.keep import Backoff, wait
from sexton.store import Clock, Line, Store
from sexton.store.connection import Address, is_transient, say

log = logging.getLogger("sexton.lease")


@dataclass(frozen=True, slots=True)
class Registration:
    """What a worker says of itself when it joins."""

    name: str
    queues: tuple[str, ...]
    version: str
    lease: float


class LeaseKeeper:
    """Registers the worker, renews its lease, and tells the worker's loop what changed."""

    def __init__(
        self,
        address: Address,
        schema: str,
        registration: Registration,
        *,
        clock: Clock | None,
        on_held: Callable[[int], None],
        on_lost: Callable[[int, str], None],
        on_cancel: Callable[[Sequence[int]], None],
    ) -> None:
        self._address = address
        self._schema = schema
        self._registration = registration
        self._clock = clock
        self._on_held, self._on_lost, self._on_cancel = on_held, on_lost, on_cancel
        self._owner = asyncio.get_running_loop()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._main, name="sexton-lease", daemon=True)
        self._started = threading.Event()
        self.lease: Lease | None = None
        # Since when renewals have gone through without a gap; the reaper judges others by it.
        self.steady_since = 0.0
        self.renewed = self.failed = self.lost = 0
        self.database_clock = DatabaseClock()

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        """End the thread; the caller has already said that the worker leaves."""
        await asyncio.to_thread(self._started.wait)
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            await asyncio.to_thread(self._thread.join, 2 * self._address.patience)

    @property
    def trusted(self) -> bool:
        lease = self.lease
        return lease is not None and lease.trusted(time.monotonic())

    def _main(self) -> None:
        asyncio.run(self._keep())

    async def _keep(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = stop = asyncio.Event()
        self._started.set()
        # A renewal that hangs must leave time for another before the lease is over.
        patience = min(self._address.patience, self._registration.lease / 3)
        line = Line(Address(self._address.url, self._address.pooler, patience))
        store = Store(line, self._schema, self._clock)
        try:
            while not stop.is_set():
                worker = await self._register(store, stop)
                if worker is not None:
                    self._tell(self._on_held, worker)
                    why = await self._renew_until_lost(store, worker, stop)
                    if why is not None:
                        self.lost += 1
                        self.lease = None
                        self._tell(self._on_lost, worker, why)
        finally:
            await line.close()

    async def _register(self, store: Store, stop: asyncio.Event) -> int | None:
        backoff = Backoff()
        mine = self._registration
        while not stop.is_set():
            asked_at = time.monotonic()
            try:
                worker = await store.workers.register(
                    mine.name, mine.queues, mine.version, mine.lease
                )
            except Exception as error:
                if not is_transient(error):
                    log.exception("registering failed and will be tried again")
                self.failed += 1
                self.steady_since = time.monotonic()
                await wait(stop, backoff.next())
                continue
            self.lease = Lease(mine.lease, asked_at)
            return worker
        return None

    async def _renew_until_lost(self, store: Store, worker: int, stop: asyncio.Event) -> str | None:
        """Why the lease was lost; None when told to stop."""
        backoff = Backoff()
        failed: Exception | None = None
        assert self.lease is not None
        delay = self.lease.renew_at(random.random()) - time.monotonic()
        while not await wait(stop, max(0.0, delay)):
            asked_at = time.monotonic()
            left = self.lease.trusted_until - asked_at
            if failed is not None and left <= 0:
                return f"it could not be renewed in time ({say(failed)})"
            try:
                # A renewal that hangs is not waited for longer than the lease is trusted. Only this
                # thread having slept through all of it, the database is asked whether it was late.
                async with asyncio.timeout(left if left > 0 else None):
                    skew = None if self._clock else self.database_clock.skew
                    renewed = await store.workers.renew_and_tell(worker, skew)
            except Exception as error:
                if not is_transient(error):
                    log.exception("renewing the lease failed")
                failed = error
                self.failed += 1
                self.steady_since = time.monotonic()
                left = self.lease.trusted_until - self.steady_since
                delay = min(backoff.next(), left)
                continue
            if renewed is None:
                return "the database gave it up because it was not renewed in time"
            failed = None
            now, cancelled = renewed
            self.database_clock.heard(now, asked_at, time.monotonic())
            self.renewed += 1
            backoff.clear()
            self.lease = Lease(self._registration.lease, asked_at)
            delay = self.lease.renew_at(random.random()) - time.monotonic()
            if cancelled:
                self._tell(self._on_cancel, cancelled)
        return None

    def _tell(self, callback: Callable[..., None], *args: object) -> None:
        if not self._owner.is_closed():
            self._owner.call_soon_threadsafe(callback, *args)
