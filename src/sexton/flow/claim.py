"""Ready to running: which jobs of one queue this worker takes next."""

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sexton.domain.job import AGEING, PRIORITIES, Claim, instant
from sexton.domain.transitions import Settlement
from sexton.store import Store
from sexton.store.jobs import BEGINNING, Place

log = logging.getLogger("sexton.claim")

# Jobs are committed a little out of the order of their due_at, so claiming begins no later than
# this long ago. What took longer to commit is found by the sweep.
SLACK = 0.25
# Whoever found nothing looks again after this long, then after twice as long, and so on: for what
# was enqueued, by those who thought us busy, in a transaction that takes its time to commit.
LOOK_AGAIN = 0.05
# A limited job of a task that this code does not have is left to workers that may have it.
OTHERS_FIRST = 300.0
_RELEASED = Settlement("released", "waiting", delay=0.0)


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
        self._tasks = frozenset(tasks)
        self._limited = frozenset(limited)
        # By task; the sweep adds those with jobs marked for a limit that this code does not know.
        self._places = {task: Place(task) for task in limited}
        self._limited_first = False
        self._more = False
        self._dry = 0
        self._lanes = list(PRIORITIES)
        self._since: dict[int, datetime] = dict.fromkeys(self._lanes, BEGINNING)

    async def run_once(self, limit: int, worker: int) -> list[Claim]:
        """At most `limit` claims, in the order in which they should start."""
        self._more = False
        claims = await self._claim_both(limit, worker)
        self._dry = 0 if claims else self._dry + 1
        return claims

    async def _claim_both(self, limit: int, worker: int) -> list[Claim]:
        if not self._places:
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
            put_back = await self._store.jobs.mark_limited(misplaced)
            for task in {claim.task for claim in misplaced}:
                self._places[task] = replace(self._places[task], since=BEGINNING)
            others = [claim for claim in misplaced if claim.id not in put_back]
            if others:
                await self._store.jobs.settle([(each.id, each.fence, _RELEASED) for each in others])
        except Exception:
            # The others are claimed already and must be started; these will be found as strays.
            self._in_doubt()
            log.warning("jobs past their limit could not be put back at once", exc_info=True)
        return [claim for claim in claims if claim.task not in self._limited]

    async def _claim_limited(self, limit: int, worker: int) -> list[Claim]:
        sent = dict(self._places)
        claims, reached, self._more = await self._store.jobs.claim_limited(
            self.queue, limit, worker, list(sent.values())
        )
        for place in reached:
            before, now = sent[place.task], self._places.get(place.task)
            if now is not None:
                # A sweep that found something meanwhile has moved it back, and knows better.
                moved = place.since - timedelta(seconds=SLACK)
                since = moved if now.since == before.since else now.since
                self._places[place.task] = replace(place, due_for=before.due_for, since=since)
        return claims

    async def next_due_in(self) -> float | None:
        """Seconds until it is worth looking again; None if only somebody else knows."""
        ahead = await self._store.jobs.outlook(self.queue, self._lanes, list(self._since.values()))
        due = [due_in for _, due_in in ahead.values()]
        if self._places:
            limited = await self._store.jobs.outlook_limited(self.queue, list(self._places))
            due += [] if limited is None else [limited]
        if self._dry:
            due.append(LOOK_AGAIN * 2 ** min(self._dry - 1, 20))
        if self._more:
            # Another worker counts the same limit, and so would the next: not all at once again.
            due.append(LOOK_AGAIN * (0.5 + random.random()))
        return min(due, default=None)

    async def sweep(self, store: Store, found: Callable[[], None]) -> None:
        """Find jobs that were committed behind the place where claiming begins."""
        await self._sweep_limited(store, found)
        beginning = [BEGINNING] * len(self._lanes)
        first = await store.jobs.outlook(self.queue, self._lanes, beginning)
        for priority, (due_at, due_in) in first.items():
            if due_at < self._since[priority]:
                self._since[priority] = due_at
                if due_in <= 0:
                    found()

    async def _sweep_limited(self, store: Store, found: Callable[[], None]) -> None:
        first = await store.jobs.limited_tasks(self.queue)
        for task, due_at in first.items():
            place = self._places.get(task)
            if place is None:
                due_for = 0.0 if task in self._tasks else OTHERS_FIRST
                self._places[task] = Place(task, due_for)
                found()
            elif due_at < place.since:
                self._places[task] = replace(place, since=due_at)
                found()
        for task in self._places.keys() - self._limited - first.keys():
            del self._places[task]


def _rank(claim: Claim) -> float:
    """A priority is a head start: the order in which the statement chose them."""
    return claim.due - claim.priority * AGEING
