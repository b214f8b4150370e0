"""Every row is its tenant's, from enqueue to history, whatever happens to the job."""

from typing import Any

import asyncpg
import pytest

from sexton import Retry, Sexton
from sexton.client import Client
from sexton.domain.job import NewJob
from sexton.domain.outcome import Failed, Snoozed, Succeeded
from sexton.store import Borrowed
from sexton.store.connection import Address
from sexton.store.foreign import enqueue_call, run_async

from ..support.hands import Hands, hands
from .desks import tenants


async def owners(worker: Hands, table: str, where: str = "true") -> set[int]:
    rows = await worker.rows(f"select distinct tenant_id from sexton.{table} where {where}")
    return {row[0] for row in rows}


async def claimed(worker: Hands, tenant: int, limit: int = 100) -> list[Any]:
    from sexton.domain.job import PRIORITIES
    from sexton.store.jobs import BEGINNING

    lanes = list(PRIORITIES)
    since = [BEGINNING] * len(lanes)
    return await worker.store.jobs.claim(
        "default", limit, worker.worker, lanes, since, [tenant] * len(lanes)
    )


async def test_every_way_of_enqueueing_says_whose_job_it_is(
    address: Address, app: Sexton, database_url: str
) -> None:
    async with hands(address) as worker, app:
        [a] = await tenants(worker, 1)
        client: Client = await app.client()
        connection = await asyncpg.connect(database_url)
        for n, job in enumerate(
            [
                NewJob("one", "{}", "default", tenant=a),
                NewJob("keyed", "{}", "default", key="k", tenant=a),
                NewJob("later", "{}", "default", delay=60, tags=["x"], tenant=a),
            ]
        ):
            await client.enqueue(job)
            await client.enqueue(NewJob(f"in {n}", "{}", "default", tenant=a), connection)
        await client.enqueue_named(NewJob("named", "{}", "", None, tenant=a))
        jobs = [NewJob("bulk", "{}", "default", key=key, tenant=a) for key in (None, "x", None)]
        now, ids = await worker.store.jobs.reserve(2)
        await worker.store.jobs.enqueue_plain(now, ids, [jobs[0], jobs[2]])
        await worker.store.over(Borrowed(connection)).jobs.enqueue_plain(
            now, (await worker.store.jobs.reserve(1))[1], jobs[:1]
        )
        await connection.execute("select sexton.enqueue('sql', tenant_id => $1)", a)
        await run_async(connection, enqueue_call("sexton", jobs[1], None))
        await connection.close()
        assert await owners(worker, "job") == {a}
        assert await owners(worker, "held_key") == {a}
        assert await worker.value("select count(*) from sexton.job") == 12


async def test_without_a_word_a_job_is_the_first_tenants(address: Address) -> None:
    async with hands(address) as worker:
        await worker.enqueue()
        await worker.enqueue(key="k")
        await worker.rows("select sexton.enqueue('t')")
        assert await owners(worker, "job") == {1}


@pytest.mark.parametrize("tenant", ["999", "0", "-1", "null"])
async def test_a_job_for_a_tenant_that_does_not_exist_is_refused(
    address: Address, tenant: str
) -> None:
    async with hands(address) as worker:
        with pytest.raises(asyncpg.InvalidParameterValueError, match="there is no tenant"):
            await worker.rows(f"select sexton.enqueue('t', tenant_id => {tenant})")
        assert not await worker.rows("select from sexton.job")


async def test_the_same_key_in_two_tenants_is_no_duplicate(address: Address) -> None:
    async with hands(address) as worker:
        a, b = await tenants(worker, 2)
        made = {each: await worker.enqueue(key="k", tenant=each) for each in (1, a, b)}
        assert not any(each.duplicate for each in made.values())
        for each, first in made.items():
            again = await worker.enqueue(key="k", tenant=each)
            assert (again.duplicate, again.id) == (True, first.id)
        # What ends in one tenant lets go of its own key only.
        [claim] = await claimed(worker, a)
        assert await worker.settle(claim, Succeeded())
        assert not (await worker.enqueue(key="k", tenant=a)).duplicate
        for each in (1, b):
            assert (await worker.enqueue(key="k", tenant=each)).duplicate
        await worker.store.jobs.cancel([made[b].id])
        assert not (await worker.enqueue(key="k", tenant=b)).duplicate
        assert (await worker.enqueue(key="k", tenant=1)).duplicate


async def test_a_key_that_is_held_on_after_success_is_held_for_its_tenant(
    address: Address,
) -> None:
    async with hands(address) as worker:
        a, b = await tenants(worker, 2)
        for quick, each in ((True, a), (False, b)):
            first = await worker.enqueue(key="k", key_held_for=3600.0, tenant=each)
            [claim] = await claimed(worker, each)
            if quick:
                await worker.store.jobs.settle_succeeded([claim.id], [claim.fence])
            else:
                await worker.settle(claim, Succeeded('"x"'))
            again = await worker.enqueue(key="k", tenant=each)
            assert (again.duplicate, again.id) == (True, first.id)
        assert not (await worker.enqueue(key="k")).duplicate
        await worker.rows("update sexton.held_key set held_until = now() where tenant_id > 1")
        await worker.store.history.prune(100)
        assert await owners(worker, "held_key") == {1}


