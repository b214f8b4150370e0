"""What a page of jobs costs, wherever it is, and that nothing is left out between two of them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from sexton import sql
from sexton.store import Borrowed, Store
from sexton.store.pages import LAST_ID, PLANNED, Page, Wanted

LIVE, FINISHED, LIMIT = 5_000, 25_000, 10
DAYS = 30

FILL = f"""
    select sexton.make_buckets(current_date - {DAYS + 1}, current_date + 7);
    insert into sexton.tenant (name) values ('acme');
    insert into sexton.attempt (job_id, fence, created_at, due_at, finished_at, attempt, outcome,
        next, task, queue, payload, tenant_id)
    select n, n, at, at, at, 1, 'succeeded', 'succeeded', 't', 'default', '{{}}', 1 + n % 2
    from generate_series(1, {2 * FINISHED}) as n, lateral (
        select now() - ({2 * FINISHED} - n) * interval '{DAYS} days' / {2 * FINISHED}) as _ (at);
    insert into sexton.job (id, task, due_at, tenant_id)
    select n, 't', now() + interval '1 day', 1 + n % 2
    from generate_series({2 * FINISHED + 1}, {2 * (FINISHED + LIVE)}) as n;
    select setval('sexton.job_id', {2 * (FINISHED + LIVE)});
    analyze;
"""


@asynccontextmanager
async def desk(connection: asyncpg.Connection, tenant: int) -> AsyncIterator[Store]:
    """As the service reads: as the tenants' role, and planned alike."""
    async with connection.transaction(readonly=True):
        await connection.execute(
            f"set local role sexton_tenant; set local sexton.tenant = {tenant}"
        )
        await connection.execute(PLANNED)
        yield Store(Borrowed(connection), "sexton")


