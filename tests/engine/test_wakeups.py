"""Wake-ups: nothing fails for want of one, and one that is lost costs little."""

import asyncio
import contextlib
import itertools
import os
import time
from collections.abc import Iterator

import asyncpg
import pytest

from sexton import Sexton
from sexton.flow.claim import LOOK_AGAIN, SLACK, Claimer
from sexton.store.connection import Address

from ..support import postgres
from ..support.hands import hands
from ..support.postgres import Postgres
from .test_worker import working


@pytest.fixture
def small_queue(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database whose server has room for few notifications."""
    if os.environ.get("TEST_POSTGRES", "18") in ("15", "16"):
        pytest.skip("before PostgreSQL 17 the queue is of 8 GB")
    monkeypatch.setitem(postgres.QUICK, "max_notify_queue_pages", "64")
    with Postgres.running() as server:
        yield server.create_database("small")


async def test_a_full_queue_of_notifications_fails_no_enqueue(small_queue: str) -> None:
    app = Sexton(small_queue, lease=30, grace=0)

    @app.task
    async def t() -> None: ...

    async with working(app):
        other = await asyncpg.connect(small_queue)
        while not await other.fetchval("select count(*) from sexton.worker where idle <> '{}'"):
            await asyncio.sleep(0.02)
        deaf = await asyncpg.connect(small_queue)
        await deaf.execute("listen anything")
        await deaf.execute("begin; select 1")
        with contextlib.suppress(asyncpg.ProgramLimitExceededError):
            while True:
                await other.execute(
                    "select pg_notify('x', repeat('x', 7000) || n) from generate_series(1, 10) n"
                )
        await other.execute("update sexton.worker set idle = '{default}'")
        assert (await t.enqueue()).id
        assert (await t.enqueue(key="a")).id
        assert (await app.enqueue("t")).id
        assert (await app.enqueue("u", queue="default")).id
        assert len(await app.enqueue_many([t.call(), t.call().options(key="b")])) == 2
        assert len(await app.enqueue_many([t.call()], connection=other)) == 1
        assert await other.fetchval("select id from sexton.enqueue('t')")
        deaf.terminate()
        await other.close()


async def test_a_worker_that_listens_to_another_database_says_so(
    server: Postgres, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = Sexton(database_url, lease=5, grace=0, listen_url=server.url("postgres"))

    @app.task
    async def t() -> None: ...

    async with working(app) as worker, asyncio.timeout(20):
        while "or another database?" not in caplog.text:
            await asyncio.sleep(0.02)
        assert not worker.health.notifications


async def test_who_has_just_gone_idle_looks_again_soon_and_then_less_and_less(
    address: Address,
) -> None:
    async with hands(address) as worker:
        claimer = Claimer(worker.store, "default", [], [])
        assert await claimer.next_due_in() is None
        looks = []
        for _ in range(5):
            assert not await claimer.run_once(10, worker.worker)
            looks.append(await claimer.next_due_in())
        assert looks == [LOOK_AGAIN * factor for factor in (1, 2, 4, 8, 16)]
        await worker.enqueue()
        assert await claimer.run_once(10, worker.worker)
        assert await claimer.next_due_in() is None


async def test_a_job_committed_while_the_worker_fell_asleep_is_not_left_to_the_poll(
    database_url: str,
) -> None:
    app = Sexton(database_url, lease=60, poll=60, grace=0)
    began: dict[int, float] = {}

    @app.task
    async def t(n: int) -> None:
        began[n] = time.monotonic()

    connection = await asyncpg.connect(database_url)
    idle = "select count(*) from sexton.worker where idle <> '{}'"
    async with working(app), asyncio.timeout(30):
        await t.enqueue(-1)
        while -1 not in began:
            await asyncio.sleep(0.005)
        # Nobody sleeps yet, so this carries no notification; its commit comes after.
        await connection.execute("update sexton.worker set idle = '{}'")
        transaction = connection.transaction()
        await transaction.start()
        await t.enqueue(0, connection=connection)
        other = await asyncpg.connect(database_url)
        while not await other.fetchval(idle):
            await asyncio.sleep(0.01)
        await other.close()
        await transaction.commit()
        committed = time.monotonic()
        while 0 not in began:
            await asyncio.sleep(0.005)
    await connection.close()
    assert began[0] - committed < 10


@pytest.mark.parametrize("limit", [None, 100])
async def test_a_job_whose_transaction_was_overtaken_is_found_by_the_worker_that_has_gone_past_it(
    database_url: str, limit: int | None
) -> None:
    """Nobody else is there to find it, and what comes after it is found without it."""
    app = Sexton(database_url, lease=60, poll=0.2, grace=0)
    began: set[int] = set()

    @app.task(max_running=limit)
    async def t(n: int) -> None:
        began.add(n)

    async def run(n: int) -> None:
        await t.enqueue(n)
        while n not in began:
            await asyncio.sleep(0.005)

    connection = await asyncpg.connect(database_url)
    async with working(app), asyncio.timeout(60):
        async with connection.transaction():
            await t.enqueue(-1, connection=connection)
            passed = time.monotonic() + 4 * SLACK
            for n in itertools.count():
                await run(n)
                if time.monotonic() > passed:
                    break
        while -1 not in began:
            await asyncio.sleep(0.005)
    await connection.close()
