"""The buckets of the history: made by many at once, dropped without standing in anyone's way."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from sexton.domain.outcome import Succeeded
from sexton.flow import prune
from sexton.store import Line, Store
from sexton.store.connection import Address
from sexton.store.migrations import migrate
from sexton.store.statements import DAYS_AHEAD

from ..support.hands import Hands, hands
from .test_claim import At

# A waiting DROP holds up whoever comes after it for its lock_timeout of 0.2 s; not for longer.
BRIEFLY = 20.0


@asynccontextmanager
async def transaction(address: Address, statement: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody whose transaction stays open, with the locks of this statement."""
    connection = await asyncpg.connect(address.url)
    try:
        async with connection.transaction():
            await connection.execute(statement)
            yield connection
    finally:
        await connection.close()


async def buckets(worker: Hands, schema: str = "sexton") -> list[str]:
    rows = await worker.rows(
        "select relname::text from pg_inherits join pg_class on pg_class.oid = inhrelid "
        "where inhparent = to_regclass($1) order by relname",
        f"{schema}.attempt",
    )
    return [row[0] for row in rows]


async def settle_one(worker: Hands) -> float:
    """How long a settlement took."""
    await worker.enqueue()
    [claim] = await worker.claim()
    began = time.monotonic()
    assert await worker.settle(claim, Succeeded())
    return time.monotonic() - began


@pytest.mark.parametrize(
    "reads",
    ["select count(*) from sexton.attempt", "select count(*) from sexton.attempt_20200102"],
    ids=["all of the history", "one bucket"],
)
async def test_a_reader_keeps_a_bucket_from_being_dropped_and_nobody_waits_for_it(
    address: Address, reads: str
) -> None:
    async with hands(address) as worker, hands(address) as pruner:
        await pruner.rows("select sexton.make_buckets('2020-01-01', '2020-01-03')")
        async with transaction(address, reads) as reader:
            dropping = asyncio.create_task(pruner.store.history.drop_bucket())
            waits = [await settle_one(worker) for _ in range(20)]
            assert await dropping in (None, "attempt_20200101")
            waits.append(await settle_one(worker))
            assert max(waits) < BRIEFLY
            assert await reader.fetchval("select count(*) from sexton.attempt_20200102") == 0
        left = await buckets(pruner)
        assert "attempt_20200102" in left
        while await pruner.store.history.drop_bucket():
            pass
        assert [name for name in await buckets(pruner) if name < "attempt_2021"] == []


async def test_settlements_and_claims_go_on_in_a_transaction_that_settled_and_stays_open(
    address: Address,
) -> None:
    """A task's own transaction holds the history open for writing while buckets come and go."""
    async with hands(address) as worker, hands(address) as pruner:
        await worker.enqueue()
        [claim] = await worker.claim()
        await pruner.rows("select sexton.make_buckets('2020-01-01', '2020-01-01')")
        settling = f"select sexton.succeed({claim.id}, {claim.fence})"
        async with transaction(address, settling):
            await prune.run_once(pruner.store)
            assert "attempt_20200101" in await buckets(pruner), "left for the next time"
            assert await pruner.value("select sexton.make_buckets('2020-02-01', '2020-02-03')") == 3
            assert await settle_one(worker) < BRIEFLY
        await prune.run_once(pruner.store)
        assert [name for name in await buckets(pruner) if name < "attempt_2021"] == []


async def test_buckets_are_made_under_readers_and_writers_without_waiting(
    address: Address,
) -> None:
    async with (
        hands(address) as worker,
        transaction(address, "select count(*) from sexton.attempt"),
        asyncio.timeout(BRIEFLY),
    ):
        assert await worker.value("select sexton.make_buckets('2031-01-01', '2031-01-09')") == 9


async def test_many_processes_that_want_the_same_buckets_make_each_once(address: Address) -> None:
    clock = At()
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(hands(address, clock=clock)) for _ in range(10)]
        made = await asyncio.gather(*(each.store.history.make_buckets() for each in workers))
        assert sum(made) == DAYS_AHEAD + 2, "yesterday, today, and the days ahead"
        today = clock.now.date()
        wanted = [today + timedelta(days=day) for day in range(-1, DAYS_AHEAD + 1)]
        assert set(await buckets(workers[0])) >= {f"attempt_{day:%Y%m%d}" for day in wanted}


async def test_many_settlements_that_miss_their_bucket_at_once_are_all_recorded(
    address: Address,
) -> None:
    clock = At()
    clock.now = clock.now.replace(year=2036)
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(hands(address, clock=clock)) for _ in range(6)]
        await asyncio.gather(*(settle_one(each) for each in workers))
        assert await workers[0].value("select count(*) from sexton.attempt") == 6


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/Los_Angeles"])
async def test_a_settlement_falls_into_the_day_it_ended_on_whatever_the_time_zone(
    address: Address, zone: str
) -> None:
    clock = At()
    await set_zone(address, zone)
    async with hands(address, clock=clock, lease=3600) as worker:
        await worker.store.history.make_buckets()
        for _ in range(3):
            await worker.enqueue()
        for moment in ("23:59:59.999999", "00:00:00", "00:00:00.000001"):
            clock.now = datetime(2030, 1, 1, 23, 59, 58, tzinfo=UTC)
            [claim] = await worker.claim()
            day = 1 if moment.startswith("23") else 2
            clock.now = datetime.fromisoformat(f"2030-01-0{day}T{moment}+00:00")
            assert await worker.settle(claim, Succeeded())
        rows = await worker.rows(
            "select tableoid::regclass::text from sexton.attempt order by finished_at"
        )
    assert [row[0] for row in rows] == [
        "sexton.attempt_20300101",
        "sexton.attempt_20300102",
        "sexton.attempt_20300102",
    ]


async def test_no_day_is_left_out_where_midnight_is_skipped_for_summer(address: Address) -> None:
    await set_zone(address, "Africa/Cairo")
    clock = At()
    clock.now = datetime(2030, 4, 24, tzinfo=UTC)  # on the 26th the clocks go from 0:00 to 1:00
    async with hands(address, clock=clock) as worker:
        assert await worker.store.history.make_buckets() == DAYS_AHEAD + 2
        assert "attempt_20300501" in await buckets(worker)


async def set_zone(address: Address, zone: str) -> None:
    connection = await asyncpg.connect(address.url)
    database = await connection.fetchval("select current_database()")
    await connection.execute(f"alter database {database} set timezone = '{zone}'")
    await connection.close()


async def test_each_installation_keeps_its_history_for_as_long_as_it_says(
    address: Address,
) -> None:
    clock = At()
    await migrate(address, "other")
    line = Line(address)
    try:
        async with hands(address, clock=clock) as worker:
            other = Store(line, "other", clock)
            await worker.store.history.set_retention(10 * 86400, None, False)
            await other.history.set_retention(3 * 86400, None, False)
            for schema in ("sexton", "other"):
                await worker.rows(f"select {schema}.make_buckets('2029-12-01', '2030-01-01')")
            await prune.run_once(worker.store)
            await prune.run_once(other)
            oldest = [min(await buckets(worker, schema)) for schema in ("sexton", "other")]
    finally:
        await line.close()
    assert oldest == ["attempt_20291222", "attempt_20291229"]
