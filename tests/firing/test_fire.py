"""One statement from due to fired: guarded, never early, never twice, all or nothing."""

import asyncio
from collections import Counter
from datetime import timedelta

import asyncpg
import pytest

from sexton.domain.partition import EVERY
from sexton.flow.fire import Firer, due_by
from sexton.store import Store
from sexton.store.connection import Address
from sexton.store.due import Batch, Fired, Guard

from . import schedules
from .hands import Hands, hands

ALLOW = {"overlap": "allow"}
NOTHING = Fired(0, 0, ())


# ── one fire ────────────────────────────────────────────────────────────────


async def test_a_fire_is_a_job_a_line_in_the_ledger_and_the_next_instant_together(
    address: Address,
) -> None:
    async with hands(address) as node:
        at = node.now
        id = await node.add(
            at, when="*/5 * * * *", task="report", payload='{"n": 1}', queue="slow", priority=2
        )
        await node.rows("update sexton.schedule set tags = '{a,b}', expires_in = '1 hour'")
        node.clock.advance(0.25)
        assert await node.fire() == Fired(1, 1, ())
        [job] = await node.jobs(id)
        [entry] = await node.rows("select * from sexton.fire")
        due = await node.due(id)
        assert (job["task"], job["payload"], job["queue"]) == ("report", '{"n": 1}', "slow")
        assert (job["priority"], job["tags"], job["limited"]) == (2, ["a", "b"], False)
        assert (job["created_at"], job["due_at"]) == (node.now, node.now)
        assert job["expires_at"] == node.now + timedelta(hours=1)
        assert (job["schedule_id"], job["fire_at"], job["after_job"]) == (id, at, None)
        assert (entry["schedule_id"], entry["fire_at"], entry["scheduled_at"]) == (id, at, at)
        assert (entry["decision"], entry["kind"], entry["job_id"]) == ("fired", "due", job["id"])
        assert (entry["node_id"], entry["term"]) == (node.node, node.guard.term)
        assert entry["decided_at"] == node.now
        assert (due["next_fire_at"], due["last_job"]) == (at + timedelta(minutes=5), job["id"])
        assert (due["stamp"], due["late"], due["live"]) == (0, False, None)
        assert await node.fire() == NOTHING


async def test_a_job_is_what_its_task_was_declared_to_be(address: Address) -> None:
    async with hands(address) as node:
        id = await node.add(node.now, task="declared")
        await node.rows(
            "insert into sexton.task values "
            "('declared', 'quiet', -3, 1, 1, 1, 1, interval '1 day', 5, null, now())"
        )
        await node.fire()
        [job] = await node.jobs(id)
        assert (job["queue"], job["priority"], job["limited"]) == ("quiet", -3, True)
        assert job["expires_at"] == node.now + timedelta(days=1)


async def test_jitter_moves_the_fire_and_the_ledger_knows_what_it_stands_for(
    address: Address,
) -> None:
    async with hands(address) as node:
        at = node.now
        id = await node.add(
            node.at(2.5), when={"cron": "* * * * *", "jitter": 30}, policy=ALLOW, scheduled=at
        )
        node.clock.advance(2.25)
        assert await node.fire() == NOTHING
        node.clock.advance(0.25)
        await node.fire()
        [entry] = await node.rows("select fire_at, scheduled_at from sexton.fire")
        due = await node.due(id)
        assert tuple(entry) == (node.now, at)
        assert due["scheduled_at"] == at + timedelta(minutes=1)
        assert timedelta(0) <= due["next_fire_at"] - due["scheduled_at"] < timedelta(seconds=30)


async def test_only_whoever_sleeps_on_the_queue_is_woken(address: Address) -> None:
    async with hands(address) as node:
        heard: asyncio.Queue[str] = asyncio.Queue()
        listener = await node.connect()
        await listener.add_listener("sexton.wake", lambda *said: heard.put_nowait(said[3]))
        await node.add(node.now, queue="busy")
        await node.add(node.now, queue="quiet")
        await node.rows("update sexton.worker set idle = '{quiet}'")
        await node.fire()
        await node.rows("select pg_notify('sexton.wake', 'last')")
        said = []
        while (payload := await heard.get()) != "last":
            said.append(payload)
        assert set(said) - {"schedule"} == {"queue:quiet"}


async def test_what_is_due_is_read_oldest_first_and_only_of_ones_own(address: Address) -> None:
    async with hands(address) as node:
        for seconds in (-11, -9, -1, 0.4, 0.6):
            await schedules.add(node.store.source, node.at(seconds), count=3, partition=5)
        await node.add(node.at(-2), partition=6)
        await node.add(node.at(-3), partition=7)
        late = await node.add(node.at(-4), partition=5)
        await node.rows("update sexton.due set late = true where schedule_id = $1", late)
        read = await node.store.due.due([5, 6], ahead=0.5, late=10, each=5)
        seconds_ago = [round(node.now.timestamp() - row.next_fire, 3) for row in read]
        assert seconds_ago == [9, 9, 9, 2, 1, 1], "no more than five of a partition"
        assert await node.store.due.next_in([200], within=60) is None