async def test_every_outcome_is_recorded_for_the_tenant(address: Address) -> None:
    async with hands(address) as worker:
        [a] = await tenants(worker, 1)
        for _ in range(5):
            await worker.enqueue(tenant=a)
        one, two, three, four, five = await claimed(worker, a)
        await worker.store.jobs.settle_succeeded([one.id], [one.fence])
        await worker.settle(two, Succeeded('{"x": 1}'))
        await worker.settle(three, Failed("no", permanent=True))
        await worker.settle(four, Failed("again"))
        await worker.settle(five, Snoozed(10, "later"))
        waits = await worker.enqueue(tenant=a, delay=60)
        await worker.store.jobs.cancel([waits.id])
        assert await owners(worker, "attempt") == {a}
        assert await worker.value("select count(*) from sexton.attempt") == 6
        assert await owners(worker, "dead") == {a}
        assert await owners(worker, "job") == {a}
        view = await worker.store.history.job(three.id)
        assert view is not None
        assert (view.state, view.tenant) == ("dead", a)


async def test_a_success_in_the_tasks_own_transaction_is_the_tenants(address: Address) -> None:
    async with hands(address) as worker:
        [a] = await tenants(worker, 1)
        await worker.enqueue(key="k", tenant=a)
        await worker.enqueue(key="k")
        [claim] = await claimed(worker, a)
        assert await worker.value("select sexton.succeed($1, $2)", claim.id, claim.fence)
        assert await owners(worker, "attempt") == {a}
        assert await owners(worker, "held_key") == {1}


async def test_a_dead_job_is_redriven_where_it_was(address: Address) -> None:
    async with hands(address) as worker:
        a, b = await tenants(worker, 2)
        for each in (a, b):
            await worker.enqueue(key="k", tenant=each)
            [claim] = await claimed(worker, each)
            await worker.settle(claim, Failed("no", permanent=True))
        history = worker.store.history
        # Another live job holds the key in one tenant, not in the other.
        await worker.enqueue(key="k", tenant=a)
        assert await history.redrive(task="t", tenant=1) == []
        redriven = await history.redrive(task="t")
        assert {each.tenant: each.revived for each in redriven} == {a: False, b: True}
        assert await owners(worker, "dead") == {a}
        assert await worker.value("select count(*) from sexton.job where tenant_id = $1", b) == 1


async def test_what_is_asked_for_one_tenant_touches_no_other(address: Address) -> None:
    async with hands(address) as worker:
        a, b = await tenants(worker, 2)
        live = (await worker.enqueue(tenant=a)).id
        died = (await worker.enqueue(tenant=a)).id
        [first, second] = await claimed(worker, a)
        dying = first if first.id == died else second
        await worker.settle(dying, Failed("no", permanent=True))
        jobs, history = worker.store.jobs, worker.store.history
        assert await jobs.cancel([live], tenant=b) == {}
        assert await history.job(live, tenant=b) is None
        assert await history.job(died, tenant=b) is None
        assert await history.jobs(tenant=b) == []
        assert await history.dead(tenant=b) == []
        assert await history.counts(tenant=b) == {}
        assert await history.purge([died], tenant=b) == []
        assert await history.redrive(ids=[died], tenant=b) == []
        assert await history.stuck(0.0, tenant=b) == []
        assert await jobs.live_in(b, 10) == 0
        view = await history.job(died, tenant=a)
        assert view is not None
        assert len(view.attempts) == 1
        assert await jobs.cancel([live], tenant=a) == {live: worker.worker}
        assert await history.purge([died], tenant=a) == [died]
        assert await jobs.live_in(a, 10) == 1


async def test_live_jobs_are_counted_no_further_than_asked(address: Address) -> None:
    async with hands(address) as worker:
        [a] = await tenants(worker, 1)
        for each in (1, 1, 1, a, a):
            await worker.enqueue(tenant=each)
        assert await worker.store.jobs.live_in(1, 10) == 3
        assert await worker.store.jobs.live_in(1, 2) == 2
        assert await worker.store.jobs.live_in(a, 10) == 2
        assert await worker.store.jobs.live_in(a, 0) == 0


async def test_an_attempt_that_is_lost_is_the_tenants_and_so_is_the_job_after_it(
    address: Address,
) -> None:
    from sexton.flow import reap

    async with hands(address) as worker, hands(address) as doomed:
        [a] = await tenants(worker, 1)
        await worker.enqueue(tenant=a)
        await claimed(doomed, a)
        await worker.rows(
            "update sexton.worker set lease_until = now() - interval '1 h', lease_for = '0 s' "
            "where id = $1",
            doomed.worker,
        )
        assert await reap.run_once(worker.store) == 1
        assert await owners(worker, "attempt") == {a}
        [again] = await claimed(worker, a)
        assert again.attempt == 2


async def test_a_task_sees_whose_job_it_runs(address: Address) -> None:
    async with hands(address) as worker:
        [a] = await tenants(worker, 1)
        enqueued = await worker.enqueue(tenant=a)
        claim = await worker.store.jobs.claim_one(enqueued.id, worker.worker)
        assert claim is not None
        assert claim.tenant == a
        assert Retry().max_attempts  # the policy is the task's, whoever's job it is
