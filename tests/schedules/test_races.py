"""Many at once: adds, updates, pauses and fires of one schedule; nothing twice, nothing lost."""

import asyncio
import itertools
from typing import Any

import asyncpg
import pytest

from sexton import InvalidSchedule, ScheduleView, Sexton
from sexton.domain.change import Standing, stopped
from sexton.domain.schedule import Rule
from sexton.store import Store
from sexton.store.connection import Address

from .desk import Desk, desk


async def waits(watching: asyncpg.Connection) -> None:
    """Until some statement waits for a lock."""
    while not await watching.fetchval("select count(*) from pg_locks where not granted"):
        await asyncio.sleep(0.005)


async def test_of_ten_adds_of_one_name_one_is_made(app: Sexton) -> None:
    async with app:

        async def add(n: int) -> ScheduleView:
            return await app.schedules.add("beat", "ring", {"n": n}, every=60 + n)

        done = await asyncio.gather(*map(add, range(10)), return_exceptions=True)
        made = [each for each in done if not isinstance(each, BaseException)]
        refused = [each for each in done if isinstance(each, InvalidSchedule)]
        assert (len(made), len(refused)) == (1, 9)
        assert await app.schedules.list() == made


async def test_of_ten_puts_of_one_name_the_last_holds_and_none_is_lost(app: Sexton) -> None:
    async with app:
        await asyncio.gather(
            *(app.schedules.put("beat", "ring", {"n": n}, every=60) for n in range(10))
        )
        versions = await app.schedules.versions("beat")
        assert [each.version for each in versions] == list(range(10, 0, -1))
        assert {each.payload["n"] for each in versions} == set(range(10))
        for newer, older in itertools.pairwise(versions):
            assert (older.until, older.ended_by) == (newer.since, "update")


async def test_two_updates_of_different_things_at_once_both_hold(app: Sexton) -> None:
    async with app:
        await app.schedules.add("beat", "ring", every=60)
        await asyncio.gather(
            app.schedules.update("beat", queue="q"),
            app.schedules.update("beat", priority=3),
            app.schedules.update("beat", arguments={"n": 1}),
            app.schedules.pause("beat", "why"),
        )
        found = await app.schedules.get("beat")
        assert (found.queue, found.priority, found.payload) == ("q", 3, {"n": 1})
        assert (found.state, found.version) == ("paused", 5)


async def test_ten_triggers_at_one_instant_are_ten_jobs(address: Address) -> None:
    async with desk(address) as d:
        await d.add(every=60)
        jobs = await asyncio.gather(*(d.schedules.trigger("beat") for _ in range(10)))
        assert len(set(jobs)) == len({at for at, _, _ in await d.ledger()}) == 10
        early = await d.hands.rows("select from sexton.fire where decided_at < fire_at")
        assert not early, "even where the instant was moved off a whole millisecond"


@pytest.mark.parametrize("verb", ["update", "pause", "cancel"])
async def test_a_verb_that_meets_a_fire_waits_for_it_and_knows_of_it(
    address: Address, verb: str
) -> None:
    async with desk(address) as d:
        id = await d.add(every=60)
        d.clock.advance(61)
        batch = await d.hands.plan()
        firing = await d.hands.connect()
        watching = await d.hands.connect()
        await firing.execute("begin")
        columns = batch.columns()
        marks = ", ".join(f"${n}" for n in range(1, len(columns) + 4))
        guard = d.hands.guard
        await firing.fetch(
            f"select * from sexton.fire({marks.replace('$3', '$3, ' + repr('due'), 1)}, null)",
            *(guard.node, guard.epoch, guard.term),
            *columns,
        )
        changing = asyncio.create_task(_do(d, verb))
        await waits(watching)
        await firing.execute("commit")
        await changing
        assert [row[1] for row in await d.ledger()] == ["fired"], "not also superseded"
        assert len(await d.jobs()) == 1
        assert (await d.hands.schedule(id))["version"] == 2


async def _do(d: Desk, verb: str) -> None:
    changes: dict[str, Any] = {"every": 45} if verb == "update" else {}
    await getattr(d.schedules, verb)("beat", **changes)


@pytest.mark.parametrize("verb", ["update", "pause", "cancel"])
async def test_a_fire_that_was_decided_before_a_verb_writes_nothing_after_it(
    address: Address, verb: str
) -> None:
    async with desk(address) as d:
        await d.add(every=60)
        d.clock.advance(60)
        batch = await d.hands.plan()
        assert len(batch) == 1
        await _do(d, verb)
        fired = await d.hands.firer.fire(d.hands.guard, batch)
        assert (fired.moved, fired.jobs, await d.jobs()) == (0, 0, [])
        assert [row[1] for row in await d.ledger()] == [
            "paused" if verb == "pause" else "superseded"
        ]


