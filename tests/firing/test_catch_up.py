"""Misfires: marked by their owner, released by the leader at one rate, fair between tenants."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest

from sexton import sql
from sexton.domain.partition import EVERY
from sexton.flow import catch_up
from sexton.store.connection import Address
from sexton.store.due import Guard

from . import schedules
from .hands import Hands, hands

ALL = {"misfire": "all", "overlap": "allow"}


@dataclass
class Stopwatch:
    """The governor's own clock, which the test winds."""

    now: float = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Stopwatch:
    stopwatch = Stopwatch()
    monkeypatch.setattr(catch_up, "time", SimpleNamespace(monotonic=stopwatch.monotonic))
    return stopwatch


async def late(node: Hands, seconds: float, count: int = 1, **given: Any) -> list[int]:
    """Schedules that have been due for so long, and marked so."""
    ids = await schedules.add(node.store.source, node.at(-seconds), count=count, **given)
    assert await node.mark_late() == count
    return ids


# ── marking ─────────────────────────────────────────────────────────────────


async def test_what_is_behind_by_more_than_an_ordinary_delay_is_the_leaders(
    address: Address,
) -> None:
    async with hands(address) as node:
        ids = {seconds: await node.add(node.at(-seconds)) for seconds in (9.9, 10.1, 5000, -5)}
        assert await node.mark_late() == 2
        rows = await node.rows("select schedule_id from sexton.due where late")
        assert {row[0] for row in rows} == {ids[10.1], ids[5000]}
        assert {row.id for row in await node.read()} == {ids[9.9]}
        assert {row.id for row in await node.store.due.late(10)} == {ids[10.1], ids[5000]}
        assert await node.mark_late() == 0


async def test_only_an_owner_marks_and_only_its_own(address: Address) -> None:
    async with hands(address) as node:
        for partition in (1, 2, 3):
            await node.add(node.at(-60), partition=partition)
        assert await node.store.due.mark_late(node.guard, [1, 3], 10, 5) == 2
        stale = node.guard
        await node.own()
        assert await node.store.due.mark_late(stale, EVERY, 10, 5) == 0
        assert await node.mark_late() == 1


async def test_an_ordinary_delay_is_no_misfire_whatever_the_policy(address: Address) -> None:
    """A failover takes less: its fires come late, all of them, in order."""
    async with hands(address) as node:
        id = await node.add(node.at(-9), policy={"misfire": "skip", "overlap": "allow"})
        while (await node.fire()).jobs:
            pass
        assert await node.ledger(id) == [(n, "fired", "due") for n in range(-9, 1)]


async def test_what_is_late_does_not_hide_what_is_due_next(address: Address) -> None:
    """A node that has not marked it yet must not sleep because of it."""
    async with hands(address) as node:
        await node.add(node.at(-3600))
        assert await node.store.due.next_in(EVERY, within=60) is None
        await node.add(node.at(0.7))
        assert await node.store.due.next_in(EVERY, within=60) == pytest.approx(0.7)
        await node.add(node.at(-2))
        assert await node.store.due.next_in(EVERY, within=60) == pytest.approx(-2)


# ── what the policies say ───────────────────────────────────────────────────


async def test_each_policy_makes_its_own_of_an_outage(address: Address) -> None:
    async with hands(address) as node:
        ids = {
            misfire: (await late(node, 30, policy={"misfire": misfire, "overlap": "allow"}))[0]
            for misfire in ("latest", "skip", "all")
        }
        await node.catch_up()
        assert await node.ledger(ids["latest"]) == [(0, "fired", "catch_up")]
        assert await node.gaps(ids["latest"]) == [(-30, -1, 30, "coalesced")]
        assert await node.ledger(ids["skip"]) == []
        assert await node.gaps(ids["skip"]) == [(-30, 0, 31, "missed")]
        assert await node.ledger(ids["all"]) == [(n, "fired", "catch_up") for n in range(-30, 1)]
        assert await node.gaps(ids["all"]) == []
        for id in ids.values():
            due = await node.due(id)
            assert (due["next_fire_at"], due["late"]) == (node.at(1), False)
        node.clock.advance(1)
        assert (await node.fire()).jobs == 3


async def test_what_is_beyond_the_grace_is_missed_and_the_rest_is_made_up_for(
    address: Address,
) -> None:
    async with hands(address) as node:
        grace = {"grace": 5, "overlap": "allow"}
        latest = await node.add(node.at(-30), policy=grace)
        each = await node.add(node.at(-30), policy={**grace, "misfire": "all"})
        hourly = await node.add(node.at(-1800), when="0,30 * * * *", policy={"grace": "10m"})
        await node.mark_late()
        await node.catch_up()
        assert await node.ledger(latest) == [(0, "fired", "catch_up")]
        assert await node.gaps(latest) == [(-30, -6, 25, "missed"), (-5, -1, 5, "coalesced")]
        assert await node.ledger(each) == [(n, "fired", "catch_up") for n in range(-5, 1)]
        assert await node.gaps(each) == [(-30, -6, 25, "missed")]
        assert await node.ledger(hourly) == [(0, "fired", "catch_up")]
        assert await node.gaps(hourly) == [(-1800, -1800, 1, "missed")]


