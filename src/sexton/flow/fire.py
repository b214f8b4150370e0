"""Due to fired: read a little ahead, decide, and write each fire when its instant has come."""

import bisect
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime

import asyncpg

from sexton.domain.fires import LATE_AFTER
from sexton.domain.job import instant
from sexton.domain.partition import PARTITIONS
from sexton.domain.schedule import FireKind
from sexton.flow.decide import Decisions, decide_due_in_turns
from sexton.flow.rules import Rules
from sexton.flow.shares import Shares
from sexton.store import Store
from sexton.store.connection import ITS_FAULT, say
from sexton.store.due import Batch, DueRow, Fired, Guard

log = logging.getLogger("sexton.fire")

# How far ahead is read and decided, so that at the instant itself only the write is left to do.
AHEAD = 0.5
# A statement of so many fires takes some 50 ms; jobs that commit much later than their due_at are
# found by the workers' sweep only.
BATCH = 2000
READ = 4096
LOOK_FOR_TENANTS_EVERY = 5.0

# A schedule that somebody has locked is looked at again after this long, and not waited for.
LOCKED_FOR = 0.25

Replaced = Callable[[Sequence[int]], None]


class Firer:
    """Fires for whoever holds a guard: a node for its partitions, the leader for what is late."""

    def __init__(self, store: Store, rules: Rules, on_replaced: Replaced) -> None:
        self._store = store
        self._rules = rules
        self._on_replaced = on_replaced
        self.fired = 0
        self.last_fire_at: datetime | None = None
        self.jobs: Counter[str] = Counter()  # made, by the kind of fire
        self.quarantined = 0
        self.held_up = False  # something that is due is locked by somebody else
        self._locked: dict[int, float] = {}  # until when each is not looked at
        self._shares = Shares()
        self._look_for_tenants_at = 0.0

    async def plan(self, guard: Guard, partitions: Sequence[int]) -> tuple[Batch, bool]:
        """What is due now or soon, oldest first; and whether there was more than could be read."""
        rows, more = await self._read(partitions)
        if not rows:
            return Batch(), False
        rules = await self._rules.get(row.rule for row in rows)
        decisions = await decide_due_in_turns(rows, rules)
        await self.take_out(guard, decisions)
        batch = decisions.batch
        if self._locked:
            batch = await self._without_locked(batch)
        self.held_up = len(batch) < len(decisions.batch)
        return batch, more

    async def _read(self, partitions: Sequence[int]) -> tuple[list[DueRow], bool]:
        """The oldest; if there are too many, and of several tenants, an equal share of each."""
        if self._shares.in_use:
            return await self._read_shares(partitions)
        each = max(4, READ // len(partitions))
        rows = await self._store.due.due(partitions, ahead=AHEAD, late=LATE_AFTER, each=each)
        if len(rows) < each:
            return rows, False
        await self._know_tenants()
        if not self._shares.several or not _is_full(rows, each):
            return rows, True
        self._shares.begin(rows)
        return await self._read_shares(partitions)

    async def _know_tenants(self) -> None:
        if time.monotonic() >= self._look_for_tenants_at:
            self._shares.know(await self._store.jobs.tenants())
            self._look_for_tenants_at = time.monotonic() + LOOK_FOR_TENANTS_EVERY

    async def _read_shares(self, partitions: Sequence[int]) -> tuple[list[DueRow], bool]:
        await self._know_tenants()
        limits = self._shares.limits()
        rows = await self._store.due.due_of(limits, partitions, ahead=AHEAD, late=LATE_AFTER)
        return self._shares.divide(rows, limits), True

    async def _unlocked(self, ids: Sequence[int]) -> set[int]:
        """Those that nobody has locked; the others are left out for a moment."""
        free = {*await self._store.due.unlocked(ids)}
        now = time.monotonic()
        still = {id: now + LOCKED_FOR for id in ids if id not in free}
        # Those that were met again are judged anew; those that were not are due no longer.
        kept = {id: at for id, at in self._locked.items() if id not in free and at > now - 10.0}
        self._locked = kept | still
        return free

    async def _without_locked(self, batch: Batch) -> Batch:
        """Whoever has locked a schedule, by an edit that takes its time, holds up only that one."""
        met = [id for id in batch.ids if id in self._locked]
        if not met:
            return batch
        now = time.monotonic()
        if ready := [id for id in met if self._locked[id] <= now]:
            await self._unlocked(ready)
        return batch.only({*batch.ids} - self._locked.keys())

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
            self.quarantined += 1
            log.error("schedule %r is quarantined: %s", name, why, extra={"schedule": name})

    async def fire(self, guard: Guard, batch: Batch, kind: FireKind = "due") -> Fired:
        """Write a batch; a schedule that PostgreSQL will not take is put aside, not the others."""
        try:
            fired = await self._store.due.fire(guard, kind, batch)
        except asyncpg.LockNotAvailableError:
            free = batch.only(await self._unlocked(batch.ids))
            if not 0 < len(free) < len(batch):
                raise
            return await self.fire(guard, free, kind)  # the others as soon as they are let go
        except ITS_FAULT as error:
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
            self.jobs[kind] += fired.jobs
            self.fired += fired.jobs if kind == "due" else 0
            self.last_fire_at = instant(max(batch.fires_at))
        if fired.still_live:
            self._on_replaced(fired.still_live)
        return fired


def _is_full(rows: Sequence[DueRow], each: int) -> bool:
    """Whether there may be more in some partition."""
    return max(Counter([row.id % PARTITIONS for row in rows]).values()) >= each


def due_by(batch: Batch, first: int, now: float) -> int:
    """The end of what is due by now, from `first` on, and no more than fits a statement."""
    return min(bisect.bisect_right(batch.were_due, now, lo=first), first + BATCH)