@asynccontextmanager
async def filled(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(FILL)
        yield connection
    finally:
        await connection.close()


async def cost(connection: asyncpg.Connection, tenant: int, before: int, wanted: Wanted) -> int:
    """How many buffers a page touches, by the plan that holds for all parameters."""
    finished = "finished_page_first" if tenant == 1 else "finished_page"
    state, task = (f"'{each}'" if each else "null" for each in (wanted.state, wanted.task))
    given = f"{tenant}, {before}, 0, {LIMIT}, 10000, {state}, {task}, null, null, null, null, null"
    touched = 0
    async with desk(connection, tenant):
        for name, now in (("jobs_page", ", null"), (finished, "")):
            await connection.execute(f"prepare page as {sql.statement(name, 'sexton')}")
            explain = "explain (analyze, buffers, format json) execute page"
            [row] = await connection.fetch(f"{explain} ({given}{now})")
            await connection.execute("deallocate page")
            plan = json.loads(row[0])[0]["Plan"]
            touched += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
            assert "Seq Scan" not in row[0], f"{name} goes by index"
    return touched


@pytest.mark.parametrize("tenant", [1, 2])
async def test_page_1_and_page_1000_cost_the_same(database_url: str, tenant: int) -> None:
    async with filled(database_url) as connection:
        page_1000 = 2 * (FINISHED + LIVE - 1000 * LIMIT)
        for wanted in (Wanted(), Wanted(state="succeeded"), Wanted(task="none")):
            first = await cost(connection, tenant, LAST_ID, wanted)
            thousandth = await cost(connection, tenant, page_1000, wanted)
            assert thousandth <= first * 1.1, wanted
            most = 500 if wanted.task is None else 2_000
            assert first < most, "within what a page may look at"


async def test_a_small_tenants_page_does_not_walk_over_a_large_ones(database_url: str) -> None:
    async with filled(database_url) as connection:
        await connection.execute("""
            insert into sexton.tenant (name) values ('small');
            update sexton.attempt set tenant_id = 3 where job_id in (2, 5000, 20000);
            update sexton.job set tenant_id = 3 where id in (select min(id) from sexton.job);
            analyze;
        """)
        for wanted in (Wanted(), Wanted(state="running")):
            assert await cost(connection, 3, LAST_ID, wanted) < 300
        async with desk(connection, 3) as store:
            assert len(await walk(store, 3, Wanted(), limit=2)) == 4


async def walk(store: Store, tenant: int, wanted: Wanted, **bounds: Any) -> list[int]:
    ids: list[int] = []
    before, pages = LAST_ID, 0
    while True:
        page: Page[Any] = await store.pages.jobs(tenant, wanted, before=before, **bounds)
        ids += [line.id for line in page.lines]
        pages += 1
        assert pages < 5000
        if page.beyond is None:
            return ids
        [place] = page.beyond
        assert isinstance(place, int)
        assert place < before, "every page gets further"
        before = place


@pytest.mark.parametrize("look_at", [5, 7, 100])
async def test_nothing_is_left_out_however_little_a_page_may_look_at(
    database_url: str, look_at: int
) -> None:
    """Jobs with many attempts, dead ones and live ones among each other, and short walks."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("""
            select sexton.make_buckets(current_date - 3, current_date + 1);
            insert into sexton.attempt (job_id, fence, created_at, due_at, finished_at, attempt,
                outcome, next, task, queue, payload, tenant_id)
            select n, 10 * n + a, now(), now(), now() - (a % 3) * interval '1 day', a, 'failed',
                case when a = 1 then 'succeeded' else 'waiting' end::sexton.next_state,
                case when n % 5 = 0 then 'five' else 't' end, 'default', '{}', 1
            from generate_series(1, 200) as n, generate_series(1, 1 + n % 4) as a
            where n % 3 = 0;
            insert into sexton.job (id, task, tenant_id)
            select n, case when n % 5 = 0 then 'five' else 't' end, 1
            from generate_series(1, 200) as n where n % 3 = 1;
            insert into sexton.dead (job_id, died_at, created_at, attempt, attempts_before,
                priority, reason, task, queue, payload, tenant_id)
            select n, now(), now(), 1, 0, 0, 'expired',
                case when n % 5 = 0 then 'five' else 't' end, 'default', '{}', 1
            from generate_series(1, 200) as n where n % 3 = 2;
        """)
        async with desk(connection, 1) as store:
            for limit in (1, 4, 50):
                bounds = {"limit": limit, "look_at": look_at}
                assert await walk(store, 1, Wanted(), **bounds) == list(range(200, 0, -1))
                fives = await walk(store, 1, Wanted(task="five"), **bounds)
                assert fives == list(range(200, 0, -5))
                done = await walk(store, 1, Wanted(state="succeeded"), **bounds)
                assert done == list(range(198, 0, -3))
                above = await walk(store, 1, Wanted(), down_to=150, **bounds)
                assert above == list(range(200, 149, -1))
    finally:
        await connection.close()


async def test_a_job_with_more_attempts_than_a_page_looks_at_does_not_stop_the_list(
    database_url: str,
) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("""
            insert into sexton.attempt (job_id, fence, created_at, due_at, finished_at, attempt,
                outcome, next, task, queue, payload, tenant_id)
            select case when n <= 50 then 7 else n end, n, now(), now(), now(), n,
                'snoozed', case when n <= 50 then 'waiting' else 'succeeded' end::sexton.next_state,
                't', 'default', '{}', 1
            from generate_series(1, 55) as n
        """)
        async with desk(connection, 1) as store:
            found = await walk(store, 1, Wanted(), limit=5, look_at=10)
            assert found == [55, 54, 53, 52, 51]
    finally:
        await connection.close()


@pytest.mark.parametrize("tenant", [1, 2])
async def test_a_page_of_dead_jobs_costs_the_same_wherever_it_is(
    database_url: str, tenant: int
) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("""
            insert into sexton.dead (job_id, died_at, created_at, attempt, attempts_before,
                priority, reason, task, queue, payload, tenant_id)
            select n, '2030-01-01Z'::timestamptz - n * interval '1 s', now(), 1, 0, 0, 'expired',
                't', 'default', '{}', 1 + n % 2
            from generate_series(1, 40000) as n;
            analyze;
        """)
        touched = []
        for page in (0, 1000):
            async with desk(connection, tenant):
                await connection.execute(f"prepare page as {sql.statement('dead_page', 'sexton')}")
                [row] = await connection.fetch(
                    "explain (analyze, buffers, format json) execute page "
                    f"({tenant}, '2030-01-01Z'::timestamptz - {page * 20} * interval '1 s', 0, "
                    "10, 10000, null, null, null, null, null, null, '1970-01-01Z')"
                )
                await connection.execute("deallocate page")
            plan = json.loads(row[0])[0]["Plan"]
            assert plan["Actual Rows"] == 10
            touched.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
        assert touched[1] <= touched[0] * 1.5 < 100, touched
    finally:
        await connection.close()
