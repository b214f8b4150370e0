"""Misfires, released at one rate for the whole cluster, so that recovery is not a second outage."""

import logging
import time

from sexton.flow.decide import decide_late
from sexton.flow.fire import BATCH, Firer
from sexton.flow.rules import Rules
from sexton.store import Store
from sexton.store.due import Guard

log = logging.getLogger("sexton.catch_up")

# Twice the usual rate, unless somebody has set another; and never slower than this.
TIMES_USUAL = 2.0
LEAST_RATE = 50.0
# What may be released at once: a tenth of a second's worth.
BURST = 0.1
# How quickly a new usual becomes usual.
USUAL_OVER = 600.0


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
        self.rate = LEAST_RATE

    async def run_once(self, guard: Guard) -> bool:
        """Release what may be released now; whether there is more to come."""
        now = time.monotonic()
        longest = max(1.0, self.rate * BURST)
        earned = (now - self._refilled_at) * self.rate
        self._allowance = min(longest, self._allowance + earned)
        self._refilled_at = now
        if self._allowance < 1.0:
            return True
        rows = await self._store.due.late(min(int(self._allowance), BATCH))
        if not rows:
            if self._behind:
                self._behind = False
                log.info("all misfires are caught up")
            return False
        if not self._behind:
            self._behind = True
            log.warning("there are misfires: catching up at %g a second", self.rate)
        clock = await self._store.history.clock()
        decisions = decide_late(rows, await self._rules.get(row.rule for row in rows), clock)
        await self._firer.take_out(guard, decisions)
        if decisions.batch:
            fired = await self._firer.fire(guard, decisions.batch, "catch_up")
            self._allowance -= fired.jobs
        return True

    async def measure(self) -> None:
        """What is usual: the fires of all nodes, by what they report, over the last minutes."""
        now = time.monotonic()
        total = sum(node.fired for node in await self._store.cluster.nodes())
        usual, asked = await self._store.due.rates()
        if self._counted is not None and total >= self._counted[1]:
            since, before = self._counted
            rate = (total - before) / (now - since)
            share = min(1.0, (now - since) / USUAL_OVER)
            usual, asked = await self._store.due.rates(usual + share * (rate - usual))
        self._counted = (now, total)
        self.rate = asked or max(LEAST_RATE, TIMES_USUAL * usual)
