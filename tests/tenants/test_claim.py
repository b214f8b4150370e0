"""Claims are fair between tenants, and cost no more with the number of those that are quiet."""

import math
from collections import Counter
from typing import Any

import pytest

from sexton.domain.job import AGEING, PRIORITIES
from sexton.flow import claim as claiming
from sexton.flow.tenants import AT_ONCE, VISITED
from sexton.store.connection import Address

from ..support.hands import hands
from .desks import by_tenant, claimer, done, flood, tenants

MOST_LANES = (AT_ONCE + VISITED) * len(PRIORITIES)


async def test_two_tenants_that_flood_a_queue_share_every_claim(address: Address) -> None:
    async with hands(address) as worker:
        a, b = await tenants(worker, 2)
        await flood(worker, a, 1000, ago=3600)
        await flood(worker, b, 1000, ago=60)
        takes = claimer(worker)
        for _ in range(5):
            assert by_tenant(await takes.run_once(100, worker.worker)) == {a: 50, b: 50}


async def test_who_has_less_than_its_share_leaves_the_rest_to_the_others(address: Address) -> None:
    async with hands(address) as worker:
        a, b, c = await tenants(worker, 3)
        await flood(worker, a, 1000)
        await flood(worker, b, 10)
        await flood(worker, c, 40)
        got = by_tenant(await claimer(worker).run_once(91, worker.worker))
        assert got == {a: 41, b: 10, c: 40}


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
async def test_in_claims_smaller_than_the_number_of_tenants_everybody_has_its_turn(
    address: Address, limit: int
) -> None:
    async with hands(address) as worker:
        everybody = await tenants(worker, 5)
        for n, tenant in enumerate(everybody):
            await flood(worker, tenant, 200, ago=3600 / (n + 1))
        takes = claimer(worker)
        got: Counter[int] = Counter()
        for _ in range(35):
            claims = await takes.run_once(limit, worker.worker)
            assert len(claims) == limit
            got += by_tenant(claims)
            assert max(got.values()) - min(got[each] for each in everybody) <= 1
        assert sum(got.values()) == 35 * limit


async def test_one_job_is_claimed_next_although_another_tenant_has_a_hundred_thousand_older_ones(
    address: Address,
) -> None:
    async with hands(address) as worker:
        a, b = await tenants(worker, 2)
        await flood(worker, a, 100_000, ago=3600)
        takes = claimer(worker)
        for limit in (1, 10, 500):
            for _ in range(3):
                await takes.run_once(limit, worker.worker)
            single = await worker.enqueue(tenant=b)
            claims = await takes.run_once(limit, worker.worker)
            if limit == 1 and not by_tenant(claims)[b]:  # it was the other's turn
                claims = await takes.run_once(limit, worker.worker)
            assert single.id in [claim.id for claim in claims]


async def test_the_first_tenant_is_one_like_the_others(address: Address) -> None:
    async with hands(address) as worker:
        [b] = await tenants(worker, 1)
        await flood(worker, 1, 300, ago=60)
        await flood(worker, b, 300, ago=3600)
        assert by_tenant(await claimer(worker).run_once(101, worker.worker)) in (
            {1: 50, b: 51},
            {1: 51, b: 50},
        )


async def test_within_a_tenant_age_decides_and_a_priority_is_a_head_start(address: Address) -> None:
    async with hands(address) as worker:
        a, b = await tenants(worker, 2)
        await flood(worker, b, 100)
        await flood(worker, a, 5, ago=AGEING * 2.5, priority=-1)
        await flood(worker, a, 5, ago=AGEING, priority=0)
        await flood(worker, a, 5, ago=AGEING * 0.1, priority=2)
        takes = claimer(worker)
        got: list[int] = []
        while len(got) < 15:
            claims = await takes.run_once(4, worker.worker)
            got += [claim.priority for claim in claims if claim.tenant == a]
        assert got == [2] * 5 + [-1] * 5 + [0] * 5


async def test_many_claimers_of_many_tenants_take_each_job_once(address: Address) -> None:
    import asyncio

    async with hands(address) as one, hands(address) as two, hands(address) as three:
        everybody = await tenants(one, 6)
        for tenant in everybody:
            await flood(one, tenant, 100)
        taken: list[int] = []

        async def work(worker: Any) -> None:
            takes = claimer(worker)
            while claims := await takes.run_once(7, worker.worker):
                taken.extend(claim.id for claim in claims)

        await asyncio.gather(work(one), work(two), work(three))
        assert len(taken) == len(set(taken)) == 600


async def test_a_worker_of_one_tenant_claims_nothing_of_another(address: Address) -> None:
    async with hands(address) as worker:
        a, b = await tenants(worker, 2)
        for tenant in (1, a, b):
            await flood(worker, tenant, 10)
        takes = claimer(worker, [b])
        await takes.sweep(worker.store, lambda: None)
        takes.stir(a)
        takes.relearn()
        assert by_tenant(await takes.run_once(100, worker.worker)) == {b: 10}
        assert not await takes.run_once(100, worker.worker)
        assert (await takes.next_due_in() or 0) > 0


