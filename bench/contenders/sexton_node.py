"""Sexton as a node, or as a worker for what nodes fire; everything as it comes."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg

from bench.contenders.agent import arguments, main
from bench.contenders.firing import FiringAgent, clock_offset
from sexton import Job, Sexton
from sexton.domain.partition import EVERY
from sexton.flow.fire import Firer
from sexton.flow.rules import Rules
from sexton.flow.scheduler import Scheduler
from sexton.store import Line, Store
from sexton.store.due import Batch, Fired, Guard

CONCURRENCY = 500
BATCH = 20_000  # schedules in a transaction
WARM_UP = 5  # wake-ups, for plans and caches
# An owner that no node is, so that one process can wake up by hand.
BY_HAND = Guard(node=1_000_000, epoch=0, term=0)


@dataclass(frozen=True)
class Kind:
    """So many schedules that say the same."""

    count: int
    when: dict[str, Any] = field(default_factory=dict)


def daily(at: datetime) -> str:
    return f"{at.second} {at.minute} {at.hour} * * *"


def quiet(count: int, now: datetime) -> list[Kind]:
    """Daily ones, each minute's alike, none of them within the next two hours."""
    first = now.replace(second=0, microsecond=0) + timedelta(hours=2)
    minutes = 20 * 60
    return [
        Kind(len(range(n, count, minutes)), {"cron": daily(first + timedelta(minutes=n))})
        for n in range(min(count, minutes))
    ]


def busy(fires_a_minute: int, now: datetime) -> list[Kind]:
    """Half crons, half intervals of 30 s to 5 minutes, evenly over the seconds."""
    start = now.replace(microsecond=0)
    kinds = [
        Kind(math.ceil(fires_a_minute / 120), {"cron": f"{second} * * * * *"})
        for second in range(60)
    ]
    for every, share in ((60, 4), (30, 8), (300, 8)):
        each = math.ceil(fires_a_minute / share / 60)
        kinds += [
            Kind(each, {"every": every, "anchor": start + timedelta(seconds=n)})
            for n in range(every)
        ]
    return kinds


class SextonNode(FiringAgent):
    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.app = Sexton(database_url=url)
        self.starts: list[tuple[int, float]] = []
        self.scheduler: Scheduler | None = None
        self.up = asyncio.Event()

        @self.app.task(queue="bench")
        async def noop(job: Job, n: int, pad: str) -> None:
            self.starts.append((job.id, self.now()))

        self.noop = noop

    async def setup(self) -> None:
        await self.app.migrate()
        await self.app.declare()

    async def open(self) -> None:
        await self.app.__aenter__()
        connection = await asyncpg.connect(self.url)
        self.offset = await clock_offset(connection)
        await connection.close()

    # ── schedules ───────────────────────────────────────────────────────────

    async def crowd(self, count: int, at: float) -> None:
        cron = daily(datetime.fromtimestamp(at, UTC))
        await self.add("crowd", [Kind(count, {"cron": cron})])

    async def add(self, name: str, kinds: Iterable[Kind]) -> None:
        numbers = itertools.count()
        spec, call = self.app.schedules.spec, self.noop.call
        specs = (
            spec(f"{name} {n}", call(**arguments(n)), **kind.when)
            for kind in kinds
            for n in itertools.islice(numbers, kind.count)
        )
        await self.app.schedules.add_many(specs, batch=BATCH)

    # ── a node, a worker ────────────────────────────────────────────────────

    async def fire(self) -> None:
        self.scheduler = scheduler = await self.app.scheduler()
        firer = scheduler.firer
        write = firer.fire

        async def noted(guard: Guard, batch: Batch, *more: Any) -> Fired:
            before = len(self.committed)
            fired = await write(guard, batch, *more)
            if len(self.committed) == before:  # else its parts were noted, one by one
                self.fired(batch.fires_at[: fired.moved])  # oldest first; others are not yet due
            return fired

        setattr(firer, "fire", noted)  # noqa: B010 - a method is what it replaces
        running = asyncio.create_task(scheduler.run())
        try:
            await scheduler.started.wait()
            self.up.set()
            await asyncio.shield(running)
        finally:
            scheduler.stop()
            await running

    async def ready(self) -> None:
        await self.up.wait()

    async def work(self) -> None:
        worker = await self.app.worker({"bench": CONCURRENCY})
        running = asyncio.create_task(worker.run())
        try:
            await asyncio.shield(running)
        finally:
            worker.stop()
            await running

    async def other(self, do: str, ask: dict[str, Any]) -> dict[str, Any]:
        now = datetime.fromtimestamp(self.now(), UTC)
        match do:
            case "quiet":
                began = time.monotonic()
                await self.add("quiet", quiet(ask["count"], now))
                return {"seconds": time.monotonic() - began}
            case "busy":
                kinds = busy(ask["fires_a_minute"], now)
                await self.add("busy", kinds)
                return {"count": sum(kind.count for kind in kinds)}
            case "beat":
                when = {"every": ask["every"], "anchor": now.replace(microsecond=0)}
                await self.add("beat", [Kind(ask["count"], {**when, "overlap": "allow"})])
            case "wake":
                return {"seconds": await self.wake_ups(ask["times"], ask["due"])}
            case "starts":
                return {"starts": self.starts}
            case _:
                return await super().other(do, ask)
        return {}

    # ── waking up by hand ───────────────────────────────────────────────────

    async def wake_ups(self, times: int, due: int) -> list[float]:
        """Seconds of all that a node asks the database in one round, `due` schedules to fire."""
        client = await self.app.client()
        line = Line(client.address)
        store = Store(line, self.app.settings.schema)
        firer = Firer(store, Rules(store), self.replace_none)
        await self.own(list(EVERY))
        try:
            return [
                await (self.fire_some(firer, due) if due else self.find_none(firer, store))
                for _ in range(WARM_UP + times)
            ][WARM_UP:]
        finally:
            await self.own(None)
            await line.close()

    async def own(self, partitions: list[int] | None) -> None:
        connection = await asyncpg.connect(self.url)
        if partitions is None:
            query = "delete from sexton.ownership where node_id = $1"
            await connection.execute(query, BY_HAND.node)
        else:
            await connection.execute(
                "insert into sexton.ownership (node_id, epoch, term, partitions)"
                " values ($1, $2, $3, $4)",
                *(BY_HAND.node, BY_HAND.epoch, BY_HAND.term, partitions),
            )
        await connection.close()

    async def find_none(self, firer: Firer, store: Store) -> float:
        began = time.perf_counter()
        batch, _ = await firer.plan(BY_HAND, EVERY)
        await store.due.next_in(EVERY, within=5.5)
        took = time.perf_counter() - began
        if batch:
            raise RuntimeError(f"{len(batch)} schedules are due, and none should be")
        return took

    async def fire_some(self, firer: Firer, due: int) -> float:
        while True:
            began = time.perf_counter()
            batch, _ = await firer.plan(BY_HAND, EVERY)
            took = time.perf_counter() - began
            if len(batch) != due:
                raise RuntimeError(f"{len(batch)} schedules are due, not {due}")
            await asyncio.sleep(max(0.0, batch.were_due[-1] - self.now() + 0.001))
            began = time.perf_counter()
            fired = await firer.fire(BY_HAND, batch)
            if fired.jobs == due:
                return took + time.perf_counter() - began

    def replace_none(self, jobs: Sequence[int]) -> None:
        """No schedule here replaces its jobs."""

    async def close(self) -> None:
        await super().close()
        await self.app.__aexit__(None, None, None)


if __name__ == "__main__":
    main(SextonNode)
