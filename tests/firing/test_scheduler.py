"""A node by itself: on time, awake when it matters, and never stopped by one bad schedule."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from sexton import Sexton
from sexton.flow import scheduler as module

from . import schedules
from .live import ALLOW, OFTEN, SECOND, living

DOUBLED = """
select count(*) from (
    select schedule_id, fire_at from sexton.job group by 1, 2 having count(*) > 1) as twice
"""


@pytest.fixture
def app(database_url: str) -> Sexton:
    """Without polls to rely on: whatever happens in time was slept for, or woken up for."""
    return Sexton(database_url, lease=3, poll=30, patience=5)


# ── on time ─────────────────────────────────────────────────────────────────


async def test_every_fire_comes_once_in_order_and_never_early(app: Sexton) -> None:
    async with living(app) as live:
        first = await live.second()
        seconds = await schedules.add(live.connection, first, count=300, policy=ALLOW)
        often = await live.add(first, when=OFTEN, policy=ALLOW)
        await live.so("select count(*) >= 900 from sexton.fire")
        for id in (seconds[0], seconds[-1], often):
            step = timedelta(seconds=0.2) if id == often else SECOND
            rows = await live.connection.fetch(
                "select fire_at from sexton.fire where schedule_id = $1 order by fire_at", id
            )
            assert [row["fire_at"] for row in rows] == [first + n * step for n in range(len(rows))]
        assert await live.value("select bool_and(decided_at >= fire_at) from sexton.fire")
        assert await live.value("select bool_and(created_at >= fire_at) from sexton.job")
        assert await live.value(DOUBLED) == 0
        assert live.node.health.ready
        assert live.node.health.fired >= 900


async def test_a_schedule_added_by_somebody_else_wakes_the_node_at_once(app: Sexton) -> None:
    """Its poll is half a minute away, and so is the next fire it knows of."""
    async with living(app) as live:
        await live.add(await live.second(25))
        while not live.node.health.notifications:
            await asyncio.sleep(0.01)
        for _ in range(3):
            began = await live.now()
            id = await live.add(began + 0.3 * SECOND, when={"at": began + 0.3 * SECOND})
            await live.decided(id, 1)
            assert await live.now() - began < 10 * SECOND


async def test_a_schedule_that_is_moved_forward_wakes_the_node_too(app: Sexton) -> None:
    async with living(app) as live:
        began = await live.now()
        id = await live.add(began + 3600 * SECOND)
        while not live.node.health.notifications:
            await asyncio.sleep(0.01)
        await live.connection.execute(
            "update sexton.due set next_fire_at = date_trunc('second', now()) + interval '1 s', "
            "stamp = stamp + 1"
        )
        await live.connection.execute("select pg_notify('sexton.wake', 'schedule')")
        await live.decided(id, 1)
        assert await live.now() - began < 15 * SECOND


async def test_a_node_that_hears_nothing_polls(database_url: str) -> None:
    deaf = Sexton(database_url, pooler=True, poll=0.2, patience=5)
    async with living(deaf) as live:
        assert not live.node.health.notifications
        await live.decided(await live.add(await live.soon(), when=OFTEN), 2)


async def test_reading_ahead_is_no_reason_to_read_all_the_time(
    app: Sexton, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More are due at the next second than are read at once: they are slept for all the same."""
    async with living(app) as live:
        plans, plan = 0, live.node.firer.plan

        async def counted(*args: Any) -> Any:
            nonlocal plans
            plans += 1
            return await plan(*args)

        monkeypatch.setattr(live.node.firer, "plan", counted)
        first = await live.second()
        await schedules.add(live.connection, first, count=40, policy=ALLOW, partition=7)
        await live.so("select count(*) >= 120 from sexton.fire")
        seconds = (await live.now() - first) / SECOND + 2
        assert plans < 15 * seconds


