"""A node by hand, on a clock of the test's own: it fires what is due, and catches up on demand."""

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

from sexton import Sexton
from sexton.domain.audit import Audit
from sexton.domain.duration import Duration, seconds
from sexton.domain.explain import Explanation
from sexton.domain.fires import LATE_AFTER
from sexton.domain.partition import EVERY
from sexton.flow.backfill import Backfiller
from sexton.flow.decide import decide_late
from sexton.flow.fire import Firer, due_by
from sexton.flow.replace import Replacer
from sexton.flow.rules import Rules
from sexton.store import Line, Store
from sexton.store.connection import Address
from sexton.store.due import Guard
from sexton.testing import ManualClock

START = datetime(2026, 1, 5, 12, 0, 0, 500_000, tzinfo=UTC)  # a Monday
LAG = timedelta(milliseconds=4)
NODE, EPOCH, TERM = 7, 3, 2


class Tower:
    """One node that owns everything and leads; nothing happens unless the test says so."""

    def __init__(self, app: Sexton, clock: ManualClock, store: Store) -> None:
        self.app = app
        self.clock = clock
        self.store = store
        self._rules = Rules(store)
        self._replacer = Replacer(store)
        self._firer = Firer(store, self._rules, self._replacer.note)
        self.begun = clock.now

    async def add(self, name: str = "bell", **options: Any) -> int:
        """A schedule; jobs are never worked on unless the test does, so they may overlap."""
        options.setdefault("overlap", "allow")
        return (await self.app.schedules.add(name, "ring", **options)).id

    async def turn(self, by: Duration) -> None:
        """Let time pass, and fire everything at its time."""
        end = self.clock.now + timedelta(seconds=seconds(by))
        query = """
            select min(next_fire_at) from sexton.due
            where next_fire_at < 'infinity' and not late and next_fire_at > $1"""
        while True:
            # What is as late as that is no longer the node's to fire.
            oldest = self.clock.now - timedelta(seconds=LATE_AFTER)
            due = await self.value(query, oldest)
            if due is None or due + LAG > end:
                break
            self.clock.move_to(max(self.clock.now, due + LAG))
            await self.fire()
        self.clock.move_to(end)

    async def fire(self) -> None:
        guard = Guard(NODE, EPOCH, TERM)
        while True:
            batch, _ = await self._firer.plan(guard, list(EVERY))
            due = due_by(batch, 0, self.clock.now.timestamp())
            if due == 0:
                return
            fired = await self._firer.fire(guard, batch.part(0, due))
            assert fired.moved, "what is due can be fired"
            await self._replacer.ask()

    async def sleep(self, by: Duration) -> None:
        """Let time pass with nobody there to fire anything, and find out."""
        self.clock.advance(by)
        guard = Guard(NODE, EPOCH, TERM)
        await self.store.due.mark_late(guard, list(EVERY), LATE_AFTER, 1000)

    async def catch_up(self) -> None:
        guard = Guard(NODE, None, TERM)
        while rows := await self.store.due.late(1000):
            rules = await self._rules.get(row.rule for row in rows)
            decisions = decide_late(rows, rules, self.clock.now)
            fired = await self._firer.fire(guard, decisions.batch, "catch_up")
            await self._replacer.ask()
            assert fired.moved, "what is late can be caught up"

    async def quarantine(self, schedule: int, why: str) -> None:
        """As if its fire could not be written."""
        stamp = await self.value("select stamp from sexton.due where schedule_id = $1", schedule)
        guard = Guard(NODE, EPOCH, TERM)
        assert await self.store.due.quarantine(guard, schedule, stamp, why)

    async def backfill(self, name: str, from_: datetime, to: datetime) -> int:
        """Fire what was not fired, all at once; returns how many jobs that made."""
        await self.app.schedules.backfill(name, from_, to, rate=10_000)
        fired = 0
        backfiller = Backfiller()
        while await self.store.backfills.under_way(1):
            fired += await backfiller.run_once(self.store, self._rules, Guard(NODE, None, TERM))
        return fired

    async def audit(self, from_: datetime | None = None, **options: Any) -> Audit:
        return await self.app.audit(from_ or self.begun, self.clock.now, **options)

    async def explain(self, at: datetime | str, name: str = "bell") -> Explanation:
        return await self.app.explain(
            name, datetime.fromisoformat(at) if isinstance(at, str) else at
        )

    async def rows(self, query: str, *args: Any) -> list[Any]:
        rows: list[Any] = await self.store.source.fetch(query, *args)
        return rows

    async def value(self, query: str, *args: Any) -> Any:
        return (await self.rows(query, *args))[0][0]


@contextlib.asynccontextmanager
async def tower(database_url: str, start: datetime = START) -> AsyncIterator[Tower]:
    clock = ManualClock(start)
    async with contextlib.AsyncExitStack() as stack:
        app = await stack.enter_async_context(Sexton(database_url, clock=clock))
        line = Line(Address(database_url))
        stack.push_async_callback(line.close)
        held = Tower(app, clock, Store(line, "sexton", clock))
        days = start.date(), start.date() + timedelta(days=3)
        await held.rows("select sexton.make_buckets($1, $2)", *days)
        owns = "insert into sexton.ownership values ($1, $2, $3, $4)"
        await held.rows(owns, NODE, EPOCH, TERM, list(EVERY))
        await held.rows(
            """
            insert into sexton.node (
                id, name, host, pid, version, started_at, renewed_at, lease_until, lease_for)
            overriding system value
            values ($1, 'tower', 'host', 1, 'test', now(), now(), 'infinity', '3s')""",
            NODE,
        )
        leads = "update sexton.leader set node_id = $1, term = $2"
        await held.rows(leads, NODE, TERM)
        yield held


def wrong(found: Audit) -> dict[str, int]:
    """How many violations there are of each kind."""
    names = ("missing", "doubled", "early", "unexpected", "lost")
    return {name: many for name in names if (many := getattr(found, name))}