async def test_a_one_shot_within_its_grace_is_made_up_for_and_one_beyond_has_ended(
    address: Address,
) -> None:
    async with hands(address) as node:
        young = await node.add(node.at(-600), when={"at": node.at(-600)})
        old = await node.add(node.at(-7200), when={"at": node.at(-7200)})
        await node.mark_late()
        await node.catch_up()
        assert await node.ledger(young) == [(-600, "fired", "catch_up")]
        assert await node.gaps(old) == [(-7200, -7200, 1, "missed")]
        for id in (young, old):
            assert (await node.schedule(id))["state"] == "ended"


async def test_a_maximum_of_fires_holds_while_it_catches_up(address: Address) -> None:
    async with hands(address) as node:
        [id] = await late(node, 30, policy=ALL, max_fires=4)
        await node.catch_up()
        assert await node.ledger(id) == [(n, "fired", "catch_up") for n in range(-30, -26)]
        assert (await node.schedule(id))["state"] == "ended"


async def test_jobs_that_live_overlap_with_misfires_too(address: Address) -> None:
    async with hands(address) as node:
        [id] = await late(node, 12, policy={"misfire": "all"})
        await node.catch_up()
        assert await node.decisions(id) == ["fired", *["overlap"] * 12]


async def test_one_that_cannot_be_computed_does_not_stop_the_recovery(address: Address) -> None:
    async with hands(address) as node:
        [bad] = await late(node, 30, text='{"when":{"cron":"61 * * * *"}}')
        [odd] = await late(node, 29, policy=ALL)
        await node.rows("update sexton.due set anchor = 'infinity' where schedule_id = $1", odd)
        [good] = await late(node, 28)
        await node.catch_up(rate=20)
        assert await node.ledger(good) == [(0, "fired", "catch_up")]
        for id in (bad, odd):
            assert (await node.schedule(id))["state"] == "quarantined"


# ── the governor ────────────────────────────────────────────────────────────


async def released(node: Hands, watch: Stopwatch, seconds: float, step: float = 0.05) -> int:
    """How many jobs so many seconds bring."""
    before: int = await node.value("select count(*) from sexton.job")
    for _ in range(round(seconds / step)):
        watch.now += step
        await node.governor.run_once(node.lead)
    after: int = await node.value("select count(*) from sexton.job")
    return after - before


async def test_misfires_leave_at_the_rate_and_no_faster(address: Address, watch: Stopwatch) -> None:
    async with hands(address) as node:
        await late(node, 60, count=400)
        await node.set_rate(100)
        assert await released(node, watch, 1.0) == pytest.approx(100, abs=1)
        watch.now += 600
        assert await released(node, watch, 0.05) == 10, "idle time is not saved up"
        assert await released(node, watch, 1.0, step=0.001) == pytest.approx(100, abs=1)


async def test_a_slow_rate_is_kept_by_a_leader_that_was_just_elected(
    address: Address, watch: Stopwatch
) -> None:
    async with hands(address) as node:
        await late(node, 60, count=20)
        for _ in range(3):
            await node.set_rate(0.5)
            assert await released(node, watch, 10, step=0.5) == 5


async def test_without_a_rate_it_is_twice_the_usual_and_never_slower_than_fifty(
    address: Address,
) -> None:
    async with hands(address) as node:
        for usual, rate in ((0, 50), (10, 50), (40, 80), (1000, 2000)):
            await node.rows("update sexton.installation set usual_rate = $1", usual)
            await node.elect()
            await node.governor.run_once(node.lead)
            assert node.governor.rate == rate


async def test_what_is_usual_is_what_the_nodes_fired_over_the_last_minutes(
    address: Address, watch: Stopwatch
) -> None:
    async with hands(address) as node:
        fired = 0
        for _ in range(200):
            await node.governor.measure()
            watch.now += 30
            fired += 30 * 70
            await node.rows("update sexton.node set fired = $1", fired)
        assert await node.value("select usual_rate from sexton.installation") == pytest.approx(
            70, rel=0.01
        )
        assert node.governor.rate == pytest.approx(140, rel=0.01)
        watch.now += 30
        await node.rows("update sexton.node set fired = 0")
        await node.governor.measure()
        assert node.governor.rate == pytest.approx(140, rel=0.01), "a node that left is no change"
        watch.now += 30
        await node.set_rate(7)
        await node.governor.measure()
        assert node.governor.rate == 7