async def test_a_batch_goes_by_index_even_if_it_was_planned_when_there_was_nothing(
    address: Address,
) -> None:
    """A plan outlives the moment: between two bursts the jobs are vacuumed away, and few schedules
    become many. Then every row of the batch must still cost a lookup and not a scan."""
    async with hands(address) as node:
        await node.add(node.now)
        for table in ("job", "due", "schedule", "task"):
            await node.rows(f"vacuum sexton.{table}")
        await node.fire()
        await node.rows("delete from sexton.job")
        await node.rows("vacuum sexton.job")
        node.clock.advance(1)
        await node.fire()
        every = await schedules.add(node.store.source, node.at(1), count=1500)
        for _ in range(2):
            node.clock.advance(1)
            before = await _index_entries_read(node)
            batch, _ = await node.firer.plan(node.guard, EVERY)
            moved = (await node.firer.fire(node.guard, batch)).moved
            assert moved > len(every)
            assert await _index_entries_read(node) - before < 20 * moved


async def _index_entries_read(node: Hands) -> int:
    await node.rows("select pg_stat_force_next_flush()")
    read: int = await node.value(
        "select sum(idx_tup_read)::bigint from pg_stat_user_indexes where schemaname = 'sexton' "
        "and relname in ('job', 'due', 'schedule', 'task')"
    )
    return read


# ── never early, never twice ────────────────────────────────────────────────


async def test_nothing_is_fired_before_its_time_by_the_databases_clock(address: Address) -> None:
    async with hands(address) as node:
        soon = await node.add(node.at(0.3))
        now = await node.add(node.now)
        batch = await node.plan()
        assert batch.ids == [now, soon]
        assert await node.firer.fire(node.guard, batch) == Fired(1, 1, ())
        assert await node.jobs(soon) == []
        node.clock.advance(0.3)
        assert await node.firer.fire(node.guard, batch) == Fired(1, 1, ())
        assert len(await node.jobs(soon)) == 1


async def test_of_all_who_read_the_same_instant_one_fires_it(address: Address) -> None:
    async with hands(address) as node:
        ids = await schedules.add(node.store.source, node.now, count=50, policy=ALLOW)
        batch = await node.plan()
        others = [Store(node.line(), "sexton", node.clock) for _ in range(6)]
        for _ in range(3):
            batch = await node.plan()
            fired = await asyncio.gather(
                *(other.due.fire(node.guard, "due", batch) for other in others)
            )
            assert sum(each.moved for each in fired) == sum(each.jobs for each in fired) == 50
            node.clock.advance(1)
        made = Counter(row[0] for row in await node.rows("select schedule_id from sexton.job"))
        assert made == dict.fromkeys(ids, 3)
        assert await node.value("select count(*) from sexton.fire") == 150


async def test_the_leader_and_the_owner_cannot_both_fire_one_instant(address: Address) -> None:
    async with hands(address) as node:
        id = await node.add(node.now, policy=ALLOW)
        node.clock.advance(9)
        batch = await node.plan()
        node.clock.advance(2)
        assert await node.mark_late() == 1
        [late] = await node.store.due.late(10)
        assert late.id == id
        assert (await node.firer.fire(node.guard, batch)).jobs == 1
        assert not (await node.due(id))["late"]
        assert await node.store.due.fire(node.lead, "catch_up", batch) == NOTHING
        assert len(await node.jobs(id)) == 1


async def test_a_decision_made_before_an_edit_is_refused_and_the_others_stand(
    address: Address,
) -> None:
    async with hands(address) as node:
        first, edited, last = await schedules.add(node.store.source, node.now, count=3)
        batch = await node.plan()
        await node.rows("update sexton.due set stamp = stamp + 1 where schedule_id = $1", edited)
        assert await node.firer.fire(node.guard, batch) == Fired(2, 2, ())
        assert await node.ledger(edited) == []
        assert (await node.due(edited))["next_fire_at"] == node.now
        assert [len(await node.jobs(id)) for id in (first, edited, last)] == [1, 0, 1]


async def test_a_fire_that_the_ledger_has_already_makes_no_second_job_and_the_schedule_goes_on(
    address: Address, caplog: pytest.LogCaptureFixture
) -> None:
    """A backfill came first, or the clock of a new primary is behind that of the old one."""
    async with hands(address) as node:
        ids = await schedules.add(node.store.source, node.now, count=20, policy=ALLOW)
        done = [ids[0], ids[11], ids[12]]
        await node.rows(
            "insert into sexton.fire (schedule_id, fire_at, scheduled_at, decided_at, decision, "
            "kind) select unnest($1::bigint[]), $2, $2, $2, 'fired', 'backfill'",
            *(done, node.now),
        )
        assert await node.fire() == Fired(20, 17, ())
        for id in done:
            assert await node.ledger(id) == [(0, "fired", "backfill")]
            assert await node.jobs(id) == []
            assert (await node.schedule(id))["state"] == "active"
        node.clock.advance(1)
        assert await node.fire() == Fired(20, 20, ())
        assert "in the ledger" in caplog.text


