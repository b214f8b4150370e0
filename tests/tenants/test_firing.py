"""One tenant's stampede does not delay another's fires; jobs are those of the schedule's tenant."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from sexton import Sexton
from sexton.domain.partition import EVERY
from sexton.flow.fire import READ
from sexton.store.connection import Address

from ..firing import schedules
from ..firing.hands import Hands, hands
from ..firing.live import living

ONCE = {"every": 86400.0}
ONE_EACH = """
with made as (
    insert into sexton.schedule (
        tenant_id, name, since, created_at, rule_id, anchor, task, said)
    select t.id, 's', $1, $1, (select min(id) from sexton.rule), $1, 't', '{}'
    from unnest($2::int[]) as t (id)
    returning id, tenant_id, rule_id, anchor
)
insert into sexton.due (schedule_id, tenant_id, next_fire_at, anchor, rule_id, partition)
select id, tenant_id, $1, anchor, rule_id, id % 256 from made
"""
BEFORE = """
with decided as (
    select schedule.tenant_id, fire.decided_at
    from sexton.fire
    join sexton.schedule on schedule.id = fire.schedule_id
)
select count(*) from decided
where tenant_id = $1
    and decided_at < (select max(decided_at) from decided where tenant_id <> $1)
"""


async def jobs_of(node: Hands, *tenants: int) -> list[int]:
    rows = await node.rows("select tenant_id, count(*) from sexton.job group by 1")
    counts = {row["tenant_id"]: row["count"] for row in rows}
    return [counts.get(tenant, 0) for tenant in tenants]


async def add(node: Any, first: datetime, count: int, tenant: int) -> list[int]:
    source = getattr(node, "connection", None) or node.store.source
    return await schedules.add(
        source, first, count=count, when=ONCE, policy={"overlap": "allow"}, tenant=tenant
    )


@pytest.mark.parametrize("later", [0.0, 0.4])
async def test_the_few_fires_of_others_go_with_the_first_of_a_stampede(
    address: Address, later: float
) -> None:
    async with hands(address) as node:
        a, b = await schedules.tenants(node.store.source, "a", "b")
        await add(node, node.now, 12_000, a)
        few = node.now + timedelta(seconds=later)
        await add(node, few, 10, b)
        await add(node, few, 10, 1)
        node.clock.advance(later)
        await node.fire()
        of_a, *others = await jobs_of(node, a, b, 1)
        assert others == [10, 10]
        assert of_a < 6000
        while (await node.fire()).moved:
            pass
        assert await jobs_of(node, a, b, 1) == [12_000, 10, 10]


async def test_a_stampede_of_the_first_tenant_delays_nobody_either(address: Address) -> None:
    async with hands(address) as node:
        [b] = await schedules.tenants(node.store.source, "b")
        await add(node, node.now, 12_000, 1)
        await add(node, node.now, 10, b)
        await node.fire()
        assert (await jobs_of(node, b))[0] == 10


async def test_two_stampedes_advance_together(address: Address) -> None:
    async with hands(address) as node:
        a, b = await schedules.tenants(node.store.source, "a", "b")
        await add(node, node.now, 8000, a)
        await add(node, node.now + timedelta(milliseconds=1), 8000, b)
        node.clock.advance(1.0)
        for _ in range(6):
            await node.fire()
        of_a, of_b = await jobs_of(node, a, b)
        assert of_a + of_b > 6000
        assert abs(of_a - of_b) < 2500
        while (await node.fire()).moved:
            pass
        assert await jobs_of(node, a, b) == [8000, 8000]


async def test_with_one_tenant_nothing_is_read_twice(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hands(address) as node:
        await add(node, node.now, 3 * READ, 1)

        async def never(*args: Any, **given: Any) -> Any:
            raise AssertionError("there is nobody to share with")

        monkeypatch.setattr(node.firer._store.due, "due_of", never)
        while (await node.fire()).moved:
            pass
        assert await jobs_of(node, 1) == [3 * READ]


async def test_a_node_with_some_of_the_partitions_fires_only_those_for_every_tenant(
    address: Address,
) -> None:
    async with hands(address) as node:
        a, b = await schedules.tenants(node.store.source, "a", "b")
        await add(node, node.now, 6000, a)
        await add(node, node.now, 512, b)
        mine = list(EVERY)[::4]
        await node.own(mine)
        moved = 1
        while moved:
            batch, _ = await node.firer.plan(node.guard, mine)
            assert {id % 256 for id in batch.ids} <= set(mine)
            moved = (await node.firer.fire(node.guard, batch)).moved
        assert await jobs_of(node, a, b) == [1500, 128]


async def test_a_thousand_tenants_fire_in_the_same_instant_beside_a_stampede(
    address: Address,
) -> None:
    async with hands(address) as node:
        [a, *others] = await schedules.tenants(
            node.store.source, *(f"tenant {n}" for n in range(1001))
        )
        await add(node, node.now, 10_000, a)
        await node.rows(
            ONE_EACH,
            *(node.now, list(others)),
        )
        for _ in range(2):
            await node.fire()
        of_a, *rest = await jobs_of(node, a, *others)
        assert set(rest) == {1}
        assert of_a < 8000


async def test_a_job_belongs_to_its_schedules_tenant_however_it_was_fired(
    address: Address, app: Sexton
) -> None:
    async with hands(address) as node, app:
        [a] = await schedules.tenants(node.store.source, "a")
        await app.schedules.add("s", "t", every="1h", tenant="a")
        await app.schedules.trigger("s", tenant="a")
        await schedules.add(node.store.source, node.now, when=ONCE, tenant=a)
        await schedules.add(node.store.source, node.at(-60), when=ONCE, tenant=a)
        assert (await node.fire()).jobs == 1
        await node.mark_late()
        await node.catch_up()
        kinds = await node.rows("select kind::text from sexton.fire order by 1")
        assert {row[0] for row in kinds} == {"due", "trigger", "catch_up"}
        rows = await node.rows("select distinct tenant_id from sexton.job")
        assert [row[0] for row in rows] == [a]
        assert await node.value("select count(*) from sexton.job") == 3


async def test_a_stampede_by_the_clock(app: Sexton) -> None:
    """A real node: the others' fires are decided before most of the flood, and soon."""
    async with living(app) as live:
        a, b = await schedules.tenants(live.connection, "a", "b")
        at = await live.second(2)
        await add(live, at, 15_000, a)
        await add(live, at, 10, b)
        await add(live, at, 10, 1)
        await live.so("select count(*) = 15020 from sexton.fire")
        assert await live.value(BEFORE, a) < 5000