async def test_a_backlog_does_not_delay_what_is_due_now(app: Sexton) -> None:
    async with living(app) as live:
        await live.connection.execute("update sexton.installation set catch_up_rate = 20")
        late = await schedules.add(
            live.connection,
            await live.second(-601),
            count=500,
            when="* * * * *",
            policy={"misfire": "all", "overlap": "allow"},
        )
        current = await schedules.add(
            live.connection, await live.soon(), count=50, when=OFTEN, policy=ALLOW
        )
        while await live.fires(*current) < 500:
            await asyncio.sleep(0.05)
        lag = await live.value(
            "select percentile_cont(0.5) within group (order by extract(epoch from decided_at - "
            "fire_at)) from sexton.fire where schedule_id = any ($1)",
            current,
        )
        assert lag < 3.0
        await live.so("select count(*) > 20 from sexton.fire where kind = 'catch_up'")
        assert await live.value("select count(*) from sexton.due where late") > 300
        order = await live.value(
            "select count(*) from sexton.fire where schedule_id = any ($1) and kind = 'due'", late
        )
        assert order == 0


async def test_what_has_caught_up_is_fired_on_time_by_an_owner_that_was_asleep(app: Sexton) -> None:
    """The leader moves it on: its owner, maybe another node, has to hear of that."""
    async with living(app) as live:
        while not live.node.health.notifications:
            await asyncio.sleep(0.01)
        began = await live.now()
        id = await live.add(await live.second(-60), policy=ALLOW)
        await live.so("select count(*) > 2 from sexton.fire where kind = 'due'")
        assert await live.now() - began < 15 * SECOND, "its poll is half a minute away"
        assert (await live.decided(id, 1)) == ["fired"]


# ── what goes wrong ─────────────────────────────────────────────────────────


async def test_one_that_cannot_be_computed_is_quarantined_and_the_others_go_on(
    app: Sexton, caplog: pytest.LogCaptureFixture
) -> None:
    async with living(app) as live:
        first = await live.soon()
        good = await live.add(first, when=OFTEN, policy=ALLOW)
        bad = await live.add(first, text='{"when":{"cron":"0 0 31 2 *"}}')
        unwritable = await live.add(first, policy=ALLOW)
        await live.connection.execute(
            "update sexton.schedule set expires_in = '293000 years' where id = $1", unwritable
        )
        assert await live.decided(good, 3) == ["fired"] * 3
        for id in (bad, unwritable):
            await live.so("select state = 'quarantined' from sexton.schedule where id = $1", id)
            assert not await live.fires(id)
        assert caplog.text.count("is quarantined") == 2


async def test_an_edit_that_takes_its_time_holds_up_only_its_own_schedule(app: Sexton) -> None:
    async with living(app) as live:
        first = await live.soon()
        others = [await live.add(first, when=OFTEN, policy=ALLOW) for _ in range(5)]
        held = await live.add(first, when=OFTEN, policy=ALLOW)
        await live.decided(held, 2)
        async with live.connection.transaction():
            await live.connection.execute(
                "select from sexton.due where schedule_id = $1 for update", held
            )
            # It is met once, which takes as long as a lock is waited for; then no more.
            until = await live.now() + 4 * SECOND
            for id in others:
                await live.so(
                    "select max(fire_at) > $2 from sexton.fire where schedule_id = $1", id, until
                )
            stalls = await live.value(
                "select count(distinct fire_at) from sexton.fire "
                "where schedule_id = any ($1) and fire_at > $2 "
                "and decided_at - fire_at > interval '900 milliseconds'",
                *(others, until - 2 * SECOND),
            )
            assert not stalls
        await live.so(
            "select max(fire_at) > $2 from sexton.fire where schedule_id = $1", *(held, until)
        )


async def test_a_fire_that_takes_longer_than_a_lease_is_not_taken_for_a_session_that_vanished(
    database_url: str,
) -> None:
    app = Sexton(database_url, node_lease=1, poll=1, patience=20)
    async with living(app) as live:
        await live.connection.execute(
            "create function slow() returns trigger language plpgsql as "
            "$$ begin perform pg_sleep(2.5); return new; end $$; "
            "create trigger slow before insert on sexton.job for each row execute function slow()"
        )
        id = await live.add(await live.soon(), when={"every": 600}, policy=ALLOW)
        assert await live.decided(id, 1) == ["fired"]