# ── the guard ───────────────────────────────────────────────────────────────


async def test_whoever_lost_its_right_writes_nothing(address: Address) -> None:
    async with hands(address) as node:
        id = await node.add(node.now, text="no rule at all")
        await node.add(node.now)
        await node.add(node.at(-20))
        [row, *_] = [each for each in await node.read() if each.id == id]
        plan = (await node.plan()).part(0, 1)
        await node.rows("update sexton.due set stamp = 0, next_fire_at = $1", node.now)
        before = await node.rows("select * from sexton.due order by schedule_id")
        stale, deposed = node.guard, node.lead
        await node.own()
        await node.elect()
        for guard in (stale, deposed, Guard(node.node + 1, node.guard.epoch, node.guard.term)):
            assert await node.store.due.fire(guard, "due", plan) == NOTHING
            assert await node.store.due.quarantine(guard, row.id, 0, "why") is None
        assert await node.store.due.mark_late(stale, EVERY, -1, 5) == 0
        assert await node.rows("select * from sexton.due order by schedule_id") == before
        assert not await node.rows("select from sexton.fire")
        assert not await node.rows("select from sexton.job")


async def test_a_leader_that_resigned_fires_nothing_in_its_name(address: Address) -> None:
    async with hands(address) as node:
        await node.add(node.now)
        batch = await node.plan()
        await node.rows("update sexton.leader set lease_until = clock_timestamp()")
        assert await node.store.due.fire(node.lead, "catch_up", batch) == NOTHING


async def test_ownership_cannot_change_while_a_fire_is_being_written(address: Address) -> None:
    async with hands(address) as node:
        await node.add(node.now)
        batch = await node.plan()
        other = await node.connect()
        await other.execute("set lock_timeout = '200ms'")
        await node.rows("begin")
        assert (await node.store.due.fire(node.guard, "due", batch)).jobs == 1
        with pytest.raises(asyncpg.LockNotAvailableError):
            await other.execute("update sexton.ownership set epoch = nextval('sexton.epoch')")
        await node.rows("commit")
        await other.execute("update sexton.ownership set epoch = nextval('sexton.epoch')")
        await node.add(node.now)
        assert await node.fire() == NOTHING


# ── the end ─────────────────────────────────────────────────────────────────


async def test_a_schedule_without_another_fire_has_ended(address: Address) -> None:
    async with hands(address) as node:
        once = await node.add(node.now, when={"at": node.now})
        again = await node.add(node.now)
        assert (await node.fire()).jobs == 2
        over = "select next_fire_at = 'infinity' from sexton.due where schedule_id = $1"
        assert await node.value(over, once)
        ended = await node.schedule(once)
        assert (ended["state"], ended["reason"]) == ("ended", "it has no more fires")
        assert (await node.schedule(again))["state"] == "active"


async def test_only_what_was_fired_counts_towards_the_maximum_of_fires(address: Address) -> None:
    async with hands(address) as node:
        id = await node.add(node.now, max_fires=2)
        await node.fire()
        await node.fire_until(node.at(3))
        assert await node.decisions(id) == ["fired", "overlap", "overlap", "overlap"]
        assert (await node.due(id))["fires_left"] == 1
        [claim] = await node.claim()
        await node.end(claim)
        await node.fire_until(node.at(3))
        assert await node.decisions(id) == ["fired", *["overlap"] * 3, "fired"]
        assert (await node.due(id))["fires_left"] == 0
        assert (await node.schedule(id))["state"] == "ended"


# ── in batches ─────────────────────────────────────────────────────────────


def test_what_is_due_by_now_is_the_beginning_of_the_batch() -> None:
    batch = Batch(ids=list(range(5)), were_due=[1.0, 2.0, 2.0, 3.0, 5.0])
    assert [due_by(batch, 0, now) for now in (0.5, 1.0, 2.5, 9.0)] == [0, 1, 3, 5]
    assert due_by(batch, 3, 2.5) == 3
    many = Batch(ids=list(range(5000)), were_due=[1.0] * 5000)
    assert due_by(many, 100, 1.0) == 2100


async def test_a_replacement_is_reported_once_for_the_whole_batch(address: Address) -> None:
    async with hands(address) as node:
        told: list[list[int]] = []

        firer = Firer(node.store, node.rules, lambda jobs: told.append(sorted(jobs)))
        await schedules.add(node.store.source, node.now, count=3, policy={"overlap": "replace"})
        await firer.fire(node.guard, await node.plan())
        first = sorted(row["id"] for row in await node.rows("select id from sexton.job"))
        assert told == []
        node.clock.advance(1)
        await firer.fire(node.guard, await node.plan())
        assert told == [first]
