"""Who has as many live jobs as it may gets no more of its fires, and each of them is recorded."""

from datetime import timedelta

import pytest

from sexton import Sexton
from sexton.flow import quota
from sexton.flow.quota import Quotas
from sexton.flow.rules import Rules
from sexton.store.connection import Address

from ..firing import schedules
from ..firing.hands import Hands, hands
from ..firing.live import living

ALLOW = {"overlap": "allow"}


async def tenant(node: Hands, most: int | None, name: str = "a") -> int:
    [id] = await schedules.tenants(node.store.source, name)
    await node.rows("update sexton.tenant set max_live_jobs = $2 where id = $1", id, most)
    return id


async def count(node: Hands, quotas: Quotas) -> None:
    await quotas.run_once(node.store, Rules(node.store), node.lead)


async def is_over(node: Hands, id: int) -> bool:
    return bool(await node.value("select over_quota from sexton.tenant where id = $1", id))


async def test_over_its_quota_a_tenants_fires_are_decided_once_and_make_no_jobs(
    address: Address,
) -> None:
    async with hands(address) as node:
        a, b = await tenant(node, 3), await tenant(node, 3, "b")
        id = await node.add(node.now, tenant=a, policy=ALLOW)
        other = await node.add(node.now, tenant=b, policy=ALLOW)
        quotas = Quotas()
        for second in range(6):
            await node.fire()
            await count(node, quotas)
            assert await is_over(node, a) == (second >= 2)
            if second == 1:
                await node.claim()
            await node.rows("delete from sexton.job where tenant_id = $1", b)
            node.clock.advance(1.0)
        assert await node.decisions(id) == ["fired"] * 3 + ["quota"] * 3
        assert await node.decisions(other) == ["fired"] * 6
        assert len(await node.jobs(id)) == 3
        # Every fire has one decision, and what was not fired has no job.
        assert await node.value("select count(*) from sexton.fire where schedule_id = $1", id) == 6
        assert not await node.rows(
            "select from sexton.fire where decision = 'quota' and job_id is not null"
        )
        # Below it again, they make jobs again.
        await node.rows("delete from sexton.job where tenant_id = $1", a)
        await count(node, quotas)
        assert not await is_over(node, a)
        await node.fire()
        assert (await node.decisions(id))[-1] == "fired"


async def test_fires_that_are_caught_up_obey_the_quota_too(address: Address) -> None:
    async with hands(address) as node:
        a = await tenant(node, 0)
        id = await node.add(node.at(-60), tenant=a, when={"every": 30.0}, policy={"misfire": "all"})
        await count(node, Quotas())
        await node.mark_late()
        await node.catch_up()
        assert set(await node.decisions(id)) == {"quota"}
        assert not await node.jobs(id)


async def test_an_overlap_stays_an_overlap(address: Address) -> None:
    async with hands(address) as node:
        a = await tenant(node, 1)
        id = await node.add(node.now, tenant=a, policy={"overlap": "skip"})
        await node.fire()
        await count(node, Quotas())
        node.clock.advance(1.0)
        await node.fire()
        assert await node.decisions(id) == ["fired", "overlap"]


async def test_a_fire_refused_for_its_quota_uses_up_no_fire(address: Address) -> None:
    async with hands(address) as node:
        a = await tenant(node, 0)
        id = await node.add(node.now, tenant=a, policy=ALLOW, max_fires=2)
        await count(node, Quotas())
        await node.fire()
        assert (await node.due(id))["fires_left"] == 2
        await node.rows("update sexton.tenant set max_live_jobs = null")
        await count(node, Quotas())
        await node.fire_until(node.at(5))
        assert await node.decisions(id) == ["quota", "fired", "fired"]


