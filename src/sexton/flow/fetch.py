"""Keeping one queue's slots full: claim when there is room, sleep when there is nothing."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from sexton.domain.job import Claim
from sexton.errors import Unavailable
from sexton.flow.claim import Claimer
from sexton.flow.keep import QUICKLY, Backoff, took_too_long, wait
from sexton.flow.meters import LAG, Histogram
from sexton.flow.outage import Outage
from sexton.store.connection import is_transient

log = logging.getLogger("sexton.claim")

# Claim in bulk: wait this long for more slots before asking for only a few jobs.
GATHER_FOR = 0.005
BATCH = 1000
SETTLE_DOWN = 0.05
SOONEST = 0.001


class Fetcher:
    """The slots of one queue in one worker."""

    def __init__(
        self,
        claimer: Claimer,
        slots: int,
        poll: float,
        *,
        worker: Callable[[], int | None],
        start: Callable[[Sequence[Claim], int, str], None],
        on_idle: Callable[[str, bool], Awaitable[None]],
        outage: Outage,
    ) -> None:
        self.claimer = claimer
        self.queue = claimer.queue
        self.slots = slots
        self.free = slots
        self._poll = poll
        self._worker = worker
        self._start = start
        self._on_idle = on_idle
        self._outage = outage
        self._freed = asyncio.Event()
        self._wake = asyncio.Event()
        self._enough = min(BATCH, max(1, slots // 4))
        self._batch = BATCH  # less, when so many are more than can be carried in time
        self.claiming_since: float | None = None
        self._stop = asyncio.Event()
        self._claim_seconds: deque[float] = deque(maxlen=10_000)
        self.lag = Histogram(LAG)  # from due to claimed

    def wake(self, tenant: int | None = None) -> None:
        """There may be something to claim; of this tenant, if that is known."""
        if tenant is not None:
            self.claimer.stir(tenant)
        self._wake.set()

    def give_back(self) -> None:
        """A slot is free again."""
        self.free += 1
        if self.free >= self._enough or self.free == 1:
            self._freed.set()

    def take_claim_seconds(self) -> list[float]:
        """How long the claims since the last call took; the latest ten thousand."""
        taken = list(self._claim_seconds)
        self._claim_seconds.clear()
        return taken

    def stop(self) -> None:
        self._stop.set()
        self._wake.set()
        self._freed.set()

    async def run(self) -> None:
        """Claim until told to stop; an absent PostgreSQL is waited for."""
        backoff = Backoff()
        while not self._stop.is_set():
            try:
                await self._fill()
                backoff.clear()
            except Unavailable as error:
                self._outage.lost(error)
                await wait(self._stop, backoff.next())
            except Exception as error:
                self._outage.doubt()
                if not is_transient(error):
                    log.exception("claiming from %s failed and will be tried again", self.queue)
                await wait(self._stop, backoff.next())

    async def _fill(self) -> None:
        """Claim while there are jobs; then sleep until there may be some."""
        idle = False
        dry = 0
        while not self._stop.is_set():
            await self._room()
            self._wake.clear()
            worker = self._worker()
            if self._stop.is_set() or worker is None:
                await wait(self._stop, SETTLE_DOWN)
                continue
            limit = min(self.free, self._batch)
            claims = await self.run_once(limit, worker)
            if len(claims) == limit:
                dry = 0
                if idle:
                    idle = False
                    await self._on_idle(self.queue, False)
                continue
            # Not more than a little was there. Say so, look once more for what was enqueued
            # meanwhile by those who thought us busy, and sleep.
            dry = 0 if claims else dry + 1
            if claims:
                await asyncio.sleep(0)  # they begin before anything else is asked
            due_in = await self.claimer.next_due_in()
            # One that is due and yet was not claimed is locked by somebody: no use in hurrying.
            soonest = SOONEST if claims or (due_in or 0) > 0 else SETTLE_DOWN
            sleep = self._poll if due_in is None else min(self._poll, max(due_in, soonest))
            if not idle:
                sleep = min(sleep, SETTLE_DOWN)
            woken = await wait(self._wake, sleep)
            if not woken and not idle and dry:
                idle = True
                await self._on_idle(self.queue, True)

    async def run_once(self, limit: int, worker: int) -> list[Claim]:
        """One claim of at most `limit` jobs, started."""
        began = time.perf_counter()
        self.free -= limit
        self.claiming_since = time.monotonic()
        claims: list[Claim] = []
        try:
            claims = await self.claimer.run_once(limit, worker)
            self._outage.over()
            if len(claims) == self._batch and time.perf_counter() - began < QUICKLY:
                self._batch = min(BATCH, 2 * self._batch)
        except Exception as error:
            if took_too_long(error):
                self._batch = max(1, limit // 2)
            raise
        finally:
            self.free += limit - len(claims)
            self.claiming_since = None
        if claims:
            self._claim_seconds.append(time.perf_counter() - began)
            self.lag.add_sampled(claims, _lag)
            self._start(claims, worker, self.queue)
        return claims

    async def _room(self) -> None:
        """Until there is a slot; until there are several, if they come quickly."""
        while self.free == 0 and not self._stop.is_set():
            self._freed.clear()
            await self._freed.wait()
        if self.free < self._enough:
            self._freed.clear()
            await wait(self._freed, GATHER_FOR)


def _lag(claim: Claim) -> float:
    return claim.claimed - claim.due
