"""The firing engine by hand: a node that owns everything and leads, by a manual clock."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import asyncpg

from sexton.domain.fires import LATE_AFTER
from sexton.domain.job import PRIORITIES, Claim
from sexton.domain.outcome import Outcome, Succeeded
from sexton.domain.partition import EVERY
from sexton.domain.retry import Retry
from sexton.domain.transitions import settle
from sexton.flow.catch_up import Governor
from sexton.flow.fire import Firer, due_by
from sexton.flow.let_go import LettingGo
from sexton.flow.replace import Replacer
from sexton.flow.rules import Rules
from sexton.store import Line, Store
from sexton.store.connection import Address
from sexton.store.due import Batch, DueRow, Fired, Guard
from sexton.store.jobs import BEGINNING
from sexton.testing import ManualClock

from . import schedules

NODE = """
insert into sexton.node (
    name, host, pid, version, started_at, renewed_at, lease_until, lease_for)
values ('hands', 'here', 1, 'test', $1, $1, '9999-01-01', interval '3 seconds')
returning id
"""
LEAD = """
update sexton.leader set node_id = $1, term = term + 1, lease_until = 'infinity', elected_at = $2
returning term
"""
OWN = """
insert into sexton.ownership (node_id, epoch, term, partitions)
values ($1, nextval('sexton.epoch'), $2, $3)
on conflict (node_id) do update set epoch = excluded.epoch, partitions = excluded.partitions
returning epoch
"""


class Hands:
    """What a node would do, step by step."""

    def __init__(self, address: Address, stack: contextlib.AsyncExitStack) -> None:
        self.address = address
        self._stack = stack
        self.clock = ManualClock()
        self.store = Store(self.line(), "sexton", self.clock)
        self.replaced: list[int] = []
        self.rules = Rules(self.store)
        self.replacer = Replacer(self.store)
        self.firer = Firer(self.store, self.rules, self._replace)
        self.governor = Governor(self.store, self.rules, self.firer)
        self.worker = 0
        self.node = 0
        self.guard = self.lead = Guard(0, None, 0)

    def line(self) -> Line:
        line = Line(self.address)
        self._stack.push_async_callback(line.close)
        return line

    async def connect(self) -> asyncpg.Connection:
        """Somebody else's connection."""
        connection = await asyncpg.connect(self.address.url)
        self._stack.callback(connection.terminate)
        return connection

    async def join(self) -> None:
        """As a node with every partition, which leads; and as a worker with a long lease."""
        self.worker = await self.store.workers.register("hands", ["default"], "test", 3600.0)
        self.node = (await self.rows(NODE, self.now))[0][0]
        await self.elect()
        await self.own()
        await self.store.history.make_buckets()

    async def elect(self) -> Guard:
        """Lead, in a term that nobody has had."""
        term = (await self.rows(LEAD, self.node, self.now))[0][0]
        self.lead = Guard(self.node, None, term)
        return self.lead

    async def own(self, partitions: Sequence[int] = EVERY) -> Guard:
        """Own these and no others, in an epoch that nobody has had."""
        epoch = (await self.rows(OWN, self.node, self.lead.term, list(partitions)))[0][0]
        self.guard = Guard(self.node, epoch, self.lead.term)
        return self.guard

    def _replace(self, jobs: Sequence[int]) -> None:
        self.replaced += jobs
        self.replacer.note(jobs)

    # ── time ────────────────────────────────────────────────────────────────

    @property
    def now(self) -> datetime:
        return self.clock.now

    def at(self, seconds: float) -> datetime:
        """So many seconds from now."""
        return self.now + timedelta(seconds=seconds)

    # ── firing ──────────────────────────────────────────────────────────────

    async def add(self, first: datetime, **given: Any) -> int:
        [id] = await schedules.add(self.store.source, first, **given)
        return id

    async def read(self) -> list[DueRow]:
        return await self.store.due.due(EVERY, ahead=0.5, late=10.0, each=100)

    async def plan(self) -> Batch:
        batch, _ = await self.firer.plan(self.guard, EVERY)
        return batch

    async def fire(self) -> Fired:
        """Everything that is due by now."""
        batch = await self.plan()
        fired = await self.firer.fire(
            self.guard, batch.part(0, due_by(batch, 0, self.now.timestamp()))
        )
        await self.replacer.ask()
        return fired

    async def let_go(self) -> int:
        """Everybody who waits for a job that is no more; returns how many."""
        return await LettingGo(self.store).run_once()

    async def catch_up(self, rate: float = 1000.0) -> None:
        """Everything that is late, at this rate."""
        await self.set_rate(rate)
        while await self.governor.run_once(self.lead):
            await self.replacer.ask()
            await asyncio.sleep(0.01)  # the governor's own rhythm

    async def set_rate(self, rate: float | None) -> None:
        """As an operator would, and a leader that has just been elected reads it."""
        await self.rows("update sexton.installation set catch_up_rate = $1", rate)
        await self.elect()

    async def mark_late(self) -> int:
        return await self.store.due.mark_late(self.guard, EVERY, LATE_AFTER, 1000)

    async def fire_until(self, instant: datetime, step: float = 1.0) -> int:
        """Time goes by, and whatever falls due is fired; returns how many jobs that made."""
        jobs = 0
        while self.now < instant:
            self.clock.advance(min(step, (instant - self.now).total_seconds()))
            jobs += (await self.fire()).jobs
        return jobs

    # ── the worker ──────────────────────────────────────────────────────────

    async def claim(self, worker: int | None = None) -> list[Claim]:
        """Start every job that is due, oldest first."""
        lanes = list(PRIORITIES)
        claims = await self.store.jobs.claim(
            *("default", 1000, worker or self.worker, lanes, [BEGINNING] * len(lanes))
        )
        return sorted(claims, key=lambda claim: claim.id)

    async def end(self, claim: Claim, outcome: Outcome | None = None, tries: int = 1) -> bool:
        settlement = settle(
            outcome or Succeeded('"x"'),
            tries=claim.tries,
            retry=Retry(max_attempts=tries),
            expires_in=None,
            noise=1.0,
        )
        return claim.id in await self.store.jobs.settle([(claim.id, claim.fence, settlement)])

    # ── looking ─────────────────────────────────────────────────────────────

    async def rows(self, query: str, *args: Any) -> list[Any]:
        return await self.store.source.fetch(query, *args)

    async def value(self, query: str, *args: Any) -> Any:
        return (await self.rows(query, *args))[0][0]

    async def due(self, id: int) -> Any:
        return (await self.rows("select * from sexton.due where schedule_id = $1", id))[0]

    async def schedule(self, id: int) -> Any:
        return (await self.rows("select * from sexton.schedule where id = $1", id))[0]

    async def ledger(self, id: int) -> list[tuple[float, str, str]]:
        """Every decision: how many seconds from now its fire was, what, and of which kind."""
        rows = await self.rows(
            "select fire_at, decision::text, kind::text from sexton.fire "
            "where schedule_id = $1 order by fire_at",
            id,
        )
        return [((at - self.now).total_seconds(), decision, kind) for at, decision, kind in rows]

    async def decisions(self, id: int) -> list[str]:
        return [decision for _, decision, _ in await self.ledger(id)]

    async def gaps(self, id: int) -> list[tuple[float, float, int | None, str]]:
        rows = await self.rows(
            "select first_at, last_at, fires, decision::text from sexton.gap "
            "where schedule_id = $1 order by first_at",
            id,
        )
        return [
            ((first - self.now).total_seconds(), (last - self.now).total_seconds(), fires, why)
            for first, last, fires, why in rows
        ]

    async def jobs(self, id: int) -> list[Any]:
        """Those that live, oldest first."""
        return await self.rows("select * from sexton.job where schedule_id = $1 order by id", id)


@contextlib.asynccontextmanager
async def hands(address: Address) -> AsyncIterator[Hands]:
    async with contextlib.AsyncExitStack() as stack:
        held = Hands(address, stack)
        await held.join()
        yield held