async def test_a_backfill_waits_until_there_is_room(app: Sexton) -> None:
    async with living(app) as live:
        await schedules.tenants(live.connection, "a")
        await app.schedules.add("s", "t", every="1m", tenant="a")
        await live.connection.execute("update sexton.tenant set max_live_jobs = 0 where name = 'a'")
        await live.so("select over_quota from sexton.tenant where name = 'a'")
        now = await live.now()
        await app.schedules.backfill(
            "s", now - timedelta(minutes=10), now - timedelta(minutes=5), tenant="a"
        )
        await live.connection.execute(
            "update sexton.tenant set max_live_jobs = 1000 where name = 'a'"
        )
        await live.so("select bool_and(finished_at is not null) from sexton.backfill")
        [backfill] = await app.schedules.backfills("s", tenant="a")
        assert backfill.fired == await live.value("select count(*) from sexton.job") > 0


async def test_the_first_tenant_has_a_quota_too_if_somebody_sets_one(address: Address) -> None:
    async with hands(address) as node:
        await node.rows("update sexton.tenant set max_live_jobs = 2 where id = 1")
        id = await node.add(node.now, policy=ALLOW)
        quotas = Quotas()
        for _ in range(4):
            await node.fire()
            await count(node, quotas)
            node.clock.advance(1.0)
        assert await node.decisions(id) == ["fired", "fired", "quota", "quota"]


async def test_who_has_room_is_counted_seldom_and_who_has_not_all_the_time(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopwatch:
        now = 1000.0

        def monotonic(self) -> float:
            return self.now

    watch = Stopwatch()
    monkeypatch.setattr(quota, "time", watch)
    async with hands(address) as node:
        roomy, full = await tenant(node, 1_000_000), await tenant(node, 0, "b")
        counted: list[list[int]] = []
        real = node.store.jobs.count_quotas

        async def spy(tenants: list[int]) -> object:
            counted.append(sorted(tenants))
            return await real(tenants)

        monkeypatch.setattr(node.store.jobs, "count_quotas", spy)
        quotas = Quotas()
        for _ in range(25):
            await count(node, quotas)
            watch.now += 1.0
        assert len(counted) == 25
        assert sum(roomy in each for each in counted) == 2
        assert all(full in each for each in counted)
        # A quota that has changed is looked at at once.
        await node.rows("update sexton.tenant set max_live_jobs = 0 where id = $1", roomy)
        await count(node, quotas)
        assert await is_over(node, roomy)


async def test_two_leaders_who_count_at_once_agree(address: Address) -> None:
    """The old one's count was on its way when the new one had said the same."""
    async with hands(address) as node:
        full = await tenant(node, 0)
        await count(node, Quotas())
        await node.rows("update sexton.tenant set max_live_jobs = 10 where id = $1", full)
        [by_the_old_one] = await node.store.jobs.count_quotas([full])
        old = node.lead
        await node.elect()
        await count(node, Quotas())
        assert not await is_over(node, full)
        assert await node.store.jobs.mark_quotas(old, [by_the_old_one]) == set()
        assert await node.store.jobs.mark_quotas(node.lead, [by_the_old_one]) == set()
        assert not await is_over(node, full)


async def test_one_that_leads_no_more_marks_nobody(address: Address) -> None:
    async with hands(address) as node:
        full = await tenant(node, 0)
        [counted] = await node.store.jobs.count_quotas([full])
        old, quotas = node.lead, Quotas()
        await node.elect()
        assert await node.store.jobs.mark_quotas(old, [counted]) == set()
        await quotas.run_once(node.store, Rules(node.store), old)
        assert not await is_over(node, full)
        await count(node, quotas)
        assert await is_over(node, full), "and it is looked at again when it does"


async def test_the_audit_and_the_explanation_know_the_decision(app: Sexton) -> None:
    async with living(app) as live:
        await schedules.tenants(live.connection, "a")
        await live.connection.execute("update sexton.tenant set max_live_jobs = 0 where name = 'a'")
        await live.so("select over_quota from sexton.tenant where name = 'a'")
        began = await live.now()
        await app.schedules.add("s", "t", cron="* * * * * *", tenant="a")
        await live.so("select count(*) >= 2 from sexton.fire where decision = 'quota'")
        ended = (await live.now()).replace(microsecond=0)
        audit = await app.audit(began, ended)
        assert (audit.missing, audit.doubled, audit.early) == (0, 0, 0)
        explanation = await app.explain("s", ended - timedelta(seconds=1), tenant="a")
        assert "over its quota" in str(explanation)
