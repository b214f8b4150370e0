"""A transaction pooler in front: nothing of ours may depend on a session."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import asyncpg
import pytest

from sexton import Job, Retry, Sexton
from sexton.errors import ConfigurationError
from sexton.store.connection import Address
from sexton.store.pool import Pool

from ..engine.test_worker import ended, working
from ..support.pooler import PGBOUNCER, TransactionPooler, pgbouncer
from ..support.postgres import Postgres
from ..support.processes import until

absent = pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed")
kinds = pytest.mark.parametrize(
    "kind", ["another backend each time", pytest.param("pgbouncer", marks=absent)]
)


def name_of(url: str) -> str:
    return url.split("@/")[1].split("?")[0]


@contextlib.asynccontextmanager
async def before(server: Postgres, direct: str, kind: str) -> AsyncIterator[str]:
    """The URL of a pooler before this database, whose sessions must be left as they were found."""
    if kind == "pgbouncer":
        async with pgbouncer(server, name_of(direct)) as url:
            yield url
        return
    async with TransactionPooler(server.socket, name_of(direct)) as pooler:
        yield pooler.url
        assert pooler.lent > 10, "it all went through the pooler"
        assert await pooler.residue() == set()


async def test_this_pooler_breaks_whoever_needs_a_session(
    server: Postgres, database_url: str
) -> None:
    """What the other tests would see if we relied on one."""
    async with TransactionPooler(server.socket, name_of(database_url)) as pooler:
        one, two = [await asyncpg.connect(pooler.url) for _ in range(2)]
        await one.execute("set work_mem = '77MB'")
        assert await one.fetchval("show work_mem") != "77MB"
        with pytest.raises(asyncpg.InvalidSQLStatementNameError):
            await one.fetchval("show work_mem")
        await two.execute("listen channel")
        assert await pooler.residue() >= {"setting work_mem", "listen channel"}
        with pytest.raises(asyncpg.ProtocolViolationError, match="startup parameter"):
            await asyncpg.connect(pooler.url, server_settings={"search_path": "x"})
        await one.close()
        await two.close()


@pytest.mark.parametrize("told", [True, False])
async def test_a_pooler_is_noticed_even_if_nobody_told_of_it(
    server: Postgres, database_url: str, told: bool
) -> None:
    async with TransactionPooler(server.socket, name_of(database_url), forgiving=True) as pooler:
        for url, direct in ((database_url, not told), (pooler.url, False)):
            pool = Pool(Address(url, pooler=told), size=1)
            try:
                assert await pool.is_direct() is direct
            finally:
                await pool.close()


@kinds
async def test_migrating_through_a_pooler(server: Postgres, database_url: str, kind: str) -> None:
    async with before(server, database_url, kind) as url:
        app = Sexton(url, pooler=True, schema="pooled")
        assert (await app.schema_state()).found == 0
        applied = await asyncio.gather(*(app.migrate() for _ in range(5)))
        assert sum(bool(each) for each in applied) == 1, "only one of five applied it"
        assert (await app.schema_state()).current


@kinds
async def test_every_way_to_enqueue_through_a_pooler(
    server: Postgres, database_url: str, kind: str
) -> None:
    async with before(server, database_url, kind) as url:
        app = Sexton(url, pooler=True)

        @app.task
        async def t(n: int) -> None: ...

        async with app:
            ids = {(await t.enqueue(n)).id for n in range(20)}
            kept = await t.enqueue(1, key="k")
            again = await t.enqueue(2, key="k")
            assert (again.id, again.duplicate) == (kept.id, True)
            many = await app.enqueue_many(t.call(n) for n in range(3000))
            mixed = [t.call(0), t.call(1).options(key="k"), t.call(2).options(key="l")]
            plain, held, made = await app.enqueue_many(mixed)
            assert (held.id, held.duplicate, made.duplicate) == (kept.id, True, False)
            named = await app.enqueue("elsewhere", {"a": 1}, tags=["x"])

            theirs = await asyncpg.connect(url, statement_cache_size=0)
            for kept_by_them in (True, False):
                transaction = theirs.transaction()
                await transaction.start()
                one = await t.enqueue(5, connection=theirs)
                [two] = await app.enqueue_many([t.call(6)], connection=theirs)
                await (transaction.commit() if kept_by_them else transaction.rollback())
                if kept_by_them:
                    ids |= {one.id, two.id}
            await theirs.close()
            ids |= {kept.id, *(each.id for each in many), plain.id, made.id, named.id}
            assert await app.live_count() == len(ids)
            waiting = await t.enqueue(1, delay=60)
            assert await app.cancel(waiting.id) == {waiting.id: True}
            assert (await app.job(waiting.id)).state == "cancelled"


@kinds
async def test_a_worker_behind_a_pooler_does_everything_a_worker_does(
    server: Postgres, database_url: str, kind: str
) -> None:
    running = most = 0
    begun = asyncio.Event()
    straight = await asyncpg.connect(database_url)
    await straight.execute("create table effect (n integer)")
    async with before(server, database_url, kind) as url:
        app = Sexton(url, pooler=True, listen_url=database_url, lease=3, poll=60, grace=5)

        @app.task(retry=Retry(max_attempts=2, base=0))
        async def fail_once(job: Job, n: int) -> int:
            if job.attempt == 1:
                raise ValueError(n)
            return n

        @app.task(max_running=2)
        async def few() -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1

        @app.task(retry=Retry(max_attempts=2, base=0))
        async def write(job: Job, n: int) -> None:
            async with job.transaction(result={"n": n}) as connection:
                await connection.execute("insert into effect values ($1)", n)
                if job.attempt == 1:
                    raise TimeoutError("of the task's own")

        @app.task
        async def hang(job: Job) -> None:
            job.progress(0.5)
            begun.set()
            await asyncio.sleep(60)

        async with working(app, concurrency=10) as worker:
            await until(lambda: worker.health.notifications)
            jobs = await app.enqueue_many(
                [fail_once.call(n) for n in range(50)] + [few.call() for _ in range(20)]
            )
            written = await write.enqueue(7)
            hanging = await hang.enqueue()
            ends = [await ended(app, job.id) for job in jobs]
            assert {end.state for end in ends} == {"succeeded"}
            assert [end.result for end in ends[:50]] == list(range(50))
            assert most == 2
            written_as = await ended(app, written.id)
            assert (written_as.result, written_as.attempt) == ({"n": 7}, 2)
            assert str(written_as.attempts[0].error).startswith("TimeoutError: of the task's own")
            assert await straight.fetchval("select array_agg(n) from effect") == [7]

            await begun.wait()
            while (await app.job(hanging.id)).progress != 0.5:
                await asyncio.sleep(0.02)
            [first] = await app.workers()
            while (now := (await app.workers())[0]).renewed_at == first.renewed_at:
                await asyncio.sleep(0.02)
            assert now.id == first.id
            assert await app.cancel(hanging.id) == {hanging.id: False}
            assert (await ended(app, hanging.id)).state == "cancelled"
    await straight.close()


async def test_a_lease_is_kept_through_a_pooler_over_several_lengths(
    server: Postgres, database_url: str
) -> None:
    async with before(server, database_url, "another backend each time") as url:
        app = Sexton(url, pooler=True, lease=3, poll=0.5)
        release = asyncio.Event()

        @app.task(retry=Retry(max_attempts=2, base=0))
        async def long() -> None:
            await release.wait()

        async with working(app) as worker:
            enqueued = await long.enqueue()
            await until(lambda: worker.health.running == 1)
            [before_it] = await app.workers()
            while True:
                [now] = await app.workers()
                if (now.lease_until - before_it.lease_until).total_seconds() > 7:
                    break
                await asyncio.sleep(0.05)
            release.set()
            job = await ended(app, enqueued.id)
        assert [each.outcome for each in job.attempts] == ["succeeded"]
        assert now.id == before_it.id


@kinds
async def test_without_a_direct_way_a_worker_polls_and_says_so(
    server: Postgres, database_url: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with before(server, database_url, kind) as url:
        app = Sexton(url, pooler=True, lease=3, poll=0.2)

        @app.task
        async def echo(n: int) -> int:
            return n

        with caplog.at_level(logging.WARNING, "sexton"):
            async with working(app) as worker:
                for n in range(3):
                    assert (await ended(app, (await echo.enqueue(n)).id)).result == n
                assert not worker.health.notifications
                assert worker.health.ready
    [warning] = [record.message for record in caplog.records]
    assert "polling every 0.2 s" in warning
    assert "SEXTON_LISTEN_URL" in warning


@kinds
async def test_a_direct_way_that_is_none_is_noticed(
    server: Postgres, database_url: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """listen_url goes through a pooler too: a LISTEN is accepted there, and never answered."""
    database = name_of(database_url)
    async with contextlib.AsyncExitStack() as stack:
        if kind == "pgbouncer":
            url = await stack.enter_async_context(pgbouncer(server, database))
        else:
            url = (await stack.enter_async_context(TransactionPooler(server.socket, database))).url
        app = Sexton(database_url, listen_url=url, poll=0.2)

        @app.task
        async def echo(n: int) -> int:
            return n

        with caplog.at_level(logging.INFO, "sexton"):
            async with working(app) as worker:
                await until(lambda: "notifications do not arrive here" in caplog.text, 20)
                assert not worker.health.notifications
                assert (await ended(app, (await echo.enqueue(1)).id)).result == 1


@kinds
async def test_a_pooler_nobody_told_us_of_is_named_in_the_error(
    server: Postgres, database_url: str, kind: str
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        database = name_of(database_url)
        if kind == "pgbouncer":
            url = await stack.enter_async_context(pgbouncer(server, database))
        else:
            url = (await stack.enter_async_context(TransactionPooler(server.socket, database))).url
        app = Sexton(url)

        @app.task
        async def t() -> None: ...

        async with app:
            with pytest.raises(ConfigurationError, match="SEXTON_POOLER=1"):
                await app.run_worker()


async def test_a_pooler_that_falls_silent_does_not_hold_up_a_worker(
    server: Postgres, database_url: str
) -> None:
    """Half-open on every connection at once, also in the middle of a transaction of ours."""
    async with TransactionPooler(server.socket, name_of(database_url)) as pooler:
        far = Sexton(pooler.url, pooler=True, lease=10, poll=0.2, patience=1)
        near = Sexton(database_url)

        @far.task
        async def echo(n: int) -> int:
            return n

        async with near, working(far):
            for n in range(3):
                enqueued = await near.enqueue("echo", {"n": n})
                assert (await ended(near, enqueued.id)).result == n
                pooler.freeze()
