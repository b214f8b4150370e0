"""Ready to running: which jobs of one queue this worker takes next."""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime

from sexton.domain.job import AGEING, PRIORITIES, Claim, instant
from sexton.store import Store
from sexton.store.jobs import BEGINNING

log = logging.getLogger("sexton.claim")

# Jobs are committed a little out of the order of their due_at, so claiming begins no later than
# this long ago. What took longer to commit is found by the sweep.
SLACK = 0.25


class Claimer:
    """Claims for one queue, remembering where in each lane there is nothing left to find."""

    def __init__(
        self,
        store: Store,
        queue: str,
        tasks: Sequence[str],
        limited: Sequence[str],
        in_doubt: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._in_doubt = in_doubt  # told when a claim was made and may have been lost
        self.queue = queue
        self._tasks = list(tasks)
        self._limited = frozenset(limited)
        # Jobs may be marked for a limit that this code does not know any more.
        self._some_limited = bool(limited)
        self._limited_first = False
        self._after_key: str | None = None
        self._lanes = list(PRIORITIES)
        self._since: dict[int, datetime] = dict.fromkeys(self._lanes, BEGINNING)

    async def run_once(self, limit: int, worker: int) -> list[Claim]:
        """At most `limit` claims, in the order in which they should start."""
        if not self._some_limited:
            return await self._claim(limit, worker)
        # Two statements share the room; whichever goes first would starve the other.
        self._limited_first = not self._limited_first
        first, second = self._claim, self._claim_limited
        if self._limited_first:
            first, second = second, first
        claims = await first(limit, worker)
        if len(claims) < limit:
            try:
                claims += await second(limit - len(claims), worker)
            except Exception:
                if not claims:
                    raise
                # What the first statement claimed is ours and must be started.
                self._in_doubt()
                log.warning("the second claim from %s failed", self.queue, exc_info=True)
        return claims

    async def _claim(self, limit: int, worker: int) -> list[Claim]:
        sent = dict(self._since)
        claims = await self._store.jobs.claim(
            self.queue, limit, worker, self._lanes, list(sent.values())
        )
        newest: dict[int, float] = {}
        for claim in claims:
            if claim.due > newest.get(claim.priority, 0.0):
                newest[claim.priority] = claim.due
        for priority, due in newest.items():
            # A sweep that found something meanwhile has moved it back, and knows better.
            if self._since[priority] == sent[priority]:
                self._since[priority] = instant(min(due, claims[0].claimed - SLACK))
        if len(newest) > 1:
            claims.sort(key=_rank)
        if self._limited and claims:
            claims = await self._without_limited(claims)
        return claims

    async def _without_limited(self, claims: list[Claim]) -> list[Claim]:
        """Code that did not know of a limit enqueued some of these: they go where it is kept."""
        misplaced = [claim for claim in claims if claim.task in self._limited]
        if not misplaced:
            return claims
        try:
            await self._store.jobs.mark_limited(misplaced)
        except Exception:
            # The others are claimed already and must be started; these will be found as strays.
            self._in_doubt()
            log.warning("jobs past their limit could not be put back at once", exc_info=True)
        return [claim for claim in claims if claim.task not in self._limited]

    async def _claim_limited(self, limit: int, worker: int) -> list[Claim]:
        claims, last_key = await self._store.jobs.claim_limited(
            self.queue, limit, worker, self._tasks, self._after_key
        )
        # Whether there was nothing more to the end of the keys: then begin again with the first.
        again = self._after_key is not None and len(claims) < limit
        self._after_key = None if again else last_key
        if again and not claims:
            claims, self._after_key = await self._store.jobs.claim_limited(
                self.queue, limit, worker, self._tasks, None
            )
        return claims

    async def next_due_in(self) -> float | None:
        """Seconds until the next job of this queue is due; None if there is none."""
        ahead = await self._store.jobs.outlook(self.queue, self._lanes, list(self._since.values()))
        due = [due_in for _, due_in in ahead.values()]
        if self._some_limited:
            limited = await self._store.jobs.outlook_limited(self.queue)
            due += [] if limited is None else [limited]
        return min(due, default=None)

    async def sweep(self, store: Store, found: Callable[[], None]) -> None:
        """Find jobs that were committed behind the place where claiming begins."""
        if not self._limited and not self._some_limited:
            self._some_limited = await store.jobs.has_limited(self.queue)
            if self._some_limited:
                found()
        beginning = [BEGINNING] * len(self._lanes)
        first = await store.jobs.outlook(self.queue, self._lanes, beginning)
        for priority, (due_at, due_in) in first.items():
            if due_at < self._since[priority]:
                self._since[priority] = due_at
                if due_in <= 0:
                    found()


def _rank(claim: Claim) -> float:
    """A priority is a head start: the order in which the statement chose them."""
    return claim.due - claim.priority * AGEING
