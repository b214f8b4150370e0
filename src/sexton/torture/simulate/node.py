"""A node: `cluster/member.py` and the loops of `flow/scheduler.py`, over the engine's pure code."""

from random import random

from sexton.cluster.lead import balance, hand_over
from sexton.cluster.standing import Owned, Standing
from sexton.domain.fires import LATE_AFTER
from sexton.domain.job import instant
from sexton.domain.lease import Lease
from sexton.flow.decide import decide_due, decide_late
from sexton.flow.fire import AHEAD, due_by
from sexton.store.cluster import Beat
from sexton.store.due import Batch, Fired, Guard
from sexton.store.pause import Backoff
from sexton.torture.simulate import rules
from sexton.torture.simulate.database import Database
from sexton.torture.simulate.doors import seats
from sexton.torture.simulate.process import Away, Process, Signal, ask, nap, wait

LEASE = 3.0
POLL = 2.0
# Where the engine waits for a moment, the model waits longer: steps cost, time does not.
SOON = 0.05
CATCH_UP_EVERY = 0.3
CATCH_UP_AT_ONCE = 2
MARGIN = 0.0005
LOOK_FOR_LATE_EVERY = 1.5


class Node:
    """A program that joins, fires what it owns, and leads if it is elected."""

    def __init__(self, process: Process, database: Database) -> None:
        self.process = process
        self.database = database
        self.clock = process.clock
        self.seats = seats(database)
        kernel = process.kernel
        self.nudge, self.wake = Signal(kernel), Signal(kernel)
        self.standing: Standing | None = None
        self.steady_since = 0.0
        self.ahead = 0.0  # the database's clock minus ours, by its last answer
        self.leaving = False

    def start(self) -> None:
        self.process.spawn(self.attend())
        self.process.spawn(self.keep_firing())
        self.process.spawn(self.keep_catching_up())

    def heard(self, notice: str) -> None:
        if notice == "cluster":
            self.nudge.set()
        elif notice == "schedule":
            self.wake.set()

    def leave(self) -> None:
        self.leaving = True
        self.wake.set()
        self.nudge.set()

    # ── membership ──────────────────────────────────────────────────────────

    async def attend(self) -> None:
        rejoining = Backoff(LEASE / 3)
        while not self.leaving:
            node = await self.register()
            if node is None:
                continue
            if await self.beat(node):
                rejoining.clear()
            else:
                await nap(rejoining.next())
        self.process.end()

    async def register(self) -> int | None:
        backoff = Backoff(LEASE / 3)
        while not self.leaving:
            asked_at = self.clock()
            try:
                node, now = await ask(self.database.register_node, LEASE)
            except Away:
                self.steady_since = self.clock()
                await nap(backoff.next())
                continue
            self.heard_clock(now, asked_at)
            return node
        return None

    async def beat(self, node: int) -> bool:
        """Say that we live until told to stop or declared lost; whether we were heard at all."""
        backoff = Backoff(LEASE / 3)
        heard = False
        delay = 0.0
        while not await self.pause(delay):
            asked_at, suspensions = self.clock(), self.process.suspensions
            try:
                beat = await ask(self.database.heartbeat, node)
            except Away:
                self.steady_since = self.clock()
                delay = backoff.next()
                continue
            backoff.clear()
            if beat is None:
                self.steady_since = asked_at
                self.stand(None)
                return heard
            heard = True
            self.process.overslept &= suspensions != self.process.suspensions
            self.heard_clock(beat.now.timestamp(), asked_at)
            lease = self.lease(asked_at)
            before = self.standing
            if before is not None and not before.lease.trusted(asked_at):
                self.steady_since = asked_at
            self.stand(Standing.of(node, beat, lease))
            self.shows(node, lease)
            delay = await self.next(node, beat, lease)
        await self.hand_over(node)
        return heard

    def lease(self, asked_at: float) -> Lease:
        return Lease(LEASE, asked_at)

    async def pause(self, delay: float) -> bool:
        await wait(self.nudge, delay)
        self.nudge.clear()
        return self.leaving

    async def next(self, node: int, beat: Beat, lease: Lease) -> float:
        """Lead, if that is ours to do; how long there is nothing to do after that."""
        watch = beat.silence_in if beat.leads else beat.leader_for
        try:
            if await self.led(node, beat):
                return 0.0
        except Away:
            watch = 4 * SOON
        until = lease.renew_at(random())
        if watch is not None:
            until = min(until, lease.asked_at + max(watch, SOON))
        return max(0.0, until - self.clock())

    async def led(self, node: int, beat: Beat) -> bool:
        if self.leads and beat.restless:
            steady = self.clock() - self.steady_since >= LEASE
            return await balance(self.seats, node, beat.term, judge=steady)
        if not beat.leads and beat.leader_for <= 0:
            return await ask(self.database.elect, node)
        return False

    async def hand_over(self, node: int) -> None:
        self.stand(None)
        backoff, until = Backoff(LEASE / 3), self.clock() + LEASE
        while self.clock() < until:
            try:
                await hand_over(self.seats, node)
                return
            except Away:
                await nap(backoff.next())

    # ── what is known ───────────────────────────────────────────────────────

    def stand(self, standing: Standing | None) -> None:
        before, self.standing = self.standing, standing
        if before is None or standing is None or before.ownership != standing.ownership:
            self.wake.set()

    @property
    def owned(self) -> Owned | None:
        standing = self.standing
        return None if standing is None else standing.owned(self.clock())

    @property
    def leads(self) -> bool:
        standing = self.standing
        return standing is not None and standing.leads(self.clock())

    def others_who_lead(self) -> list[str]:
        return [
            each.name
            for each in self.process.kernel.processes
            if each.program is not self
            and isinstance(each.program, Node)
            and each.program.leads
            and not each.overslept
        ]

    def shows(self, node: int, lease: Lease) -> None:
        """What it believes now is looked at."""
        watch, row = self.database.watch, self.database.nodes.get(node)
        watch.trusts(self.process, lease, row, self.process.kernel.now)
        if self.leads:
            watch.leads(self.process, self.others_who_lead())

    def leading(self) -> Guard | None:
        """As whom the leader acts; None on every other node."""
        owned, standing = self.owned, self.standing
        if owned is None or standing is None or not self.leads:
            return None
        return Guard(owned.node, None, standing.term)

    def heard_clock(self, now: float, asked_at: float) -> None:
        self.ahead = now - (asked_at + self.clock()) / 2

    # ── firing ──────────────────────────────────────────────────────────────

    async def keep_firing(self) -> None:
        backoff = Backoff(0.5)
        while not self.leaving:
            owned = self.owned
            try:
                if owned is None or not owned.partitions:
                    self.wake.clear()
                    await wait(self.wake, POLL)
                else:
                    await self.round(owned)
                    backoff.clear()
            except Away:
                await nap(backoff.next())

    async def round(self, owned: Owned) -> None:
        """Read what is due soon, and fire each when its instant has come."""
        self.wake.clear()
        guard = Guard(owned.node, owned.epoch, owned.term)
        rows = await ask(self.database.due, owned.partitions, AHEAD, LATE_AFTER)
        batch = decide_due(rows, rules.compiled()).batch if rows else Batch()
        first = 0
        while first < len(batch) and not self.leaving:
            if not self.still(owned):
                return
            now = self.database_now()
            end = due_by(batch, first, now)
            if end > first:
                part = batch.part(first, end)
                fired = await self.fire(guard, part)
                await self.replace(fired)
                if fired.moved < len(part):
                    await nap(SOON)
                    return
                first = end
                if first < len(batch) and part.again_at < batch.were_due[-1]:
                    return
            elif await wait(self.wake, batch.were_due[first] - now + MARGIN):
                return
        if not batch:
            await self.sleep(owned)

    def still(self, owned: Owned) -> bool:
        return self.owned == owned

    def database_now(self) -> float:
        return self.clock() + self.ahead

    async def fire(self, guard: Guard, batch: Batch) -> Fired:
        self.database.watch.sends(self.process, guard.node, self.database)
        return await ask(self.database.fire, guard, "due", batch)

    async def replace(self, fired: Fired) -> None:
        if fired.still_live:
            await ask(self.database.cancel, fired.still_live)

    async def sleep(self, owned: Owned) -> None:
        due_in = await ask(self.database.due_next, owned.partitions, LATE_AFTER, POLL + AHEAD)
        delay = POLL if due_in is None else min(POLL, due_in - AHEAD + MARGIN)
        if delay > 0:
            await wait(self.wake, delay)

    # ── what is late ────────────────────────────────────────────────────────

    async def keep_catching_up(self) -> None:
        while not self.leaving:
            try:
                await self.mark_late()
                guard = self.leading()
                while guard is not None and await self.catch_up(guard):
                    await nap(CATCH_UP_EVERY)
                    guard = self.leading()
                if guard is not None:
                    await ask(self.database.let_go)
            except Away:
                pass
            await nap(LOOK_FOR_LATE_EVERY)

    async def mark_late(self) -> None:
        owned = self.owned
        if owned is not None and owned.partitions:
            guard = Guard(owned.node, owned.epoch, owned.term)
            await ask(self.database.mark_late, guard, owned.partitions, LATE_AFTER)

    async def catch_up(self, guard: Guard) -> bool:
        """Some of what is late; whether there may be more."""
        rows = await ask(self.database.late, CATCH_UP_AT_ONCE)
        if not rows:
            return False
        now = await ask(self.database.clock_now)
        batch = decide_late(rows, rules.compiled(), instant(now)).batch
        fired = await ask(self.database.catch_up, guard, batch)
        await self.replace(fired)
        return fired.moved > 0