async def test_a_change_decided_before_a_fire_is_not_written_after_it(address: Address) -> None:
    async with desk(address) as d:
        await d.add(every=60)
        d.clock.advance(60)
        standing = await d.verbs.demand("beat")
        rule = await d.verbs.rule(standing)
        assert (await d.hands.fire()).jobs == 1

        def paused(standing: Standing, rule: Rule | None) -> Any:
            return stopped("pause", standing, standing.body, rule, "paused", None, left=None)

        assert not await d.hands.store.schedules.change(standing, paused(standing, rule))
        fresh = await d.verbs.demand("beat")
        assert await d.hands.store.schedules.change(fresh, paused(fresh, rule))
        assert [row[1] for row in await d.ledger()] == ["fired"]


async def test_edits_while_a_node_fires_leave_every_fire_one_decision(app: Sexton) -> None:
    """By the real clock: a node fires ten times a second, and four hands edit all the while."""
    options: dict[str, Any] = {"overlap": "allow", "misfire": "all"}
    async with app:
        await app.schedules.add("beat", "ring", every=0.1, **options)
        await app.schedules.add("still", "ring", every=0.1, **options)
        scheduler = await app.scheduler()
        running = asyncio.create_task(scheduler.run())
        try:
            await asyncio.wait_for(scheduler.started.wait(), 30)
            for n in range(25):
                await asyncio.gather(
                    app.schedules.update("beat", arguments={"n": n}),
                    app.schedules.update("beat", every=0.1 if n % 2 else 0.2),
                    app.schedules.trigger("beat"),
                    app.schedules.pause("beat") if n % 3 == 0 else app.schedules.resume("beat"),
                )
            while (await app.schedules.get("still")).last_fire_at is None:
                await asyncio.sleep(0.01)
        finally:
            scheduler.stop()
            await running
        source = (await app.client()).store.source
        [(jobs, distinct, fired, early)] = await source.fetch("""
            select count(job.id), count(distinct (job.schedule_id, job.fire_at)), count(*),
                count(*) filter (where fire.decided_at < fire.fire_at)
            from sexton.fire
            left join sexton.job on job.id = fire.job_id
            where fire.decision = 'fired'
            """)
        assert jobs == distinct == fired > 25
        assert (early, await app.live_count()) == (0, jobs)
        [(expected, decided)] = await source.fetch("""
            select (
                select count(*) from generate_series(
                    due.anchor, due.next_fire_at, interval '0.1 s') as at
                where at > schedule.since and at < due.next_fire_at
            ), (
                select count(*) from sexton.fire where fire.schedule_id = due.schedule_id
            )
            from sexton.schedule join sexton.due on due.schedule_id = schedule.id
            where schedule.name = 'still'
            """)
        assert expected == decided > 0, "the other one kept its time"


async def test_a_trigger_that_waited_for_a_fire_does_not_forget_the_job_of_that(
    address: Address,
) -> None:
    async with desk(address) as d:
        await d.add(every=60)
        d.clock.advance(60)
        firing, watching = Store(d.hands.line(), "sexton", d.clock), await d.hands.connect()
        batch = await d.hands.plan()
        await firing.source.fetch("begin")
        assert (await firing.due.fire(d.hands.guard, "due", batch)).jobs == 1
        triggering = asyncio.create_task(d.schedules.trigger("beat"))
        await waits(watching)
        await firing.source.fetch("commit")
        triggered = await triggering
        fired, other = await d.hands.claim()
        assert other.id == triggered
        await d.hands.end(other)
        d.clock.advance(60)
        assert (await d.hands.fire()).jobs == 0, "what was fired first still runs"
        await d.hands.end(fired)
        d.clock.advance(60)
        assert (await d.hands.fire()).jobs == 1


async def test_of_triggers_at_once_no_job_is_forgotten(address: Address) -> None:
    async with desk(address) as d:
        await d.add(every=60)
        made = await asyncio.gather(*(d.schedules.trigger("beat") for _ in range(10)))
        due = await d.due()
        assert sorted(made) == sorted([*due["live"], due["last_job"]])


async def test_a_trigger_that_waited_for_an_edit_does_what_that_says(address: Address) -> None:
    async with desk(address) as d:
        await d.add(every=60)
        editing, watching = await d.hands.connect(), await d.hands.connect()
        held = editing.transaction()
        await held.start()
        await editing.execute("select from sexton.due for update")
        triggering = asyncio.create_task(d.schedules.trigger("beat"))
        await waits(watching)
        await editing.execute(
            """update sexton.schedule set version = version + 1, payload = '{"n": 7}'"""
        )
        await held.commit()
        await triggering
        [claim] = await d.hands.claim()
        assert claim.payload == '{"n": 7}'
