"""Whom a fire replaces: written down with it, and asked to end whatever becomes of who fired."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import asyncpg
import pytest

from sexton import Sexton
from sexton.domain.job import Claim
from sexton.domain.outcome import Failed
from sexton.errors import Unavailable
from sexton.flow import replace
from sexton.flow.fire import Firer
from sexton.store import Line, Store
from sexton.store.connection import Address
from sexton.store.pause import wait

from .hands import Hands, hands
from .live import OFTEN, living
from .test_overlap import waiting


def dies(node: Hands) -> None:
    """From now on whoever fires is gone before it can ask anybody."""
    node.firer = Firer(node.store, node.rules, lambda _: None)


async def written_down(node: Hands) -> list[int]:
    return await node.store.due.replaced(0, 1000)


async def test_a_leader_asks_those_to_end_whom_a_dead_node_was_to_replace(
    address: Address,
) -> None:
    async with hands(address) as node:
        id = await node.add(node.now, policy={"overlap": "replace"})
        dies(node)
        await node.fire()
        [running] = await node.claim()
        await node.fire_until(node.at(2))
        assert len(await written_down(node)) == 2
        assert await node.replacer.ask_the_rest() == 2, "one runs, and one waits for it"
        [first, newest] = await node.jobs(id)
        assert (first["id"], first["cancel_requested_at"]) == (running.id, node.now)
        assert waiting([newest]) == [(newest["id"], running.id)]
        assert await written_down(node) == []
        assert await node.replacer.ask_the_rest() == 0


async def test_a_leader_asks_all_that_a_fire_replaces_not_only_the_newest(
    address: Address,
) -> None:
    """Of a policy that let several run before it was edited."""
    async with hands(address) as node:
        id = await node.add(node.now, policy={"overlap": "allow", "max_running": 5})
        other = await node.add(node.at(9999), policy={"overlap": "replace"})
        await node.fire()
        await node.fire_until(node.at(2))
        running = sorted(claim.id for claim in await node.claim())
        assert len(running) == 3
        rule = (await node.schedule(other))["rule_id"]
        await node.rows("update sexton.schedule set rule_id = $2 where id = $1", id, rule)
        await node.rows("update sexton.due set rule_id = $2 where schedule_id = $1", id, rule)
        dies(node)
        await node.fire_until(node.at(1))
        assert await node.replacer.ask_the_rest() == 3
        jobs = await node.jobs(id)
        asked = [job["id"] for job in jobs if job["cancel_requested_at"] is not None]
        assert asked == running


async def test_whom_a_fire_replaces_is_asked_whatever_becomes_of_its_schedule(
    address: Address,
) -> None:
    async with hands(address) as node:
        id = await node.add(node.now, policy={"overlap": "replace"}, max_fires=2)
        dies(node)
        await node.fire()
        [running] = await node.claim()
        await node.fire_until(node.at(1))
        node.clock.advance(86_400)
        edit = "update sexton.schedule set since = $2, state = 'cancelled' where id = $1"
        await node.rows(edit, id, node.now)
        assert await node.replacer.ask_the_rest() == 1
        [first, _] = await node.jobs(id)
        assert (first["id"], first["cancel_requested_at"]) == (running.id, node.now)


async def test_what_was_queued_before_an_edit_to_replace_still_has_its_turn(
    address: Address,
) -> None:
    async with hands(address) as node:
        id = await node.add(node.now, policy={"overlap": "queue_all"})
        other = await node.add(node.at(9999), policy={"overlap": "replace"})
        await node.fire()
        await node.fire_until(node.at(2))
        rule = (await node.schedule(other))["rule_id"]
        await node.rows("update sexton.schedule set rule_id = $2 where id = $1", id, rule)
        assert await node.replacer.ask_the_rest() == 0


async def test_a_replaced_job_that_somebody_has_locked_holds_up_no_other(
    address: Address,
) -> None:
    """As by an application that sits in the transaction which is to settle it."""
    async with hands(address) as node:
        ids = [await node.add(node.now, policy={"overlap": "replace"}) for _ in range(3)]
        dies(node)
        await node.fire()
        running = sorted(claim.id for claim in await node.claim())
        await node.fire_until(node.at(1))
        application = await node.connect()
        await application.execute("begin")
        await application.execute("select from sexton.job where id = $1 for update", running[1])
        assert await node.replacer.ask_the_rest() == 2
        assert await written_down(node) == [running[1]]
        await application.execute("rollback")
        assert await node.replacer.ask_the_rest() == 1
        assert await written_down(node) == []
        firsts = [(await node.jobs(id))[0] for id in ids]
        assert all(each["cancel_requested_at"] == node.now for each in firsts)


async def test_who_has_ended_before_it_was_asked_is_no_longer_written_down(
    address: Address,
) -> None:
    async with hands(address) as node:
        await node.add(node.now, policy={"overlap": "replace"})
        dies(node)
        await node.fire()
        [running] = await node.claim()
        await node.fire_until(node.at(1))
        assert await node.end(running)
        assert await written_down(node) == [running.id]
        assert await node.replacer.ask_the_rest() == 0
        assert await written_down(node) == []


async def test_a_fire_that_was_not_committed_replaces_nobody(address: Address) -> None:
    async with hands(address) as node:
        await node.add(node.now, policy={"overlap": "replace"})
        await node.fire()
        await node.claim()
        node.clock.advance(1)
        batch = await node.plan()
        firing = Store(node.line(), "sexton", node.clock)
        await firing.source.fetch("begin")
        assert (await firing.due.fire(node.guard, "due", batch)).still_live
        await firing.source.fetch("rollback")
        assert await written_down(node) == []


# ── who is replaced, and cannot be asked at once ────────────────────────────


async def asked(node: Hands) -> list[int]:
    """Those that run on and know that they are to end."""
    rows = await node.rows(
        "select id from sexton.job where cancel_requested_at is not null order by id"
    )
    return [row["id"] for row in rows]


async def running(node: Hands, count: int) -> list[int]:
    """Jobs of as many schedules, which the next fire replaces."""
    for _ in range(count):
        await node.add(node.now, policy={"overlap": "replace"})
    await node.fire()
    claims = await node.claim()
    assert len(claims) == count
    return [claim.id for claim in claims]


async def locks(node: Hands, job: int) -> asyncpg.Connection:
    """An application that sits in a transaction."""
    application = await node.connect()
    await application.execute("begin")
    await application.execute("select from sexton.job where id = $1 for update", job)
    return application


async def refuses(node: Hands, job: int) -> None:
    """A trigger of the user's own, to which one job is sacred."""
    await node.rows(
        "create function refuse() returns trigger language plpgsql "
        "as $$ begin raise exception 'not this one'; end $$"
    )
    await node.rows(
        "create trigger refuse before update or delete on sexton.job "
        f"for each row when (old.id = {job}) execute function refuse()"
    )