async def test_the_oldest_comes_first(address: Address, watch: Stopwatch) -> None:
    async with hands(address) as node:
        ages = [37, 91, 15, 62, 44, 88, 20, 71]
        ids = {age: (await late(node, age, when="0 0 * * *"))[0] for age in ages}
        await node.set_rate(20)
        order = []
        for _ in range(40):
            watch.now += 0.05
            await node.governor.run_once(node.lead)
            rows = await node.rows("select schedule_id from sexton.job order by id")
            order = [row[0] for row in rows]
        assert order == [ids[age] for age in sorted(ages, reverse=True)]


@pytest.mark.parametrize("rate", [10, 60, 1000])
async def test_no_tenants_backlog_hides_anothers(
    address: Address, watch: Stopwatch, rate: int
) -> None:
    """At any rate, however many tenants, and although one has far more and far older ones."""
    async with hands(address) as node:
        names = [f"tenant {n}" for n in range(11)]
        greedy, *others = await schedules.tenants(node.store.source, *names)
        await late(node, 3000, count=900, tenant=greedy)
        for n, tenant in enumerate(others):
            await late(node, 20 + n, count=6, tenant=tenant)
        await node.set_rate(rate)
        while not await node.rows("select from sexton.job offset 65"):
            watch.now += 0.05
            await node.governor.run_once(node.lead)
        shares = Counter(
            row[0]
            for row in await node.rows(
                "select job.tenant_id from (select * from sexton.job order by id limit 66) as job "
                "join sexton.schedule on schedule.id = job.schedule_id"
            )
        )
        assert set(shares) == {greedy, *others}
        if rate < 1000:
            assert set(shares.values()) == {6}


async def test_two_unequal_backlogs_together_use_the_whole_rate(
    address: Address, watch: Stopwatch
) -> None:
    async with hands(address) as node:
        small, large = await schedules.tenants(node.store.source, "small", "large")
        await late(node, 60, count=3, tenant=small)
        await late(node, 50, count=500, tenant=large)
        await node.set_rate(200)
        assert await released(node, watch, 1.0) == pytest.approx(200, abs=1)


async def test_what_makes_no_job_waits_for_no_allowance(address: Address, watch: Stopwatch) -> None:
    """A schedule that is only moved on fires again at its own time."""
    async with hands(address) as node:
        await late(node, 60, count=900, policy={"misfire": "skip"})
        await node.set_rate(10)
        watch.now += 0.1
        while await node.governor.run_once(node.lead):
            pass
        assert watch.now == 1000.1, "all of them, without waiting"
        assert await node.value("select count(*) from sexton.gap") == 900
        node.clock.advance(1)
        batch, more = await node.firer.plan(node.guard, EVERY)
        assert len(batch) == 900
        assert more


async def test_a_deposed_leader_releases_nothing_and_does_not_spin(
    address: Address, watch: Stopwatch
) -> None:
    async with hands(address) as node:
        await late(node, 60, count=5)
        deposed = node.lead
        await node.elect()
        for guard in (deposed, Guard(node.node + 1, None, node.lead.term)):
            watch.now += 1
            assert await node.governor.run_once(guard)
        assert await node.value("select count(*) from sexton.due where late") == 5
        assert await node.value("select count(*) from sexton.job") == 0


async def test_fires_that_are_due_now_do_not_wait_for_the_backlog(address: Address) -> None:
    async with hands(address) as node:
        await late(node, 600, count=300, policy=ALL, when="* * * * *")
        current = await schedules.add(node.store.source, node.at(1), count=20)
        await node.set_rate(50)
        made = 0
        for _ in range(3):
            node.clock.advance(1)
            await node.governor.run_once(node.lead)
            assert (await node.fire()).moved == 20
            made += 20
            await asyncio.sleep(0.02)  # something is earned meanwhile
        due = await node.rows(
            "select decided_at - fire_at as lag from sexton.fire where schedule_id = any ($1)",
            current,
        )
        assert len(due) == made
        assert not any(row["lag"] for row in due)
        assert await node.value("select count(*) from sexton.due where late") > 200


async def test_a_leader_that_vanished_while_it_looked_for_misfires_does_not_keep_them(
    address: Address,
) -> None:
    async with hands(address) as node:
        ids = await late(node, 60)
        vanished = await asyncpg.connect(address.url)
        await vanished.execute("begin")
        assert len(await vanished.fetch(sql.statement("late", "sexton"), 10, 0)) == 1
        assert await node.store.due.late(10) == []
        assert await node.store.cluster.evict(3600) == []
        assert len(await node.store.cluster.evict(0, 0)) == 1
        while not (found := await node.store.due.late(10)):
            pass
        assert [row.id for row in found] == ids
        vanished.terminate()
