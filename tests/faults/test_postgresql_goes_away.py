"""PostgreSQL stopped, crashed, restarted and cut off, while workers are at work."""

import asyncio
import logging
from collections import Counter

import asyncpg
import pytest

from sexton import Sexton

from ..engine.test_worker import ended, working
from ..support.postgres import Postgres
from ..support.processes import crew
from ..support.proxy import Proxy
from .test_workers_die import drained, enqueuer


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_postgresql_stopped_and_started_in_mid_drain_loses_and_doubles_nothing(
    own_server: Postgres, mode: str
) -> None:
    url = await asyncio.to_thread(own_server.create_database, "drain")
    app = enqueuer(url)
    async with app:
        with crew(url) as workers:
            await app.enqueue_many([app.tasks["slow"].call(n=n) for n in range(600)])
            two = [workers.start("default:10", lease=20) for _ in range(2)]
            for stops in (1, 2):
                await workers.effects.until(lambda e, s=stops: len(e.lines("end")) > 100 * s)  # type: ignore[misc]
                await asyncio.to_thread(own_server.stop, mode)
                await asyncio.to_thread(own_server.start)
            await drained(app)
            ends = Counter(line[1] for line in workers.effects.lines("end"))
            outputs = [worker.output() for worker in two]
    assert len(ends) == 600
    assert set(ends.values()) == {1}, "what was finished was kept and settled later"
    assert any("PostgreSQL went away" in output for output in outputs), outputs
    assert any("PostgreSQL is back after" in output for output in outputs), outputs


async def test_a_killed_postmaster_is_survived(own_server: Postgres) -> None:
    url = await asyncio.to_thread(own_server.create_database, "killed")
    app = enqueuer(url)
    async with app:
        with crew(url) as workers:
            await app.enqueue_many([app.tasks["slow"].call(n=n) for n in range(300)])
            workers.start("default:10", lease=20)
            await workers.effects.until(lambda e: len(e.lines("end")) > 100)
            own_server.kill_postmaster()
            await asyncio.to_thread(own_server.recover)
            await drained(app)
            ends = Counter(line[1] for line in workers.effects.lines("end"))
    assert len(ends) == 300
    assert set(ends.values()) == {1}


async def test_terminated_backends_are_replaced(app: Sexton, database_url: str) -> None:
    @app.task
    async def echo(n: int) -> int:
        await asyncio.sleep(0.01)
        return n

    connection = await asyncpg.connect(database_url)
    async with working(app, concurrency=5) as worker:
        jobs = await app.enqueue_many([echo.call(n) for n in range(300)])
        for _ in range(5):
            await connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and pid <> pg_backend_pid()"
            )
            finished = worker.finished
            while worker.finished == finished:
                await asyncio.sleep(0.01)
        while await connection.fetchval("select count(*) from sexton.job"):
            await asyncio.sleep(0.02)
        results = await connection.fetch(
            "select job_id, result::text::integer as n from sexton.attempt "
            "where outcome = 'succeeded'"
        )
    assert {row["job_id"]: row["n"] for row in results} == {job.id: n for n, job in enumerate(jobs)}
    assert len(results) == len(jobs)
    await connection.close()


async def test_a_half_open_listener_is_noticed_within_fifteen_seconds(
    server: Postgres, database_url: str
) -> None:
    name = database_url.split("@/")[1].split("?")[0]
    async with Proxy(server.socket) as proxy:
        app = Sexton(database_url, listen_url=proxy.url(name), poll=60, patience=5)

        @app.task
        async def echo() -> None: ...

        async with working(app) as worker:
            while not worker.health.notifications:
                await asyncio.sleep(0.01)
            before = proxy.accepted
            loop = asyncio.get_running_loop()
            frozen_at = loop.time()
            proxy.freeze()
            while proxy.accepted == before:
                await asyncio.sleep(0.05)
            assert loop.time() - frozen_at < 15
            while not worker.health.notifications:
                await asyncio.sleep(0.01)
            await ended(app, (await echo.enqueue()).id)


async def test_half_open_connections_of_a_whole_worker_are_replaced(
    server: Postgres, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    name = database_url.split("@/")[1].split("?")[0]
    async with Proxy(server.socket) as proxy:
        far = Sexton(proxy.url(name), lease=20, poll=1, patience=2)
        near = Sexton(database_url)

        @far.task
        async def echo(n: int) -> int:
            return n

        async with near:
            with caplog.at_level(logging.WARNING, "sexton"):
                async with working(far):
                    first = await near.enqueue("echo", {"n": 1})
                    await ended(near, first.id)
                    proxy.freeze()
                    second = await near.enqueue("echo", {"n": 2})
                    job = await ended(near, second.id)
    assert job.result == 2


async def test_enqueue_without_a_server_is_a_clear_error(own_server: Postgres) -> None:
    from sexton.errors import Unavailable

    url = await asyncio.to_thread(own_server.create_database, "gone")
    app = Sexton(url, patience=2)

    @app.task
    async def t() -> None: ...

    async with app:
        await t.enqueue()
        await asyncio.to_thread(own_server.stop, "immediate")
        with pytest.raises(Unavailable, match="PostgreSQL"):
            await t.enqueue()
        await asyncio.to_thread(own_server.start)
        await t.enqueue()
        assert await app.live_count() == 2, "what was acknowledged survived the crash"
