"""A process that fires schedules: a node of the cluster."""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import compress
from typing import Any

from sexton import __version__
from sexton.cluster.member import Member, Owned
from sexton.domain.fires import LATE_AFTER
from sexton.errors import Unavailable
from sexton.flow import prune
from sexton.flow.catch_up import Governor
from sexton.flow.fire import AHEAD, LOCKED_FOR, READ, Firer, due_by
from sexton.flow.keep import Backoff, keep_doing, wait
from sexton.flow.let_go import LettingGo
from sexton.flow.meters import LAG, Histogram
from sexton.flow.outage import Outage
from sexton.flow.replace import Replacer
from sexton.flow.rules import Rules
from sexton.flow.spans import Spans
from sexton.flow.wake import Listener
from sexton.settings import Settings
from sexton.store import Line, Store, close_all
from sexton.store.connection import Address, is_transient
from sexton.store.due import Batch, Fired, Guard

log = logging.getLogger("sexton.scheduler")

CHANGED = "schedule"  # what the notification of a change says
# Many changes at once are looked at together.
GATHER_FOR = 0.005
# A timer may be early, and so may what is known of the database's clock.
MARGIN = 0.0005
SOONEST = 0.001
MARK_LATE_EVERY = 1.0
CATCH_UP_EVERY = 0.05
LOOK_FOR_LATE_EVERY = 1.0
MEASURE_EVERY = 10.0
LET_GO_EVERY = 2.0
ASK_WITHIN = 2.0  # on its way out
PRUNE_EVERY = 600.0
# Fires wait for nobody else: when PostgreSQL is back, that is found out soon.
LONGEST_BACKOFF = 0.5
# A loop that has not come round for so long, and a poll, is stuck or fails all the time.
STUCK_AFTER = 30.0


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """What a probe of a node wants to know."""

    node: int | None
    term: int | None
    leads: bool
    partitions: int
    postgresql: bool
    notifications: bool
    turning: bool
    fired: int
    last_fire_at: datetime | None
    stopping: bool

    @property
    def ready(self) -> bool:
        """It can fire, and does."""
        return self.node is not None and self.postgresql and self.turning and not self.stopping