@pytest.mark.parametrize("by_leader", [True, False], ids=["leader", "node"])
async def test_a_replaced_job_that_a_trigger_protects_holds_up_no_other_and_is_logged_once(
    address: Address,
    by_leader: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(replace, "AT_ONCE", 3)
    async with hands(address) as node:
        jobs = await running(node, 8)
        await refuses(node, jobs[1])
        others = [jobs[0], *jobs[2:]]
        if by_leader:
            dies(node)
        await node.fire_until(node.at(1))
        if by_leader:
            assert await node.replacer.ask_the_rest() == len(others)
        assert await asked(node) == others
        assert await written_down(node) == [jobs[1]]
        assert await node.replacer.ask_the_rest() == 0
        said = [each.message for each in caplog.records if each.name == "sexton.replace"]
        assert said == [
            f"job {jobs[1]} is to be replaced, and cannot be asked to end: RaiseError: not this one"
        ]


async def test_a_replaced_job_that_a_trigger_protected_is_asked_when_it_may_be(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replace, "REFUSED_FOR", 0.0)
    async with hands(address) as node:
        [job] = await running(node, 1)
        await refuses(node, job)
        await node.fire_until(node.at(1))
        assert await node.replacer.ask_the_rest() == 0
        await node.rows("drop trigger refuse on sexton.job")
        assert await node.replacer.ask_the_rest() == 1
        assert await asked(node) == [job]
        assert await written_down(node) == []


async def test_a_replaced_job_that_is_locked_right_after_it_was_free_holds_up_no_other(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hands(address) as node:
        jobs = await running(node, 5)
        await node.rows("set lock_timeout = '50ms'")
        look = node.store.jobs.locked

        async def just_before(ids: Sequence[int]) -> set[int]:
            found = await look(ids)
            monkeypatch.setattr(node.store.jobs, "locked", look)
            await locks(node, jobs[2])
            return found

        monkeypatch.setattr(node.store.jobs, "locked", just_before)
        await node.fire_until(node.at(1))
        assert await asked(node) == [*jobs[:2], *jobs[3:]]
        assert await written_down(node) == [jobs[2]]


async def test_a_replaced_job_whose_follower_is_locked_is_ended_like_any_other(
    address: Address,
) -> None:
    """To end it is to let the other go, which is left to the leader while that is locked."""
    async with hands(address) as node:
        jobs = await running(node, 4)
        await node.rows("set lock_timeout = '50ms'")
        id = await node.add(node.now, policy={"overlap": "replace"})
        await node.fire()
        dies(node)
        await node.fire_until(node.at(1))
        [first, follower] = await node.jobs(id)
        application = await locks(node, follower["id"])
        assert await node.replacer.ask_the_rest() == len(jobs) + 1
        assert await asked(node) == jobs
        assert await written_down(node) == []
        assert waiting(await node.jobs(id)) == [(follower["id"], first["id"])]
        await application.execute("rollback")
        assert await node.let_go() == 1
        assert [claim.id for claim in await node.claim()] == [follower["id"]]


async def test_who_is_locked_for_a_moment_is_asked_by_whoever_fired(address: Address) -> None:
    async with hands(address) as node:
        jobs = await running(node, 2)
        application = await locks(node, jobs[0])
        await node.fire_until(node.at(1))
        assert await asked(node) == [jobs[1]]
        await application.execute("rollback")
        await node.replacer.wake.wait()
        await node.replacer.ask()
        assert await asked(node) == jobs
        assert await written_down(node) == []


async def test_who_stays_locked_is_left_to_the_leader(address: Address) -> None:
    async with hands(address) as node:
        [job] = await running(node, 1)
        application = await locks(node, job)
        await node.fire_until(node.at(1))
        for _ in range(replace.TRIES - 1):
            await node.replacer.wake.wait()
            await node.replacer.ask()
        assert not await wait(node.replacer.wake, 4 * replace.AGAIN_AFTER), "it gave up"
        await application.execute("rollback")
        assert await node.replacer.ask_the_rest() == 1
        assert await asked(node) == [job]


async def is_slow(node: Hands, job: int, seconds: float) -> None:
    """A trigger of the user's own, which takes its time over one job."""
    await node.rows(
        "create function linger() returns trigger language plpgsql "
        f"as $$ begin perform pg_sleep({seconds}); return new; end $$"
    )
    await node.rows(
        "create trigger linger before update on sexton.job "
        f"for each row when (old.id = {job}) execute function linger()"
    )


@asynccontextmanager
async def hasty(address: Address, node: Hands) -> AsyncIterator[replace.Replacer]:
    """A leader's, which gives up on an answer soon."""
    line = Line(dataclasses.replace(address, patience=0.5))
    try:
        yield replace.Replacer(Store(line, "sexton", node.clock))
    finally:
        await line.close()


async def test_replaced_jobs_that_take_too_long_together_are_asked_all_the_same(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replace, "AT_ONCE", 4)
    async with hands(address) as node, hasty(address, node) as replacer:
        jobs = await running(node, 9)
        await is_slow(node, jobs[1], 0.8)
        dies(node)
        await node.fire_until(node.at(1))
        while await asked(node) != jobs:
            with suppress(Unavailable):
                await replacer.ask_the_rest()
            await asyncio.sleep(0.05)  # nobody hears of it when it is done after all
        await replacer.ask_the_rest()
        assert await written_down(node) == []


async def test_a_replaced_job_that_takes_too_long_by_itself_holds_up_no_other(
    address: Address, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(replace, "AT_ONCE", 1)
    async with hands(address) as node, hasty(address, node) as replacer:
        jobs = await running(node, 3)
        await is_slow(node, jobs[1], 3600)
        dies(node)
        await node.fire_until(node.at(1))
        with pytest.raises(Unavailable):
            await replacer.ask_the_rest()
        await node.rows(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where wait_event = 'PgSleep' and datname = current_database()"
        )
        assert await replacer.ask_the_rest() == 1
        assert await asked(node) == [jobs[0], jobs[2]]
        assert await written_down(node) == [jobs[1]]
        [said] = [each.message for each in caplog.records if each.name == "sexton.replace"]
        assert f"job {jobs[1]} is to be replaced, and cannot be asked to end" in said


async def test_who_was_asked_although_nobody_heard_of_it_is_not_asked_again(
    address: Address,
) -> None:
    async with hands(address) as node:
        jobs = await running(node, 2)
        dies(node)
        await node.fire_until(node.at(1))
        await node.store.jobs.cancel(jobs[:1])  # and then it died
        assert await node.store.due.to_ask(jobs) == jobs[1:]
        assert await node.replacer.ask_the_rest() == 1
        assert await written_down(node) == []


async def test_what_is_wrong_with_a_table_is_no_jobs_fault(
    address: Address, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor is a right that was taken back, or a disk that is full: all of them wait."""
    async with hands(address) as node:
        jobs = await running(node, 4)
        dies(node)
        await node.fire_until(node.at(1))
        await node.rows("alter table sexton.cancel_request rename to elsewhere")
        with pytest.raises(asyncpg.UndefinedTableError):
            await node.replacer.ask_the_rest()
        await node.rows("alter table sexton.elsewhere rename to cancel_request")
        assert [each for each in caplog.records if each.name == "sexton.replace"] == []
        assert await node.replacer.ask_the_rest() == len(jobs), "as soon as it may"


async def test_who_is_redriven_while_others_are_waited_for_is_not_asked(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hands(address) as node:
        jobs = await running(node, 2)
        await refuses(node, jobs[0])
        dies(node)
        await node.fire_until(node.at(1))
        cancel = node.store.jobs.cancel

        async def meanwhile(ids: Sequence[int]) -> dict[int, int | None]:
            try:
                return await cancel(ids)
            finally:
                monkeypatch.setattr(node.store.jobs, "cancel", cancel)
                await node.rows("update sexton.job set attempts_before = 1 where id = $1", jobs[1])

        monkeypatch.setattr(node.store.jobs, "cancel", meanwhile)
        assert await node.replacer.ask_the_rest() == 0
        assert await asked(node) == []


# ── whom nobody wants replaced, or not any more ─────────────────────────────


async def redriven(node: Hands, claim: Claim) -> None:
    """It dies, and somebody wants it to be tried again."""
    assert await node.end(claim, Failed("no", permanent=True))
    assert [each.revived for each in await node.store.history.redrive(ids=[claim.id])] == [True]


@pytest.mark.parametrize("by_leader", [True, False], ids=["leader", "node"])
async def test_a_job_that_was_redriven_is_not_the_one_that_was_replaced(
    address: Address, by_leader: bool
) -> None:
    async with hands(address) as node:
        id = await node.add(node.now, policy={"overlap": "replace"})
        await node.fire()
        [claim] = await node.claim()
        dies(node)
        await node.fire_until(node.at(1))
        await redriven(node, claim)
        assert await written_down(node) == [claim.id]
        if by_leader:
            assert await node.replacer.ask_the_rest() == 0
        else:
            node.replacer.note([claim.id])
            await node.replacer.ask()
        assert await written_down(node) == []
        assert claim.id in [job["id"] for job in await node.jobs(id)]


async def test_a_stalled_asker_holds_up_neither_fires_nor_other_askers(address: Address) -> None:
    """It has crossed out a job, and has not committed; a fire replaces the same job, redriven."""
    async with hands(address) as node:
        id = await node.add(node.now, policy={"overlap": "replace"})
        await node.fire()
        [claim] = await node.claim()
        dies(node)
        await node.fire_until(node.at(1))
        await redriven(node, claim)
        stalled = Store(node.line(), "sexton", node.clock)
        await stalled.source.fetch("begin")
        await stalled.due.cross_out([claim.id])
        assert await node.fire_until(node.at(1)) == 1
        assert claim.id in await written_down(node)
        await stalled.source.fetch("commit")
        assert claim.id in await written_down(node), "as it is now"
        assert await node.replacer.ask_the_rest() == 2
        assert len(await node.jobs(id)) == 1
        assert await written_down(node) == []


async def test_two_askers_cross_out_the_same_without_waiting_for_each_other(
    address: Address,
) -> None:
    async with hands(address) as node:
        dies(node)
        jobs = await running(node, 2)
        await node.fire_until(node.at(1))
        stalled = Store(node.line(), "sexton", node.clock)
        await node.store.jobs.cancel(jobs[:1])
        await stalled.source.fetch("begin")
        await stalled.due.cross_out(jobs)
        assert await node.replacer.ask_the_rest() == 1
        assert await asked(node) == jobs
        await stalled.source.fetch("rollback")
        assert await written_down(node) == jobs[:1], "the one that it had begun to cross out"
        await node.replacer.ask_the_rest()
        assert await written_down(node) == []


async def test_nobody_is_crossed_out_who_lives_and_was_not_asked(address: Address) -> None:
    """A fire may write down the same job between an asker's look and its crossing out."""
    async with hands(address) as node:
        jobs = await running(node, 2)
        dies(node)
        await node.fire_until(node.at(1))
        await node.store.jobs.cancel(jobs[:1])
        await node.store.due.cross_out(jobs)
        assert await written_down(node) == jobs[1:]


async def test_who_was_asked_and_runs_on_is_not_written_down_by_every_fire(
    address: Address,
) -> None:
    async with hands(address) as node:
        [job] = await running(node, 1)
        await node.fire_until(node.at(1))
        assert await asked(node) == [job]
        dies(node)
        await node.fire_until(node.at(3))
        assert job not in await written_down(node)


async def test_who_cannot_be_asked_is_written_down_once(address: Address) -> None:
    async with hands(address) as node:
        [job] = await running(node, 1)
        await locks(node, job)
        await node.fire_until(node.at(5))
        assert await node.value("select array_agg(job_id) from sexton.replaced") == [job]


# ── beside the node's other work ────────────────────────────────────────────


async def test_a_node_that_leaves_hands_over_before_it_asks(database_url: str) -> None:
    """And does not ask for long: the leader will."""
    app = Sexton(database_url, lease=3, patience=60)
    application = await asyncpg.connect(database_url)
    waits = (
        "select exists (select from pg_locks "
        "where relation = 'sexton.replaced'::regclass and not granted)"
    )
    try:
        async with living(app) as live:
            replacer = live.node._replacer
            await replacer._store.source.fetch("set lock_timeout = 0")
            await application.execute("begin; lock table sexton.replaced")
            replacer.note([1])
            await live.so(waits)
            replacer.note([2])
            live.node.stop()
            async with asyncio.timeout(20):  # an answer is waited for for a minute
                await live.so("select gone_at is not null from sexton.node")
    finally:
        application.terminate()


async def test_asking_waits_for_none_of_the_nodes_other_errands(database_url: str) -> None:
    app = Sexton(database_url, lease=3, patience=60)
    application = await asyncpg.connect(database_url)
    try:
        await application.execute("create table busy ()")
        await application.execute("begin; lock table busy")
        async with living(app) as live:
            errands = live.node._store.source
            await errands.fetch("set lock_timeout = 0")
            errand = asyncio.create_task(errands.fetch("select from busy"))
            await live.add(await live.soon(), when=OFTEN, policy={"overlap": "replace"})
            await live.so("select count(*) >= 2 from sexton.attempt where outcome = 'cancelled'")
            assert not errand.done()
            await application.execute("rollback")
            await errand
    finally:
        application.terminate()
