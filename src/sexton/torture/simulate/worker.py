"""A worker: `flow/renew.py`, `fetch.py`, `attempts.py`, `settle.py`, `stray.py` and the reaper."""

from collections.abc import Sequence
from random import choice, random

from sexton.domain.job import Claim
from sexton.domain.lease import Lease
from sexton.domain.outcome import (
    PLAIN_SUCCESS,
    Cancelled,
    Failed,
    Lost,
    Outcome,
    Released,
    Snoozed,
)
from sexton.domain.transitions import RELEASED, SUCCEEDED, Settlement
from sexton.flow import reap
from sexton.flow.settle import decide
from sexton.store.pause import Backoff
from sexton.torture.simulate.database import Database
from sexton.torture.simulate.doors import graves
from sexton.torture.simulate.job_tables import RETRY
from sexton.torture.simulate.process import (
    PATIENCE,
    Away,
    Process,
    Signal,
    ask,
    ask_within,
    nap,
    wait,
)

LEASE = 3.0
POLL = 2.0
SLOTS = 3
SETTLE_DOWN = 0.5
# As in the engine, only shorter.
STRAYS_EVERY = 3.0
EVER = 3600.0
# At most so long; some take longer than a lease.
LENGTHS = (0.1, 0.1, 1.0, 6.0)
OUTCOMES: tuple[Outcome, ...] = (
    *(PLAIN_SUCCESS, PLAIN_SUCCESS, PLAIN_SUCCESS, PLAIN_SUCCESS, PLAIN_SUCCESS),
    *(Failed("no"), Failed("no"), Snoozed(0.5, "later"), Failed("never", permanent=True)),
)


class Running:
    """A claim that this worker holds, until it is settled."""

    __slots__ = ("claim", "ended", "worker")

    def __init__(self, claim: Claim, worker: int) -> None:
        self.claim = claim
        self.worker = worker
        self.ended = False


