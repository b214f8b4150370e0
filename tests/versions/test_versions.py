"""The whole path of a job on every PostgreSQL that is supported."""

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from sexton import Job, PermanentFailure, Retry, Sexton, sql
from sexton.flow import prune, reap
from sexton.store.connection import Address

from ..engine.test_claim import At
from ..engine.test_worker import ended, working
from ..support.hands import hands
from ..support.postgres import DEBIAN_15, Postgres

_number = itertools.count(1)


@pytest.fixture(scope="module", params=[15, 16, 18], ids="PostgreSQL {}".format)
def one_of_them(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    if request.param == 15 and not DEBIAN_15.is_dir():
        pytest.skip(f"PostgreSQL 15 is not installed in {DEBIAN_15}")
    with Postgres.running(request.param) as server:
        yield server


@pytest.fixture
def url(one_of_them: Postgres, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"version_{next(_number)}"
    url = one_of_them.create_database(name)
    assert asyncio.run(_version(url)) == request.node.callspec.params["one_of_them"]
    yield url
    one_of_them.drop_database(name)


async def _version(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        major: int = connection.get_server_version().major
        return major
    finally:
        await connection.close()


async def test_every_statement_prepares(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for name in sql.names():
            await connection.prepare(sql.statement(name, "sexton"))
    finally:
        await connection.close()


@dataclass
class Seen:
    """What the tasks of the scenario did."""

    running: int = 0
    most: int = 0
    mended: bool = False
    begun: asyncio.Event = field(default_factory=asyncio.Event)


def scenario(url: str, seen: Seen) -> Sexton:
    app = Sexton(url, lease=3, poll=1, grace=5)

    @app.task
    async def add(a: int, b: int = 1) -> int:
        return a + b

    @app.task(retry=Retry(max_attempts=3, base=0))
    async def fail_twice(job: Job) -> int:
        if job.attempt < 3:
            raise ValueError(f"attempt {job.attempt}")
        return job.attempt

    @app.task
    async def broken() -> str:
        if not seen.mended:
            raise PermanentFailure("not yet")
        return "mended"

    @app.task(max_running=2, max_running_per_key=1)
    async def few(n: int) -> None:
        seen.running += 1
        seen.most = max(seen.most, seen.running)
        await asyncio.sleep(0.005)
        seen.running -= 1

    @app.task
    async def hang() -> None:
        seen.begun.set()
        await asyncio.sleep(60)

    @app.task(retry=Retry(max_attempts=2, base=0))
    async def write(job: Job) -> None:
        async with job.transaction(result="written") as connection:
            await connection.execute("insert into effect values ($1)", job.attempt)
            if job.attempt == 1:
                raise RuntimeError("half way")

    return app


async def test_a_job_goes_its_whole_way(url: str) -> None:
    seen = Seen()
    app = scenario(url, seen)
    task = app.tasks
    connection = await asyncpg.connect(url)
    await connection.execute("create table effect (n integer)")

    async def result(id: int) -> Any:
        job = await ended(app, id)
        return job.state, job.result, len(job.attempts)

    async with working(app, concurrency=10):
        # Enqueued by Python one by one and in bulk, by SQL, with a key, in a transaction.
        one = await task["add"].enqueue(1)
        many = await app.enqueue_many([task["add"].call(n) for n in range(100)])
        by_sql = await connection.fetchval("select id from sexton.enqueue('add', '{\"a\": 5}')")
        held = await task["add"].enqueue(7, key="k", delay=60)
        again = await connection.fetchrow(
            "select * from sexton.enqueue('add', '{\"a\": 8}', key => 'k')"
        )
        assert tuple(again) == (held.id, True)
        async with connection.transaction():
            inside = await task["add"].enqueue(9, connection=connection)
        assert await result(one.id) == ("succeeded", 2, 1)
        assert [await result(each.id) for each in many] == [
            ("succeeded", n + 1, 1) for n in range(100)
        ]
        assert await result(by_sql) == ("succeeded", 6, 1)
        assert await result(inside.id) == ("succeeded", 10, 1)

        # Retried; dead and redriven; cancelled while it waits and while it runs.
        assert await result((await task["fail_twice"].enqueue()).id) == ("succeeded", 3, 3)
        broken = await task["broken"].enqueue()
        assert (await result(broken.id))[0] == "dead"
        [dead] = await app.dead()
        assert (dead.id, dead.reason) == (broken.id, "permanent")
        seen.mended = True
        assert [each.revived for each in await app.redrive(broken.id)] == [True]
        assert await result(broken.id) == ("succeeded", "mended", 2)
        hanging = await task["hang"].enqueue()
        await seen.begun.wait()
        assert await app.cancel(held.id, hanging.id) == {held.id: True, hanging.id: False}
        assert [(await result(id))[0] for id in (held.id, hanging.id)] == ["cancelled"] * 2

        # Limited; settled by the task's own transaction.
        limited = await app.enqueue_many(
            [task["few"].call(n).options(limit_key=f"key {n % 3}") for n in range(20)]
        )
        assert {(await result(each.id))[0] for each in limited} == {"succeeded"}
        assert seen.most == 2
        assert await result((await task["write"].enqueue()).id) == ("succeeded", "written", 2)
        assert await connection.fetchval("select array_agg(n) from effect") == [2]
        assert await app.stuck() == []
    async with app:
        assert await app.live_count() == 0
        assert await app.workers() == []
    await connection.close()


async def test_lost_workers_are_reaped_and_the_past_is_pruned(url: str) -> None:
    clock = At()
    async with hands(Address(url), clock=clock, lease=10) as worker:
        await prune.run_once(worker.store)
        enqueued = await worker.enqueue("t", key="k", tags=["x"])
        [claim] = await worker.claim()
        clock.now += timedelta(seconds=11)
        assert [each.jobs for each in await worker.store.history.stuck(10)] == [1]
        assert await reap.run_once(worker.store) == 1
        assert await worker.store.workers.renew(worker.worker) is None
        job = await worker.store.history.job(enqueued.id)
        assert job is not None
        assert [(each.outcome, each.fence) for each in job.attempts] == [("lost", claim.fence)]
        await worker.store.jobs.cancel([enqueued.id])

        await worker.store.history.set_retention(86400, None, False)
        clock.now += timedelta(days=30)
        await prune.run_once(worker.store)
        assert await worker.store.history.job(enqueued.id) is None
        assert await worker.value("select count(*) from sexton.worker") == 0
        oldest = (
            "select min(inhrelid::regclass::text) from pg_inherits where inhparent = $1::regclass"
        )
        yesterday = clock.now - timedelta(days=1)
        assert await worker.value(oldest, "sexton.attempt") == f"sexton.attempt_{yesterday:%Y%m%d}"