class Spy:
    """Counts the lanes that are looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, store: Any) -> None:
        self.lanes: list[int] = []
        claim = store.jobs.claim

        async def counted(*args: Any) -> Any:
            self.lanes.append(len(args[3]))
            return await claim(*args)

        monkeypatch.setattr(store.jobs, "claim", counted)


async def test_a_thousand_tenants_cost_a_claim_no_more_than_a_few(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hands(address) as worker:
        everybody = await tenants(worker, 1000)
        astir = everybody[::50]
        for tenant in astir:
            await flood(worker, tenant, 100)
        takes = claimer(worker)
        spy = Spy(monkeypatch, worker.store)
        got: Counter[int] = Counter()
        for _ in range(10):
            claims = await takes.run_once(100, worker.worker)
            got += by_tenant(claims)
            await done(worker, claims)
        assert sum(got.values()) == 1000
        assert {49, 50, 51} >= {got[tenant] for tenant in astir}
        assert max(spy.lanes) <= MOST_LANES
        assert len(spy.lanes) == 10


async def test_of_more_tenants_than_a_claim_looks_at_each_has_its_turn(address: Address) -> None:
    async with hands(address) as worker:
        everybody = await tenants(worker, 100)
        for tenant in everybody:
            await flood(worker, tenant, 30)
        takes = claimer(worker)
        got: Counter[int] = Counter()
        for _ in range(30):
            claims = await takes.run_once(10, worker.worker)
            assert len(claims) == 10
            got += by_tenant(claims)
        assert got == dict.fromkeys(everybody, 3)


async def test_a_claim_is_filled_from_those_it_did_not_look_at_first(address: Address) -> None:
    async with hands(address) as worker:
        everybody = await tenants(worker, 100)
        for tenant in everybody:
            await flood(worker, tenant, 2)
        claims = await claimer(worker).run_once(150, worker.worker)
        assert len(claims) == 150


class Stopwatch:
    """A host's clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Stopwatch:
    watch = Stopwatch()
    monkeypatch.setattr(claiming, "time", watch)
    return watch


async def test_a_tenant_that_was_quiet_is_found_when_somebody_names_it(
    address: Address, watch: Stopwatch
) -> None:
    async with hands(address) as worker:
        everybody = await tenants(worker, 1000)
        takes = claimer(worker)
        assert not await takes.run_once(10, worker.worker)
        watch.now += 60
        for tenant in (everybody[7], everybody[990], everybody[7]):
            job = await worker.enqueue(tenant=tenant)
            takes.stir(tenant)  # as a notification does
            assert [claim.id for claim in await takes.run_once(10, worker.worker)] == [job.id]
            watch.now += 60  # and is forgotten again


async def test_a_tenant_of_whom_nobody_spoke_is_found_by_the_sweep_or_in_rotation(
    address: Address, watch: Stopwatch
) -> None:
    async with hands(address) as worker:
        everybody = await tenants(worker, 1000)
        takes = claimer(worker)
        await takes.run_once(10, worker.worker)
        watch.now += 60
        swept = await worker.enqueue(tenant=everybody[500])
        found: list[bool] = []
        await takes.sweep(worker.store, lambda: found.append(True))
        assert found
        assert [claim.id for claim in await takes.run_once(10, worker.worker)] == [swept.id]
        watch.now += 60
        visited = await worker.enqueue(tenant=everybody[400])
        for _ in range(math.ceil(1001 / AT_ONCE)):
            if claims := await takes.run_once(10, worker.worker):
                break
        assert [claim.id for claim in claims] == [visited.id]


async def test_of_many_quiet_tenants_the_first_job_to_be_due_is_known_beforehand(
    address: Address, watch: Stopwatch
) -> None:
    async with hands(address) as worker:
        everybody = await tenants(worker, 1000)
        for n, tenant in enumerate(everybody):
            await worker.enqueue(tenant=tenant, delay=3600.0 + n)
        takes = claimer(worker)
        assert not await takes.run_once(10, worker.worker)
        watch.now += 60
        for _ in range(10):  # nothing else is due soon
            await takes.run_once(10, worker.worker)
        takes._dry = 0
        assert 3500 < (await takes.next_due_in() or 0) < 3600
        # The instant comes, and nobody says so.
        watch.now += 3540
        await worker.rows("update sexton.job set due_at = now() where tenant_id = $1", everybody[0])
        assert by_tenant(await takes.run_once(10, worker.worker)) == {everybody[0]: 1}


async def test_new_tenants_are_known_after_a_notification_and_after_a_sweep(
    address: Address, watch: Stopwatch
) -> None:
    async with hands(address) as worker:
        takes = claimer(worker)
        await takes.run_once(10, worker.worker)
        for learn in (takes.relearn, lambda: None):
            [new] = await tenants(worker, 1)
            await worker.rows("update sexton.tenant set name = 'was ' || id where id > 1")
            job = await worker.enqueue(tenant=new)
            learn()
            if learn is not takes.relearn:
                await takes.sweep(worker.store, lambda: None)
            assert [claim.id for claim in await takes.run_once(10, worker.worker)] == [job.id]
            watch.now += 60


async def test_a_tenant_that_is_no_more_leaves_no_job_behind(
    address: Address, watch: Stopwatch
) -> None:
    async with hands(address) as worker:
        [gone] = await tenants(worker, 1)
        takes = claimer(worker)
        await takes.run_once(10, worker.worker)
        job = await worker.enqueue(tenant=gone)
        await worker.rows("delete from sexton.tenant where id = $1", gone)
        watch.now += 60
        await takes.sweep(worker.store, lambda: None)
        assert [claim.id for claim in await takes.run_once(10, worker.worker)] == [job.id]


async def test_each_tenants_lanes_begin_where_claiming_left_off(address: Address) -> None:
    """Dead entries of the index, which a long transaction keeps, are not walked over."""
    async with hands(address) as worker:
        a, b = await tenants(worker, 2)
        await flood(worker, a, 500, ago=60)
        await flood(worker, b, 500, ago=30)
        takes = claimer(worker)
        while claims := await takes.run_once(200, worker.worker):
            newest = {claim.tenant: claim.due for claim in claims}
            await done(worker, claims)
        for tenant, due in newest.items():
            assert abs(takes._since[tenant, 0].timestamp() - due) < 1