class Worker:
    """A program that claims, runs and settles jobs, and reaps what others have lost."""

    def __init__(self, process: Process, database: Database) -> None:
        self.process = process
        self.database = database
        self.clock = process.clock
        self.store = graves(database)
        kernel = process.kernel
        self.quit, self.wake, self.something = Signal(kernel), Signal(kernel), Signal(kernel)
        self.worker: int | None = None
        self.held_lease: Lease | None = None
        self.steady_since = 0.0
        self.held: dict[int, Running] = {}
        self.free = SLOTS
        self.pending: list[tuple[Claim, Settlement]] = []
        self.claiming_since: float | None = None
        self.doubted = False
        self.suspects: set[int] = set()
        self.looked_at = 0.0
        self.leaving = False

    def start(self) -> None:
        self.process.spawn(self.keep())
        self.process.spawn(self.fetch())
        self.process.spawn(self.keep_settling())
        self.process.spawn(self.run_errands())

    def heard(self, notice: str) -> None:
        if notice == "queue":
            self.wake.set()

    def leave(self) -> None:
        """Everything is put back; then it goes."""
        self.leaving = True
        for running in [*self.held.values()]:
            self.end(running, Released())
        self.process.spawn(self.go())

    async def go(self) -> None:
        until = self.clock() + LEASE
        while self.pending and self.clock() < until:
            await nap(0.2)
        try:
            if self.worker is not None:
                await ask(self.database.leave, self.worker)
        except Away:
            pass
        self.process.end()

    # ── the lease ───────────────────────────────────────────────────────────

    async def keep(self) -> None:
        while True:
            worker = await self.register()
            self.worker = worker
            self.wake.set()
            await self.renew_until_lost(worker)
            self.held_lease = self.worker = None
            self.abandon(worker)

    async def register(self) -> int:
        backoff = Backoff()
        while True:
            asked_at = self.clock()
            try:
                worker = await ask(self.database.register_worker, LEASE)
            except Away:
                self.steady_since = self.clock()
                await nap(backoff.next())
                continue
            self.held_lease = self.lease(asked_at)
            return worker

    def lease(self, asked_at: float) -> Lease:
        return Lease(LEASE, asked_at)

    async def renew_until_lost(self, worker: int) -> None:
        backoff = Backoff()
        failed = False
        lease = self.held_lease
        assert lease is not None
        delay = lease.renew_at(random()) - self.clock()
        while True:
            await nap(max(0.0, delay))
            asked_at, suspensions = self.clock(), self.process.suspensions
            left = lease.trusted_until - asked_at
            if failed and left <= 0:
                return
            try:
                within = min(PATIENCE, left / self.process.rate) if left > 0 else PATIENCE
                renewed = await ask_within(within, self.database.renew, worker)
            except Away:
                failed = True
                self.steady_since = self.clock()
                delay = min(backoff.next(), lease.trusted_until - self.steady_since)
                continue
            if renewed is None:
                return
            failed = False
            backoff.clear()
            self.process.overslept &= suspensions != self.process.suspensions
            self.held_lease = lease = self.lease(asked_at)
            self.shows(worker, lease)
            delay = lease.renew_at(random()) - self.clock()
            for fence in renewed[1]:
                running = self.held.get(fence)
                if running is not None:
                    self.end(running, Cancelled())

    def shows(self, worker: int, lease: Lease) -> None:
        """What it believes now is looked at; one that has left believes nothing."""
        if not self.leaving:
            row, now = self.database.workers.get(worker), self.process.kernel.now
            self.database.watch.trusts(self.process, lease, row, now)

    def abandon(self, worker: int) -> None:
        for running in [*self.held.values()]:
            if running.worker == worker:
                self.end(running, Lost("its worker lost its lease while it ran this attempt"))

    # ── claims ──────────────────────────────────────────────────────────────

    async def fetch(self) -> None:
        backoff = Backoff()
        while not self.leaving:
            self.wake.clear()
            worker = self.worker
            if worker is None or not self.free:
                await wait(self.wake, SETTLE_DOWN)
                continue
            try:
                full = await self.claim(worker)
                backoff.clear()
            except Away:
                self.doubted = True
                await nap(backoff.next())
                continue
            if not full:
                await wait(self.wake, POLL)

    async def claim(self, worker: int) -> bool:
        """As many as there is room for, started; whether there were as many."""
        limit, self.claiming_since = self.free, self.clock()
        self.free = 0
        claims: list[Claim] = []
        try:
            claims = await ask(self.database.claim, worker, limit)
        finally:
            self.free += limit - len(claims)
            self.claiming_since = None
        for claim in claims:
            self.begin(claim, worker)
        return len(claims) == limit

    def begin(self, claim: Claim, worker: int) -> None:
        self.held[claim.fence] = running = Running(claim, worker)
        if worker != self.worker or self.leaving:
            self.end(running, Released())
            return
        length = random() * min(choice(LENGTHS), self.process.kernel.climate.toil)
        self.process.spawn(self.attempt(running, length, choice(OUTCOMES)))

    async def attempt(self, running: Running, length: float, outcome: Outcome) -> None:
        await nap(length)
        if not running.ended:
            lease, database = self.held_lease, self.database
            database.watch.effect(self.process, running.claim, running.worker, lease, database)
            self.end(running, outcome)

    def end(self, running: Running, outcome: Outcome) -> None:
        if not running.ended:
            running.ended = True
            self.free += 1
            self.wake.set()
            self.pending.append((running.claim, decide(running.claim, outcome, RETRY, random())))
            self.something.set()

    # ── settlements ─────────────────────────────────────────────────────────

    async def keep_settling(self) -> None:
        backoff = Backoff()
        while True:
            await wait(self.something, EVER)
            self.something.clear()
            while self.pending:
                try:
                    await self.settle_some()
                    backoff.clear()
                except Away:
                    await nap(backoff.next())

    async def settle_some(self) -> None:
        """The plain successes first, each part once; what got no answer stays for the next time."""
        plain = [claim for claim, settlement in self.pending if settlement is SUCCEEDED]
        if plain:
            ids, fences = [each.id for each in plain], [each.fence for each in plain]
            await ask(self.database.settle_succeeded, ids, fences)
            self.settled(plain)
        rest = [(claim, how) for claim, how in self.pending if how is not SUCCEEDED]
        if rest:
            await ask(self.database.settle, [(each.id, each.fence, how) for each, how in rest])
            self.settled([claim for claim, _ in rest])

    def settled(self, claims: Sequence[Claim]) -> None:
        fences = {claim.fence for claim in claims}
        self.pending = [each for each in self.pending if each[0].fence not in fences]
        for fence in fences:
            self.held.pop(fence, None)

    # ── errands ─────────────────────────────────────────────────────────────

    async def run_errands(self) -> None:
        while True:
            await nap(LEASE / 3)
            try:
                if self.trusted and self.clock() - self.steady_since >= LEASE:
                    await reap.run_once(self.store)
                if self.clock() >= self.looked_at + STRAYS_EVERY:
                    await self.put_back_strays()
            except Away:
                pass

    @property
    def trusted(self) -> bool:
        lease = self.held_lease
        return lease is not None and lease.trusted(self.clock())

    async def put_back_strays(self) -> None:
        """Claims whose answer was lost: what was suspected before, and is not on its way now."""
        now, worker = self.clock(), self.worker
        if worker is None or not (self.suspects or self.doubted):
            return
        older = PATIENCE + STRAYS_EVERY
        found = await ask(self.database.strays, worker, [*self.held], older)
        strays = [(id, fence) for id, fence in found if fence not in self.held]
        if self.claiming_since is not None and self.claiming_since <= self.looked_at:
            return
        certain = [(id, fence, RELEASED) for id, fence in strays if fence in self.suspects]
        self.suspects, self.looked_at = {fence for _, fence in strays}, now
        if certain:
            await ask(self.database.settle, certain)
