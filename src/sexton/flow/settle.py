"""Recording outcomes: in batches, fenced, and kept through any absence of PostgreSQL."""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import asyncpg

from sexton.domain.job import Claim
from sexton.domain.outcome import PLAIN_SUCCESS, Outcome
from sexton.domain.retry import Retry
from sexton.domain.transitions import SUCCEEDED, Settlement, settle
from sexton.flow.keep import Backoff
from sexton.flow.outage import Outage
from sexton.store import Store
from sexton.store.connection import is_lost, is_transient, say

log = logging.getLogger("sexton.settle")

BATCH = 1000
_ONE_BY_ONE = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.LockNotAvailableError,
)
Settled = Callable[[Sequence[Claim], set[int]], None]  # a batch, and the ids that were ours


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
    """Collects settlements while one batch is on its way, and sends them as the next."""

    def __init__(self, store: Store, on_settled: Settled, outage: Outage | None = None) -> None:
        self._store = store
        self._on_settled = on_settled
        self._outage = outage or Outage()
        self._pending: list[tuple[Claim, Settlement]] = []
        self._something = asyncio.Event()
        self._nothing = asyncio.Event()
        self._nothing.set()
        self._in_doubt = False
        self._unremarkable: set[int] = set()
        self.batches = 0

    @property
    def unsettled(self) -> int:
        return len(self._pending)

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
        batch = self._pending[:BATCH]
        if not batch:
            return 0
        try:
            await self._settle(batch)
        except _ONE_BY_ONE:
            blocked = await self._settle_one_by_one(batch)
            self._pending[: len(batch)] = blocked
            if blocked:
                raise
        else:
            del self._pending[: len(batch)]
        if not self._pending:
            self._something.clear()
            self._nothing.set()
        self._outage.over()
        if self._in_doubt:
            log.warning("settled %d jobs that were finished while it was away", len(batch))
            self._in_doubt = False
        return len(batch)

    async def _settle(self, batch: list[tuple[Claim, Settlement]]) -> None:
        plain = [claim for claim, settlement in batch if settlement is SUCCEEDED]
        accepted: set[int] = set()
        if plain:
            accepted |= await self._store.jobs.settle_succeeded(
                [claim.id for claim in plain], [claim.fence for claim in plain]
            )
        if len(plain) < len(batch):
            accepted |= await self._store.jobs.settle(
                [
                    (claim.id, claim.fence, settlement)
                    for claim, settlement in batch
                    if settlement is not SUCCEEDED
                ]
            )
        self.batches += 1
        self._on_settled([claim for claim, _ in batch], accepted)
        if len(accepted) < len(batch):
            refused = [each for each in batch if each[0].id not in accepted]
            self._remark_on(refused)
        if self._unremarkable:
            self._unremarkable.difference_update(claim.fence for claim, _ in batch)

    def _remark_on(self, refused: list[tuple[Claim, Settlement]]) -> None:
        for claim, settlement in refused:
            # After an outage the first try may have been applied and its answer lost.
            if not self._in_doubt and claim.fence not in self._unremarkable:
                log.warning(
                    "job %d (%s): the outcome %r of attempt %d was refused, the claim with "
                    "fence %d is not valid any more",
                    *(claim.id, claim.task, settlement.outcome, claim.attempt, claim.fence),
                )

    async def _settle_one_by_one(
        self, batch: list[tuple[Claim, Settlement]]
    ) -> list[tuple[Claim, Settlement]]:
        """One outcome that PostgreSQL will not take must not hold up the others.

        Returns those whose job somebody else has locked; they are tried again.
        """
        blocked = []
        for each in batch:
            try:
                await self._settle([each])
            except asyncpg.LockNotAvailableError:
                blocked.append(each)
            except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
                claim, settlement = each
                log.warning("job %d: its result cannot be kept: %s", claim.id, say(error))
                note = f"the result could not be kept: {say(error)}"
                await self._settle([(claim, replace(settlement, result=None, error=note))])
        return blocked
