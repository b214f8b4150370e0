"""Recording outcomes: in batches, fenced, and kept through any absence of PostgreSQL."""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter

import asyncpg

from sexton.domain.job import Claim
from sexton.domain.outcome import PLAIN_SUCCESS, Outcome
from sexton.domain.retry import Retry
from sexton.domain.transitions import SUCCEEDED, Settlement, settle, unsettleable
from sexton.flow.current import about
from sexton.flow.keep import QUICKLY, Backoff, took_too_long, wait
from sexton.flow.meters import Tally
from sexton.flow.outage import Outage
from sexton.store import Store
from sexton.store.connection import is_lost, is_transient, say

log = logging.getLogger("sexton.settle")

BATCH = 1000
# What PostgreSQL, or the driver on the way to it, will not take however often it is asked.
_REFUSED = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
    TypeError,
    ValueError,
)
Settled = Callable[[Sequence[Claim], set[int]], None]  # a batch, and the ids that were ours
Pending = tuple[Claim, Settlement]
_task = attrgetter("task")


def decide(claim: Claim, outcome: Outcome, retry: Retry, noise: float | None = None) -> Settlement:
    """Where this claim's job goes; the noise for the jitter comes from here, or from a test."""
    if outcome is PLAIN_SUCCESS:
        return SUCCEEDED
    expires_in = None
    if claim.expires is not None:
        # Both instants are the database's; the time since the claim is left out, to the job's good.
        expires_in = claim.expires - claim.claimed
    return settle(
        outcome,
        tries=claim.tries,
        retry=retry,
        expires_in=expires_in,
        noise=random.random() if noise is None else noise,
    )