class Scheduler:
    """Fires the schedules of its partitions; as the leader, also what is late."""

    def __init__(
        self,
        *,
        address: Address,
        listen: Address | None,
        settings: Settings,
        name: str | None = None,
        revive: Callable[[], None] | None = None,
        errands: Sequence[
            tuple[str, float, Callable[[Store, Rules, Guard], Awaitable[object]]]
        ] = (),
        spans: Spans | None = None,
    ) -> None:
        self._spans = spans
        self.fire_lag = Histogram(LAG)  # from fire_at to the committed job
        self._settings = settings
        self._address = address
        self._revive = revive
        self._errands = errands
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        # Whatever takes long on one of them, firing waits for nobody but itself.
        self._lines = [Line(address) for _ in range(5)]
        stores = (Store(line, settings.schema) for line in self._lines)
        firing, catching, keeping, aside, asking = stores
        self._firing, self._store = firing, keeping
        self._outage = Outage()
        self._rules = Rules(aside)  # which firing needs while it runs
        self._replacer = Replacer(asking)
        self._letting_go = LettingGo(keeping)
        self.firer = Firer(firing, self._rules, self._replacer.note)
        self._catching = Firer(catching, self._rules, self._replacer.note)
        self.governor = Governor(catching, self._rules, self._catching)
        self._stop = asyncio.Event()
        self._wake = asyncio.Event()
        self._turned_at = time.monotonic()
        self._refused = 0  # batches in a row of which nothing was fired
        self.started = asyncio.Event()  # it owns partitions, or has been told that others own all
        self._listener = Listener(listen, settings.schema, self._heard, address) if listen else None
        self.member = Member(
            address,
            settings.schema,
            name=self.name,
            version=__version__,
            lease=settings.node_lease,
            listen=listen,
            on_change=self._owned_changed,
            report=lambda: (self.firer.fired, self.firer.last_fire_at),
        )

    # ── life ────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Fire until `stop`; then hand everything over and leave."""
        self.member.start()
        log.info("node %s fires schedules at %s", self.name, self._address)
        running = [asyncio.create_task(each) for each in self._loops()]
        firing = asyncio.create_task(self._keep_firing())
        try:
            await self._stop.wait()
        finally:
            self._stop.set()
            self._wake.set()
            # What is being written is let finish; the others begin after it.
            await asyncio.gather(firing, return_exceptions=True)
            await self.member.leave()
            # Its partitions are others' by now; whom it does not ask any more, the leader asks.
            with suppress(Exception):
                async with asyncio.timeout(ASK_WITHIN):
                    await self._replacer.ask()
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await close_all(self._lines)
            log.info("node %s left after %d fires", self.name, self.firer.fired)

    def stop(self) -> None:
        self._stop.set()
        self._wake.set()

    def _loops(self) -> list[Coroutine[Any, Any, None]]:
        loops: list[tuple[str, Callable[[], Awaitable[object]], float]] = [
            ("marking what is late", self._mark_late, MARK_LATE_EVERY),
            ("letting jobs go", self._let_go, LET_GO_EVERY),
            ("asking jobs that are replaced", self._replace, 0.0),
            ("asking jobs that others replaced", self._replace_the_rest, LET_GO_EVERY),
            ("measuring", self._measure, MEASURE_EVERY),
            ("pruning", lambda: prune.run_once(self._store), PRUNE_EVERY),
        ]
        for name, every, errand in self._errands:
            loops.append((name, self._as_leader(errand), every))
        if self._revive is not None:
            loops.append(("reviving PostgreSQL", self._revive_server, 2.0))
        kept = [keep_doing(n, step, every=s, stop=self._stop, log=log) for n, step, s in loops]
        kept.append(self._keep_catching_up())
        return kept if self._listener is None else [*kept, self._listener.run(self._stop)]

    @property
    def firers(self) -> tuple[Firer, ...]:
        """Those who count fires here: at their time, and what is late."""
        return (self.firer, self._catching)

    @property
    def health(self) -> NodeHealth:
        owned = self.member.owned
        return NodeHealth(
            node=None if owned is None else owned.node,
            term=None if owned is None else owned.term,
            leads=self.member.leads,
            partitions=0 if owned is None else len(owned.partitions),
            postgresql=not self._outage.lasting,
            notifications=self._listener is not None and self._listener.hears,
            turning=time.monotonic() - self._turned_at < STUCK_AFTER + self._settings.poll,
            fired=self.firer.fired,
            last_fire_at=self.firer.last_fire_at,
            stopping=self._stop.is_set(),
        )

    # ── firing ──────────────────────────────────────────────────────────────

    async def _keep_firing(self) -> None:
        backoff = Backoff(LONGEST_BACKOFF)
        while not self._stop.is_set():
            owned = self.member.owned
            try:
                if owned is None or not owned.partitions:
                    self._turned_at = time.monotonic()
                    self._wake.clear()
                    await wait(self._wake, self._settings.poll)
                    continue
                await self._round(owned)
                self._turned_at = time.monotonic()
                self._outage.over()
                backoff.clear()
            except Unavailable as error:
                self._outage.lost(error)
                await wait(self._stop, backoff.next())
            except Exception as error:
                if not is_transient(error):
                    log.exception("firing failed and will be tried again")
                await wait(self._stop, backoff.next())

    async def _round(self, owned: Owned) -> None:
        """Read what is due soon, and fire each when its instant has come."""
        if self._wake.is_set():
            await wait(self._stop, GATHER_FOR)
        self._wake.clear()
        guard = Guard(owned.node, owned.epoch, owned.term)
        batch, more = await self.firer.plan(guard, owned.partitions)
        first = 0
        while first < len(batch) and not self._stop.is_set():
            if self.member.owned != owned:
                return
            now = self.member.database_now().timestamp()
            end = due_by(batch, first, now)
            if end > first:
                part = batch if end - first == len(batch) else batch.part(first, end)
                fired = await self.firer.fire(guard, part)
                self._measure_lag(part, fired, now)
                first = end
                self._refused = 0 if fired.moved else self._refused + 1
                if fired.moved < len(part):
                    # Somebody changed one of them, or it is not yet time by the database's clock;
                    # or all of them belong to somebody else, and we are about to hear of it.
                    soon = SOONEST * 2 ** max(0, min(self._refused, 8) - 1)
                    await wait(self._wake if self._refused else self._stop, soon)
                    return
                if first < len(batch) and part.again_at < batch.were_due[-1]:
                    return  # one of them is due again before the last of these
            elif (more and first) or await wait(self._wake, batch.were_due[first] - now + MARGIN):
                return  # something has changed, or what was not read may be due before this
        if not batch and self.firer.held_up:
            await wait(self._wake, LOCKED_FOR)
        elif not batch:
            await self._sleep(owned)

    def _measure_lag(self, part: Batch, fired: Fired, began: float) -> None:
        if not fired.jobs:
            return
        now = self.member.database_now().timestamp()
        self.fire_lag.add_all([now - at for at in compress(part.fires_at, part.firing)])
        if self._spans is not None:
            self._spans.fired("due", part.fires_at, fired.jobs, time.time() - (now - began))

    async def _sleep(self, owned: Owned) -> None:
        """Until shortly before the next is due, or something has changed."""
        poll = self._settings.poll
        due_in = await self._firing.due.next_in(owned.partitions, within=poll + AHEAD)
        delay = poll if due_in is None else min(poll, due_in - AHEAD + MARGIN)
        if delay > 0:
            await wait(self._wake, delay)

    def _owned_changed(self, owned: Owned | None) -> None:
        if owned is not None:
            self.started.set()
        self._refused = 0
        self._wake.set()

    def _heard(self, payload: str | None) -> None:
        if payload is None or payload == CHANGED:
            self._wake.set()

    # ── what is late, and other errands ─────────────────────────────────────

    async def _mark_late(self) -> None:
        while (owned := self.member.owned) is not None and owned.partitions:
            guard = Guard(owned.node, owned.epoch, owned.term)
            each = max(4, READ // len(owned.partitions))
            marked = await self._store.due.mark_late(guard, owned.partitions, LATE_AFTER, each)
            if not marked:
                return
            log.info("%d schedules are late by more than %g s", marked, LATE_AFTER)

    def _leading(self) -> Guard | None:
        """As whom the leader acts; None on every other node."""
        owned, term = self.member.owned, self.member.leads_in
        return None if owned is None or term is None else Guard(owned.node, None, term)

    async def _keep_catching_up(self) -> None:
        async def step() -> None:
            guard = self._leading()
            while guard is not None and await self.governor.run_once(guard):
                await wait(self._stop, CATCH_UP_EVERY)
                guard = None if self._stop.is_set() else self._leading()

        await keep_doing("catching up", step, every=LOOK_FOR_LATE_EVERY, stop=self._stop, log=log)

    def _as_leader(
        self, errand: Callable[[Store, Rules, Guard], Awaitable[object]]
    ) -> Callable[[], Awaitable[object]]:
        async def step() -> None:
            guard = self._leading()
            if guard is not None:
                await errand(self._store, self._rules, guard)

        return step

    async def _measure(self) -> None:
        if self._leading() is not None:
            await self.governor.measure()

    async def _let_go(self) -> None:
        if self._leading() is not None:
            await self._letting_go.run_once()

    async def _replace(self) -> None:
        if await wait(self._replacer.wake, self._settings.poll):
            await self._replacer.ask()

    async def _replace_the_rest(self) -> None:
        if self._leading() is not None:
            await self._replacer.ask_the_rest()

    async def _revive_server(self) -> None:
        if self._outage.lasting and self._revive is not None:
            await asyncio.to_thread(self._revive)
