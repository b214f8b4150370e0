"""Due to fired: read a little ahead, decide, and write each fire when its instant has come."""

import bisect
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

import asyncpg

from sexton.domain.fires import LATE_AFTER
from sexton.domain.job import instant
from sexton.domain.schedule import FireKind
from sexton.flow.decide import Decisions, decide_due
from sexton.flow.rules import Rules
from sexton.store import Store
from sexton.store.connection import is_lost, is_transient, say
from sexton.store.due import Batch, Fired, Guard

log = logging.getLogger("sexton.fire")

# How far ahead is read and decided, so that at the instant itself only the write is left to do.
AHEAD = 0.5
# A statement of so many fires takes some 50 ms; jobs that commit much later than their due_at are
# found by the workers' sweep only.
BATCH = 2000
READ = 4096

Replaced = Callable[[Sequence[int]], Awaitable[None]]


class Firer:
    """Fires for whoever holds a guard: a node for its partitions, the leader for what is late."""

    def __init__(self, store: Store, rules: Rules, on_replaced: Replaced) -> None:
        self._store = store
        self._rules = rules
        self._on_replaced = on_replaced
        self.fired = 0
        self.last_fire_at: datetime | None = None

    async def plan(self, guard: Guard, partitions: Sequence[int]) -> tuple[Batch, bool]:
        """What is due now or soon, oldest first; and whether there was more than could be read."""
        each = max(4, READ // len(partitions))
        rows = await self._store.due.due(partitions, ahead=AHEAD, late=LATE_AFTER, each=each)
        if not rows:
            return Batch(), False
        rules = await self._rules.get(row.rule for row in rows)
        decisions = decide_due(rows, rules)
        await self.take_out(guard, decisions)
        return decisions.batch, len(rows) >= each

    async def take_out(self, guard: Guard, decisions: Decisions) -> None:
        """Schedules that cannot be computed are put aside and reported; the others go on."""
        for row, why in decisions.broken:
            await self._quarantine(guard, row.id, row.stamp, why)

    async def _quarantine(self, guard: Guard, id: int, stamp: int, why: str) -> None:
        try:
            name = await self._store.due.quarantine(guard, id, stamp, why)
        except asyncpg.LockNotAvailableError:
            return  # somebody changes it just now
        if name is not None:
            log.error("schedule %r is quarantined: %s", name, why)

    async def fire(self, guard: Guard, batch: Batch, kind: FireKind = "due") -> Fired:
        """Write a batch; a schedule that PostgreSQL will not take is put aside, not the others."""
        try:
            fired = await self._store.due.fire(guard, kind, batch)
        except asyncpg.LockNotAvailableError:
            free = batch.only(await self._store.due.unlocked(batch.ids))
            if not 0 < len(free) < len(batch):
                raise
            return await self.fire(guard, free, kind)  # the others as soon as they are let go
        except asyncpg.PostgresError as error:
            if is_lost(error) or is_transient(error):
                raise
            if len(batch) > 1:
                first, second = batch.halves()
                one = await self.fire(guard, first, kind)
                two = await self.fire(guard, second, kind)
                return Fired(one.moved + two.moved, one.jobs + two.jobs, ())
            if isinstance(error, asyncpg.UniqueViolationError) and batch.firing[0]:
                # A backfill has decided it, or the clock of a new primary is behind the old one's.
                at = instant(batch.fires_at[0])
                log.warning("schedule %d: its fire of %s is in the ledger", batch.ids[0], at)
                return await self.fire(guard, batch.unfired(), kind)
            why = f"its fire cannot be written: {say(error)}"
            await self._quarantine(guard, batch.ids[0], batch.stamps[0], why)
            return Fired(0, 0, ())
        if fired.jobs:
            self.fired += fired.jobs if kind == "due" else 0
            self.last_fire_at = instant(max(batch.fires_at))
        if fired.still_live:
            await self._on_replaced(fired.still_live)
        return fired


def due_by(batch: Batch, first: int, now: float) -> int:
    """The end of what is due by now, from `first` on, and no more than fits a statement."""
    return min(bisect.bisect_right(batch.were_due, now, lo=first), first + BATCH)