async def test_firing_does_not_wait_for_what_else_the_node_does(app: Sexton) -> None:
    """A new rule is read while a statement of the keeping takes its time."""
    async with living(app) as live:
        await live.decided(await live.add(await live.soon(), when=OFTEN, policy=ALLOW), 1)
        slow = asyncio.create_task(live.node._store.source.fetch("select pg_sleep(20)"))
        fresh = await live.add(await live.soon(), when={"every": 0.3}, policy=ALLOW)
        assert await live.decided(fresh, 2) == ["fired", "fired"]
        assert not slow.done()
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)


async def test_a_node_that_cannot_fire_says_so_and_goes_on_by_itself(
    app: Sexton, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STUCK_AFTER", 0.5)
    quick = Sexton(app.settings.database_url, poll=0.2, patience=5)
    async with living(quick) as live:
        id = await live.add(await live.soon(), when=OFTEN, policy=ALLOW)
        await live.decided(id, 1)
        assert live.node.health.ready
        await live.connection.execute("alter table sexton.due rename to hidden")
        while live.node.health.ready:
            await asyncio.sleep(0.01)
        assert not live.node.health.turning
        await live.connection.execute("alter table sexton.hidden rename to due")
        known = await live.value("select count(*) from sexton.fire")
        await live.decided(id, known + 2)
        while not live.node.health.ready:
            await asyncio.sleep(0.01)


async def test_a_node_that_is_told_to_stop_hands_over_and_another_goes_on(app: Sexton) -> None:
    async with living(app) as live:
        first = await live.soon()
        ids = await schedules.add(live.connection, first, count=100, when=OFTEN, policy=ALLOW)
        await live.so("select count(*) >= 200 from sexton.fire")
        other = await app.scheduler(name="other")
        running = asyncio.create_task(other.run())
        await other.started.wait()
        live.node.stop()
        known = await live.value("select count(*) from sexton.fire")
        await live.so("select count(*) >= $1 from sexton.fire", known + 300)
        assert not live.node.health.ready
        other.stop()
        await running
        assert await live.value("select count(*) from sexton.node where gone_why = 'lost'") == 0
        assert await live.value("select count(*) from sexton.ownership") == 0
        rows = await live.connection.fetch(
            "select schedule_id, count(*), count(distinct fire_at), "
            "round(extract(epoch from max(fire_at) - min(fire_at)) / 0.2) + 1 as span "
            "from sexton.fire group by 1"
        )
        assert {row["schedule_id"] for row in rows} == {*ids}
        assert all(row["count"] == row["span"] for row in rows)
        assert await live.value(DOUBLED) == 0


# ── the end, and pauses ─────────────────────────────────────────────────────


async def test_a_maximum_of_fires_is_kept_and_ends_the_schedule(app: Sexton) -> None:
    async with living(app) as live:
        first = await live.soon()
        three = await live.add(first, when=OFTEN, policy=ALLOW, max_fires=3)
        other = await live.add(first, when=OFTEN, policy=ALLOW)
        await live.so("select state = 'ended' from sexton.schedule where id = $1", three)
        await live.decided(other, 10)
        assert await live.decided(three, 3) == ["fired"] * 3
        assert await live.fires(three) == 3


async def test_a_paused_schedule_does_not_fire_until_it_is_resumed(app: Sexton) -> None:
    @app.task
    async def beat() -> None: ...

    async with living(app) as live:
        added = await app.schedules.add("beat", beat, every=0.2, overlap="allow")
        other = await app.schedules.add("other", beat, every=0.2, overlap="allow")
        await live.decided(added.id, 3)
        await app.schedules.pause("beat", reason="a test")
        paused_at = await live.now()
        await live.decided(other.id, await live.fires(other.id) + 6)
        await app.schedules.resume("beat")
        resumed_at = await live.now()
        await live.decided(added.id, await live.fires(added.id) + 3)
        assert not await live.value(
            "select count(*) from sexton.fire where schedule_id = $1 and decision = 'fired' "
            "and (decided_at between $2 and $3 or fire_at between $2 and $3)",
            *(added.id, paused_at, resumed_at),
        )
        gap = await live.connection.fetchrow(
            "select * from sexton.gap where schedule_id = $1 and decision = 'paused'", added.id
        )
        assert gap is not None
        assert gap["fires"] >= 5
