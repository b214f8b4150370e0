"""Ready to running: which jobs of one queue this worker takes next."""

import logging
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sexton.domain.job import AGEING, PRIORITIES, Claim, instant
from sexton.domain.transitions import Settlement
from sexton.flow.tenants import Turns
from sexton.store import Store
from sexton.store.claims import BEGINNING, Lane, Place

log = logging.getLogger("sexton.claim")

# Jobs are committed a little out of the order of their due_at, so claiming begins no later than
# this long ago. What took longer to commit is found by the sweep.
SLACK = 0.25
# Jobs that were made while others were claimed may be committed so much later, and behind them.
LATELY = 10.0
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
        tenants: Sequence[int] | None = None,
    ) -> None:
        self._store = store
        self._in_doubt = in_doubt  # told when a claim was made and may have been lost
        self.queue = queue
        self._tasks = frozenset(tasks)
        self._limited = frozenset(limited)
        # How long jobs of a limited task are left to others; the sweep adds those that have jobs
        # marked for a limit that this code does not know.
        self._due_for = dict.fromkeys(limited, 0.0)
        self._places: dict[tuple[str, int], Place] = {}
        self._limited_first = False
        self._more = False
        self._dry = 0
        self._claimed_at = -math.inf
        self._since: dict[Lane, datetime] = {}
        self._turns = Turns(tenants)
        self._is_new = True

    def stir(self, tenant: int) -> None:
        """There may be something of this tenant."""
        self._turns.stir(tenant, time.monotonic())

    def stir_all(self) -> None:
        """There may be something of anybody: whoever said so was not heard."""
        self._turns.stir_all(time.monotonic())

    def relearn(self) -> None:
        """There are other tenants than there were."""
        self._turns.known = self._turns.bound is not None

    @property
    def several(self) -> bool:
        """There are more tenants than one."""
        return self._turns.several

    @property
    def claiming(self) -> bool:
        """Something was claimed not long ago."""
        return time.monotonic() - self._claimed_at < LATELY

    async def run_once(self, limit: int, worker: int) -> list[Claim]:
        """At most `limit` claims, in the order in which they should start."""
        self._more = False
        if not self._turns.known:
            await self._learn()
        claims = await self._claim_in_turn(limit, worker)
        self._dry = 0 if claims else self._dry + 1
        if claims:
            self._claimed_at = time.monotonic()
            self._turns.served(Counter([claim.tenant for claim in claims]), self._claimed_at)
        return claims

    async def _learn(self) -> None:
        """Which tenants there are; and at first, if they are several, who of them has something."""
        tenants = await self._store.jobs.tenants()
        self._turns.know(tenants)
        if self._is_new and len(tenants) > 1:
            await self.sweep(self._store, lambda: None)
        self._is_new = False

    async def _claim_in_turn(self, limit: int, worker: int) -> list[Claim]:
        steps = [self._claim]
        if self._due_for:
            # Two statements share the room; whichever goes first would starve the other.
            self._limited_first = not self._limited_first
            steps.insert(0 if self._limited_first else 1, self._claim_limited)
        claims: list[Claim] = []
        for party in self._turns.parties(time.monotonic()):
            for step in steps:
                try:
                    claims += await step(limit - len(claims), worker, party)
                except Exception:
                    if not claims:
                        raise
                    # What was claimed before is ours and must be started.
                    self._in_doubt()
                    log.warning("another claim from %s failed", self.queue, exc_info=True)
                    return claims
                if len(claims) >= limit:
                    return claims
        return claims

    async def _claim(self, limit: int, worker: int, party: Sequence[int]) -> list[Claim]:
        sent = self._lanes(party)
        claims = await self._store.jobs.claim(
            self.queue,
            limit,
            worker,
            [priority for _, priority in sent],
            list(sent.values()),
            [tenant for tenant, _ in sent],
        )
        newest: dict[Lane, float] = {}
        for claim in claims:
            lane = (claim.tenant, claim.priority)
            if claim.due > newest.get(lane, 0.0):
                newest[lane] = claim.due
        for lane, due in newest.items():
            # A sweep that found something meanwhile has moved it back, and knows better.
            if self._since.get(lane, BEGINNING) == sent[lane]:
                self._since[lane] = instant(min(due, claims[0].claimed - SLACK))
        if len(newest) > 1:
            claims.sort(key=_rank)
        if self._limited and claims:
            claims = await self._without_limited(claims)
        return claims

    def _lanes(self, party: Iterable[int]) -> dict[Lane, datetime]:
        """The lanes of these tenants, a tenant's together, and where to begin in each."""
        lanes = [(tenant, priority) for tenant in party for priority in PRIORITIES]
        return {lane: self._since.get(lane, BEGINNING) for lane in lanes}

    async def _without_limited(self, claims: list[Claim]) -> list[Claim]:
        """Code that did not know of a limit enqueued some of these: they go where it is kept."""
        misplaced = [claim for claim in claims if claim.task in self._limited]
        if not misplaced:
            return claims
        try:
            put_back = await self._store.jobs.mark_limited(misplaced)
            for task, tenant in {(claim.task, claim.tenant) for claim in misplaced}:
                self._places[task, tenant] = replace(self._place(task, tenant), since=BEGINNING)
            others = [claim for claim in misplaced if claim.id not in put_back]
            if others:
                await self._store.jobs.settle([(each.id, each.fence, _RELEASED) for each in others])
        except Exception:
            # The others are claimed already and must be started; these will be found as strays.
            self._in_doubt()
            log.warning("jobs past their limit could not be put back at once", exc_info=True)
        return [claim for claim in claims if claim.task not in self._limited]

    def _place(self, task: str, tenant: int) -> Place:
        place = self._places.get((task, tenant))
        return place or Place(task, self._due_for[task], tenant=tenant)

    async def _claim_limited(self, limit: int, worker: int, party: Sequence[int]) -> list[Claim]:
        sent = {each: self._place(*each) for each in self._limited_of(party)}
        claims, reached, more = await self._store.jobs.claim_limited(
            self.queue, limit, worker, list(sent.values())
        )
        self._more |= more
        for place in reached:
            where = place.task, place.tenant
            before = sent[where]
            now = self._places.get(where, before)
            # A sweep that found something meanwhile has moved it back, and knows better.
            moved = place.since - timedelta(seconds=SLACK)
            since = moved if now.since == before.since else now.since
            self._places[where] = replace(place, due_for=before.due_for, since=since)
            if place.waits:
                self.stir(place.tenant)  # perhaps for a limit: it must not be forgotten meanwhile
        return claims

    def _limited_of(self, party: Iterable[int]) -> list[tuple[str, int]]:
        return [(task, tenant) for tenant in party for task in self._due_for]

    async def next_due_in(self) -> float | None:
        """Seconds until it is worth looking again; None if only somebody else knows."""
        if not self._turns.known:
            await self._learn()
        now = time.monotonic()
        due = [each for party in self._turns.parties(now) for each in await self._ahead(party, now)]
        if self._turns.soonest < math.inf:
            due.append(self._turns.soonest - now)
        if self._dry:
            due.append(LOOK_AGAIN * 2 ** min(self._dry - 1, 20))
        if self._more:
            # Another worker counts the same limit, and so would the next: not all at once again.
            due.append(LOOK_AGAIN * (0.5 + random.random()))
        return min(due, default=None)

    async def _ahead(self, party: Sequence[int], now: float) -> list[float]:
        """In how many seconds the first job of each lane is due, and the first limited one."""
        lanes = self._lanes(party)
        ahead = await self._store.jobs.outlook(
            self.queue,
            [priority for _, priority in lanes],
            list(lanes.values()),
            [tenant for tenant, _ in lanes],
        )
        self._turns.expect_nothing(party)
        for (tenant, _), (_, due_in) in ahead.items():
            self._foresee(tenant, due_in, now)
        due = [due_in for _, due_in in ahead.values()]
        if self._due_for:
            places = self._limited_of(party)
            limited = await self._store.jobs.outlook_limited(
                self.queue, [task for task, _ in places], [tenant for _, tenant in places]
            )
            due += [] if limited is None else [limited]
        return due

    def _foresee(self, tenant: int, due_in: float, now: float) -> bool:
        """Something of this tenant is due, or will be; whether it is and nobody knew."""
        if due_in <= 0:
            return self._turns.stir(tenant, now)
        self._turns.expect(tenant, now + due_in)
        return False

    async def sweep(self, store: Store, found: Callable[[], None]) -> float:
        """Find what was committed behind where claiming begins, or without a word to anybody.

        The answer is for how many seconds the server was at it.
        """
        bound = self._turns.bound
        first, spent = await store.jobs.waiting(self.queue, list(PRIORITIES), bound)
        limited, more = await store.jobs.limited_tasks(self.queue, bound)
        if bound is None:
            owners = {tenant for tenant, _ in first} | {tenant for _, tenant in limited}
            self._turns.know(owners.union(await store.jobs.tenants()))
        now = time.monotonic()
        for lane, (due_at, due_in) in first.items():
            behind = due_at < self._since.get(lane, BEGINNING)
            if behind:
                self._since[lane] = due_at
            if (self._foresee(lane[0], due_in, now) or behind) and due_in <= 0:
                found()
        self._sweep_limited(limited, found, now)
        return spent + more

    def _sweep_limited(
        self,
        first: Mapping[tuple[str, int], tuple[datetime, float]],
        found: Callable[[], None],
        now: float,
    ) -> None:
        for (task, tenant), (due_at, due_in) in first.items():
            news = task not in self._due_for
            if news:
                self._due_for[task] = 0.0 if task in self._tasks else OTHERS_FIRST
            place = self._places.get((task, tenant))
            if place is not None and due_at < place.since:
                self._places[task, tenant] = replace(place, since=due_at)
                news = True
            if self._foresee(tenant, due_in + self._due_for[task], now) or news:
                found()
        gone = self._due_for.keys() - self._limited - {task for task, _ in first}
        for task in gone:
            del self._due_for[task]
        for where in [each for each in self._places if each[0] in gone]:
            del self._places[where]


def _rank(claim: Claim) -> float:
    """A priority is a head start: the order in which the statement chose them."""
    return claim.due - claim.priority * AGEING
