"""Whole workers among many tenants: woken by name, fair, and none left out."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from sexton import Job, Retry, RetryAfter, Sexton
from sexton.domain.job import NewJob
from sexton.flow.wake import call_for, named
from sexton.flow.worker import Worker
from sexton.targets.task import Task

from ..engine.test_worker import ended, working


@pytest.fixture
def app(database_url: str) -> Sexton:
    """Without polls to rely on: whatever happens in time was said, or slept for."""
    return Sexton(database_url, lease=3, poll=60, patience=5)


@asynccontextmanager
async def many(app: Sexton, **options: Any) -> AsyncIterator[tuple[Worker, list[int]]]:
    """A worker that listens and sleeps, and four hundred tenants."""
    connection = await asyncpg.connect(app.settings.database_url)
    rows = await connection.fetch(
        "insert into sexton.tenant (name) select 'tenant ' || n from generate_series(1, 400) as n "
        "returning id"
    )
    await connection.close()
    async with working(app, **options) as worker:
        while not (worker.health.notifications and worker._idle):
            await asyncio.sleep(0.01)
        yield worker, [row["id"] for row in rows]


def noting(app: Sexton, **options: Any) -> tuple[Task[..., Any], list[int]]:
    ran: list[int] = []

    @app.task(name="note", **options)
    async def note(job: Job) -> None:
        ran.append(job.id)

    return note, ran


async def test_a_worker_that_sleeps_hears_whose_job_it_is(app: Sexton) -> None:
    noting(app)
    async with many(app) as (_, everybody):
        client = await app.client()
        for tenant in (everybody[-1], everybody[200], 1):
            async with asyncio.timeout(20):  # long before it polls
                one = await client.enqueue(NewJob("note", "{}", "default", tenant=tenant))
                assert (await ended(app, one.id)).tenant == tenant
                [row] = await client.pool.fetch(
                    "select id from sexton.enqueue('note', tenant_id => $1)", tenant
                )
                assert (await ended(app, row["id"])).tenant == tenant


async def test_a_delayed_job_of_a_quiet_tenant_comes_at_its_time(app: Sexton) -> None:
    noting(app)
    async with many(app) as (_, everybody):
        client = await app.client()
        jobs = [
            await client.enqueue(NewJob("note", "{}", "default", delay=delay, tenant=tenant))
            for delay, tenant in ((4.0, everybody[50]), (3.0, everybody[350]))
        ]
        async with asyncio.timeout(30):  # the polls are a minute apart
            for each in jobs:
                view = await ended(app, each.id)
                assert view.attempts[0].claimed_at is not None


async def test_a_retry_of_a_quiet_tenant_comes_at_its_time(app: Sexton) -> None:
    @app.task(retry=Retry(max_attempts=3))
    async def flaky(job: Job) -> None:
        if job.attempt < 3:
            raise RetryAfter(2.5, "later")  # longer than a tenant is looked at for nothing

    async with many(app) as (_, everybody):
        client = await app.client()
        enqueued = await client.enqueue(NewJob("flaky", "{}", "default", tenant=everybody[123]))
        async with asyncio.timeout(40):
            assert (await ended(app, enqueued.id)).state == "succeeded"


async def test_a_limited_job_of_a_quiet_tenant_runs_when_its_limit_lets_it(app: Sexton) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @app.task(max_running=1)
    async def alone(job: Job) -> None:
        begun.set()
        await go.wait()

    async with many(app) as (_, everybody):
        client = await app.client()
        jobs = [
            await client.enqueue(NewJob("alone", "{}", "default", limited=True, tenant=tenant))
            for tenant in (everybody[10], everybody[390], everybody[10])
        ]
        async with asyncio.timeout(40):
            await begun.wait()  # whichever of them it is: all may be there when they are looked for
            go.set()
            for each in jobs:
                await ended(app, each.id)


async def test_while_one_tenant_floods_a_busy_worker_another_is_served_in_between(
    app: Sexton,
) -> None:
    order: list[int] = []
    go = asyncio.Event()

    @app.task
    async def work(job: Job) -> None:
        await go.wait()
        order.append(job.id)
        await asyncio.sleep(0)

    async with many(app, concurrency=10) as (_, everybody):
        client = await app.client()
        flood, other = everybody[0], everybody[1]
        await client.pool.fetch(
            "insert into sexton.job (task, queue, tenant_id, due_at) "
            "select 'work', 'default', $1, now() - interval '1 h' + n * interval '1 us' "
            "from generate_series(1, 3000) as n",
            flood,
        )
        client.waker.wake("default", flood)
        while (await app.counts())["default"].running < 10:
            await asyncio.sleep(0.01)
        few = [
            (await client.enqueue(NewJob("work", "{}", "default", tenant=other))).id
            for _ in range(20)
        ]
        go.set()
        async with asyncio.timeout(60):
            while await app.live_count():
                await asyncio.sleep(0.02)
        place = max(order.index(id) for id in few)
        assert place < 300, "they have a share of every claim from the moment they are there"
        assert len(order) == len(set(order)) == 3020


async def test_two_workers_run_every_job_of_every_tenant_once(app: Sexton) -> None:
    _, ran = noting(app)
    async with many(app) as (_, everybody), working(app):
        client = await app.client()
        await client.pool.fetch(
            "insert into sexton.job (task, queue, tenant_id) select 'note', 'default', t.id "
            "from unnest($1::int[]) as t (id), generate_series(1, 5)",
            everybody,
        )
        for tenant in everybody:
            client.waker.wake("default", tenant)
        async with asyncio.timeout(60):
            while await app.live_count():
                await asyncio.sleep(0.02)
        assert len(ran) == 2000
        assert set(Counter(ran).values()) == {1}


@pytest.mark.parametrize("queue", ["default", "a:b", "tenant:7:x", "é"])
@pytest.mark.parametrize("tenant", [1, 2, 123456])
async def test_what_a_notification_says_is_understood(
    database_url: str, queue: str, tenant: int
) -> None:
    assert named(call_for(queue, tenant)) == (queue, tenant)
    connection = await asyncpg.connect(database_url)
    said = await connection.fetchval("select sexton.wake_for($1, $2)", queue, tenant)
    await connection.close()
    assert said == call_for(queue, tenant)


def test_a_notification_that_names_no_queue_is_none() -> None:
    for said in ("tenants", "schedule", "cluster", "cancel:7", "tenant:", "tenant:x:y", "", "echo"):
        assert named(said) is None