class Settler:
    """Collects settlements while one batch is on its way, and sends them as the next.

    Those whose job somebody else has locked are put aside and tried at a pace of their own, so that
    they slow nobody else.
    """

    def __init__(self, store: Store, on_settled: Settled, outage: Outage | None = None) -> None:
        self._store = store
        self._on_settled = on_settled
        self._outage = outage or Outage()
        self._pending: list[Pending] = []
        self._dealt_with: list[list[Pending]] = []  # of the batch that is on its way
        self._blocked: list[Pending] = []
        self._blocked_until = 0.0
        self._patience = Backoff()
        self._batch = BATCH
        self._something = asyncio.Event()
        self._nothing = asyncio.Event()
        self._nothing.set()
        self._in_doubt = False
        self._unremarkable: set[int] = set()
        self.batches = 0
        self.settled = Tally()  # by outcome
        self.died = Tally()  # by reason
        self.refused = 0

    @property
    def unsettled(self) -> int:
        return len(self._pending) + len(self._blocked)

    def add(self, claim: Claim, settlement: Settlement, *, may_be_refused: bool = False) -> None:
        """To be recorded; a refusal is worth a warning unless it is to be expected."""
        self._pending.append((claim, settlement))
        if may_be_refused:
            self._unremarkable.add(claim.fence)
        if len(self._pending) == 1:
            self._something.set()
            self._nothing.clear()

    async def drained(self) -> None:
        """Return when everything was recorded or refused."""
        await self._nothing.wait()

    async def run(self) -> None:
        """Settle for ever; cancelled when there is nothing more to come."""
        backoff = Backoff()
        while True:
            if self._blocked:
                await wait(self._something, max(0.0, self._blocked_until - time.monotonic()))
            else:
                await self._something.wait()
            # Others that end in this turn of the loop go into the same batch.
            await asyncio.sleep(0)
            try:
                await self.run_once()
                backoff.clear()
            except Exception as error:
                if is_lost(error):
                    self._outage.lost(error)
                    self._in_doubt = True
                elif not is_transient(error):
                    log.exception("settling failed and will be tried again")
                await asyncio.sleep(backoff.next())

    async def run_once(self) -> int:
        """Settle one batch; what fails for lack of a server stays for the next time."""
        size = self._batch
        if self._blocked and (not self._pending or time.monotonic() >= self._blocked_until):
            size = await self._look_at_blocked()
        batch = self._pending[:size]
        if not batch:
            return 0
        began = time.monotonic()
        self._dealt_with = []
        plain = [each for each in batch if each[1] is SUCCEEDED]
        rest = (
            [each for each in batch if each[1] is not SUCCEEDED] if len(plain) < len(batch) else []
        )
        accepted = [each for each in rest if each[1].next == "running"]
        others = [each for each in rest if each[1].next != "running"] if accepted else rest
        try:
            for part in (plain, others, accepted):
                if part:
                    await self._settle_most(part)
        except BaseException as error:
            # What is settled or put aside must not be sent again.
            done = {claim.fence for part in self._dealt_with for claim, _ in part}
            self._pending[: len(batch)] = [each for each in batch if each[0].fence not in done]
            if took_too_long(error):
                self._batch = max(1, len(batch) // 2)
            raise
        del self._pending[: len(batch)]
        self._dealt_with = []
        if len(batch) == self._batch and time.monotonic() - began < QUICKLY:
            self._batch = min(BATCH, 2 * self._batch)
        if not self._pending:
            self._something.clear()
        if not self._blocked:
            self._patience.clear()
            if not self._pending:
                self._nothing.set()
        self._outage.over()
        if self._in_doubt:
            log.warning("settled %d jobs that were finished while it was away", len(batch))
            self._in_doubt = False
        return len(batch)

    async def _settle(self, batch: list[Pending]) -> None:
        """All plain successes, or all accepted, or neither: one statement for all of them."""
        claims = [claim for claim, _ in batch]
        if batch[0][1] is SUCCEEDED:
            accepted = await self._store.jobs.settle_succeeded(
                [claim.id for claim in claims], [claim.fence for claim in claims]
            )
        elif batch[0][1].next == "running":
            accepted = await self._store.endpoints.hand_over(
                [(claim.id, claim.fence, settlement.delay or 0.0) for claim, settlement in batch]
            )
        else:
            accepted = await self._store.jobs.settle(
                [(claim.id, claim.fence, settlement) for claim, settlement in batch]
            )
        self.batches += 1
        self._dealt_with.append(batch)
        self._on_settled(claims, accepted)
        if len(accepted) < len(batch):
            self._remark_on([each for each in batch if each[0].id not in accepted])
            batch = [each for each in batch if each[0].id in accepted]
            self._count(batch, [claim for claim, _ in batch])
        else:
            self._count(batch, claims)
        if self._unremarkable:
            self._unremarkable.difference_update(claim.fence for claim in claims)

    def _count(self, batch: list[Pending], claims: list[Claim]) -> None:
        if batch and batch[0][1] is SUCCEEDED:
            for task, many in Counter(map(_task, claims)).items():
                self.settled.add(task, "succeeded", many)
            return
        for claim, settlement in batch:
            self.count(claim.task, settlement)

    def count(self, task: str, settlement: Settlement) -> None:
        """What became of an attempt; of those that were lost elsewhere, whoever reaps them."""
        self.settled.add(task, settlement.outcome)
        if settlement.reason is not None:
            self.died.add(task, settlement.reason)

    def _remark_on(self, refused: list[Pending]) -> None:
        for claim, settlement in refused:
            if claim.fence in self._unremarkable:
                self.settled.add(claim.task, "succeeded")  # a transaction of its own had done it
            else:
                self.refused += 1
            # After an outage the first try may have been applied and its answer lost.
            if not self._in_doubt and claim.fence not in self._unremarkable:
                log.warning(
                    "job %d (%s): the outcome %r of attempt %d was refused, the claim with "
                    "fence %d is not valid any more",
                    *(claim.id, claim.task, settlement.outcome, claim.attempt, claim.fence),
                    extra=about(claim),
                )

    # ── what does not go through ────────────────────────────────────────────

    async def _settle_most(self, batch: list[Pending]) -> None:
        """One outcome that cannot be recorded, now or ever, must not hold up the others."""
        try:
            await self._settle(batch)
        except asyncpg.LockNotAvailableError:
            locked = await self._store.jobs.locked([claim.id for claim, _ in batch])
            self._put_aside([each for each in batch if each[0].id in locked])
            free = [each for each in batch if each[0].id not in locked]
            try:
                if free:
                    await self._settle(free)
            except (asyncpg.LockNotAvailableError, *_REFUSED):
                await self._settle_one_by_one(free)
        except _REFUSED:
            await self._settle_one_by_one(batch)

    async def _settle_one_by_one(self, batch: list[Pending]) -> None:
        for each in batch:
            try:
                await self._settle([each])
            except asyncpg.LockNotAvailableError:
                self._put_aside([each])
            except _REFUSED as error:
                await self._settle_otherwise(each, error)

    async def _settle_otherwise(self, pending: Pending, error: Exception) -> None:
        """Record that it cannot be recorded: rather a dead job than one that runs for ever."""
        claim, settlement = pending
        what = "outcome" if settlement.result is None else "result"
        note = f"its {what} could not be kept: {say(error)}"
        log.warning("job %d: %s", claim.id, note, extra=about(claim))
        for instead in (replace(settlement, result=None, error=note), unsettleable(note)):
            try:
                await self._settle([(claim, instead)])
            except asyncpg.LockNotAvailableError:
                self._put_aside([pending])
                return
            except _REFUSED:
                continue
            return
        log.error("job %d: not even as dead could it be settled; trying again", claim.id)
        self._put_aside([pending])

    def _put_aside(self, blocked: list[Pending]) -> None:
        if blocked:
            self._blocked += blocked
            self._dealt_with.append(blocked)
            self._blocked_until = time.monotonic() + self._patience.next()

    async def _look_at_blocked(self) -> int:
        """Those that nobody has locked any more come first again; returns how many these are."""
        batch = self._blocked[:BATCH]
        locked = await self._store.jobs.locked([claim.id for claim, _ in batch])
        free = [each for each in batch if each[0].id not in locked]
        self._blocked[: len(batch)] = []
        self._blocked += [each for each in batch if each[0].id in locked]
        self._blocked_until = time.monotonic() + self._patience.next()
        self._pending[:0] = free
        if free:
            self._something.set()
        return len(free)
