"""Misfires, released at one rate for the whole cluster, so that recovery is not a second outage."""

import logging
import time
from collections.abc import Sequence

from sexton.flow.decide import decide_late_in_turns
from sexton.flow.fire import BATCH, Firer
from sexton.flow.rules import Rules
from sexton.store import Store
from sexton.store.due import Batch, DueRow, Guard

log = logging.getLogger("sexton.catch_up")

# Twice the usual rate, unless somebody has set another; and never slower than this.
TIMES_USUAL = 2.0
LEAST_RATE = 50.0
# What may be released at once: a tenth of a second's worth.
BURST = 0.1
# How quickly a new usual becomes usual.
USUAL_OVER = 600.0
# Schedules that make no job cost no allowance: up to so many times as many are moved on together.
FARTHEST = 64
# After so long the others on this loop have their turn.
TURN = 0.05


class Governor:
    """The leader's: what is late belongs to it, and leaves at its rate, fair between tenants."""

    def __init__(self, store: Store, rules: Rules, firer: Firer) -> None:
        self._store = store
        self._rules = rules
        self._firer = firer
        self._allowance = 0.0
        self._refilled_at = time.monotonic()
        self._behind = False
        self._counted: tuple[float, int] | None = None
        self._term: int | None = None
        self._last_tenant = 0
        self._reach = 1
        self.rate = LEAST_RATE

    async def run_once(self, guard: Guard) -> bool:
        """Release what may be released now; whether there is more to come."""
        if guard.term != self._term:
            self._set_rate(*await self._store.due.rates())
            self._term = guard.term
        self._refill()
        began = time.monotonic()
        while self._allowance >= 1.0 and time.monotonic() - began <= TURN:
            limit = min(int(self._allowance) * self._reach, BATCH)
            rows = await self._store.due.late(limit, self._last_tenant)
            if not rows:
                if self._behind:
                    self._behind = False
                    log.info("all misfires are caught up")
                return False
            if not self._behind:
                self._behind = True
                log.warning("there are misfires: catching up at %g a second", self.rate)
            if not await self._release(guard, rows):
                break
        return True

    async def _release(self, guard: Guard, rows: Sequence[DueRow]) -> bool:
        """What the allowance is enough for; whether anything was."""
        clock = await self._store.history.clock()
        rules = await self._rules.get(row.rule for row in rows)
        decisions = await decide_late_in_turns(rows, rules, clock)
        await self._firer.take_out(guard, decisions)
        batch = _affordable(decisions.batch, int(self._allowance))
        if not batch:
            return False
        fired = await self._firer.fire(guard, batch, "catch_up")
        self._allowance -= fired.jobs
        self._reach = 1 if fired.jobs else min(2 * self._reach, FARTHEST)
        tenants = {row.id: row.tenant for row in rows}
        self._last_tenant = tenants[batch.ids[-1]]
        return fired.moved > 0

    def _refill(self) -> None:
        now = time.monotonic()
        earned = (now - self._refilled_at) * self.rate
        self._allowance = min(max(1.0, self.rate * BURST), self._allowance + earned)
        self._refilled_at = now

    async def measure(self) -> None:
        """What is usual: the fires of all nodes, by what they report, over the last minutes."""
        now = time.monotonic()
        total = sum(node.fired for node in await self._store.cluster.nodes())
        usual, asked = await self._store.due.rates()
        if self._counted is not None and total >= self._counted[1]:
            since, before = self._counted
            rate = (total - before) / (now - since)
            # Where nothing has been measured yet, the first measurement is what is usual.
            share = min(1.0, (now - since) / USUAL_OVER) if usual else 1.0
            usual, asked = await self._store.due.rates(usual + share * (rate - usual))
        self._counted = (now, total)
        self._set_rate(usual, asked)

    def _set_rate(self, usual: float, asked: float | None) -> None:
        self.rate = asked or max(LEAST_RATE, TIMES_USUAL * usual)


def _affordable(batch: Batch, jobs: int) -> Batch:
    """As much from the beginning on as makes no more than so many jobs."""
    for n, firing in enumerate(batch.firing):
        jobs -= firing
        if jobs < 0:
            return batch.part(0, n)
    return batch
