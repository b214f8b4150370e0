"""Limits between tenants: a flood takes its share of them, and a limit key is a tenant's own."""

from collections import Counter

import asyncpg
import pytest

from sexton import Retry
from sexton.domain.job import Claim
from sexton.flow.claim import Claimer
from sexton.store import Borrowed
from sexton.store.connection import Address
from sexton.store.jobs import Place
from sexton.store.workers import Declaration

from ..support.hands import Hands, hands
from .desks import by_tenant, done, tenants


def declared(max_running: int | None = None, per_key: int | None = None) -> Declaration:
    return Declaration("few", "default", 0, Retry(), max_running, per_key)


async def flood(
    worker: Hands, tenant: int, count: int, *, ago: float = 60.0, key: str = "null"
) -> None:
    await worker.rows(
        "insert into sexton.job (task, queue, tenant_id, limited, limit_key, due_at) "
        f"select 'few', 'default', $1, true, {key}, "
        "now() - $3 * interval '1 s' + n * interval '1 us' "
        "from generate_series(1, $2::int) as n",
        *(tenant, count, ago),
    )


def claimer(worker: Hands) -> Claimer:
    return Claimer(worker.store, "default", ["few"], ["few"])


async def test_what_is_free_of_a_limit_is_shared_between_those_who_want_it(
    address: Address,
) -> None:
    async with hands(address) as worker:
        await worker.store.workers.declare([declared(max_running=10)])
        a, b, c = await tenants(worker, 3)
        await flood(worker, a, 2000, ago=3600)
        await flood(worker, b, 2000)
        await flood(worker, c, 2)
        claims = await claimer(worker).run_once(100, worker.worker)
        assert by_tenant(claims) == {a: 4, b: 4, c: 2}


async def test_a_flood_of_a_limited_task_does_not_starve_another_tenants_one_job(
    address: Address,
) -> None:
    async with hands(address) as worker:
        await worker.store.workers.declare([declared(max_running=2)])
        a, b = await tenants(worker, 2)
        await flood(worker, a, 5000, ago=3600)
        takes = claimer(worker)
        running = await takes.run_once(100, worker.worker)
        assert by_tenant(running) == {a: 2}
        await flood(worker, b, 1, ago=0)
        assert not await takes.run_once(100, worker.worker), "the limit is reached"
        await done(worker, running[:1])
        # One place is free: of whom fewer run goes first.
        assert by_tenant(await takes.run_once(100, worker.worker)) == {b: 1}


async def test_a_limit_holds_over_all_tenants_together(address: Address) -> None:
    async with hands(address) as worker:
        await worker.store.workers.declare([declared(max_running=7)])
        everybody = await tenants(worker, 4)
        for tenant in everybody:
            await flood(worker, tenant, 50)
        takes = claimer(worker)
        running: list[Claim] = []
        claimed: Counter[int] = Counter()
        while claims := await takes.run_once(3, worker.worker):
            running += claims
            claimed.update(by_tenant(claims))
            assert len(running) <= 7
            if len(running) == 7:
                # As long as each has something left; places of others are for whoever has.
                assert max(by_tenant(running).values()) <= 2 or max(claimed.values()) == 50
                await done(worker, running)
                running = []
        assert claimed == dict.fromkeys(everybody, 50)


async def test_a_limit_key_is_its_tenants_own(address: Address) -> None:
    async with hands(address) as worker:
        await worker.store.workers.declare([declared(per_key=1)])
        a, b = await tenants(worker, 2)
        for tenant in (1, a, b):
            await flood(worker, tenant, 3, key="'customer 7'")
        takes = claimer(worker)
        first = await takes.run_once(100, worker.worker)
        assert by_tenant(first) == {1: 1, a: 1, b: 1}
        assert not await takes.run_once(100, worker.worker)
        await done(worker, [claim for claim in first if claim.tenant == b])
        assert by_tenant(await takes.run_once(100, worker.worker)) == {b: 1}


async def test_more_full_keys_of_one_tenant_than_are_looked_at_do_not_hide_another(
    address: Address,
) -> None:
    async with hands(address) as worker:
        await worker.store.workers.declare([declared(per_key=1)])
        a, b = await tenants(worker, 2)
        await flood(worker, a, 1500, ago=3600, key="'busy'")
        takes = claimer(worker)
        assert by_tenant(await takes.run_once(5, worker.worker)) == {a: 1}
        await flood(worker, a, 200, ago=0, key="'k' || n")
        await flood(worker, b, 3, ago=0, key="'k' || n")
        got = by_tenant(await takes.run_once(5, worker.worker))
        assert got[b] >= 2
        for _ in range(60):
            got += by_tenant(await takes.run_once(5, worker.worker))
        assert got == {a: 200, b: 3}, "and its own are found behind those too"


async def test_whoever_acts_for_one_tenant_counts_what_runs_for_all(
    address: Address, database_url: str
) -> None:
    """Row-level security hides the others' jobs, and their number still counts for the limit."""
    async with hands(address) as worker:
        await worker.store.workers.declare([declared(max_running=3)])
        a, b = await tenants(worker, 2)
        await flood(worker, a, 2)
        await flood(worker, b, 5)
        takes = Claimer(worker.store, "default", ["few"], ["few"], tenants=[a])
        assert len(await takes.run_once(10, worker.worker)) == 2
        connection = await asyncpg.connect(database_url)
        try:
            await connection.execute(
                f"begin; set local role sexton_tenant; set local sexton.tenant = {b}"
            )
            store = worker.store.over(Borrowed(connection))
            remote = await store.workers.register("remote", ["default"], "test", 30, tenant=b)
            claims, _, _ = await store.jobs.claim_limited(
                "default", 10, remote, [Place("few", tenant=a), Place("few", tenant=b)]
            )
            assert by_tenant(claims) == {b: 1}
        finally:
            await connection.close()


@pytest.mark.parametrize("keys", [None, 1])
async def test_a_tenant_whose_jobs_wait_for_a_limit_is_not_forgotten_among_a_thousand(
    address: Address, keys: int | None
) -> None:
    async with hands(address) as worker:
        await worker.store.workers.declare([declared(max_running=1, per_key=keys)])
        everybody = await tenants(worker, 1000)
        last = everybody[-1]
        await flood(worker, last, 5, key="'k'")
        takes = claimer(worker)
        for _ in range(5):
            claims = await takes.run_once(10, worker.worker)
            assert by_tenant(claims) == {last: 1}
            assert not await takes.run_once(10, worker.worker)
            await done(worker, claims)
