"""Settlements: once, fenced, and everything that follows from them in the same transaction."""

import json
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from sexton import Sexton
from sexton.domain.job import Claim
from sexton.domain.outcome import Cancelled, Failed, Lost, Released, Snoozed, Succeeded
from sexton.domain.retry import Retry
from sexton.domain.transitions import Settlement
from sexton.flow import prune, reap
from sexton.flow.settle import Settler
from sexton.store import history
from sexton.store.connection import Address

from ..support.hands import Hands, hands
from .test_claim import At


async def test_a_stale_worker_cannot_settle_a_reclaimed_job(address: Address) -> None:
    async with hands(address) as stale, hands(address) as fresh:
        await stale.enqueue()
        [old] = await stale.claim()
        await stale.settle(old, Released())
        [new] = await fresh.claim()
        assert new.id == old.id
        assert not await stale.settle(old, Succeeded('"stale"'))
        assert not await stale.settle(old, Failed("stale"))
        assert await fresh.settle(new, Succeeded('"fresh"'))
        view = await fresh.store.history.job(new.id)
        assert view is not None
        assert view.result == "fresh"


async def test_a_settlement_counts_once(address: Address) -> None:
    async with hands(address) as worker:
        await worker.enqueue()
        [claim] = await worker.claim()
        assert await worker.settle(claim, Failed("x"))
        assert not await worker.settle(claim, Failed("x")), "it is waiting, nobody runs it"
        assert await worker.value("select count(*) from sexton.attempt") == 1


async def test_a_failed_job_waits_within_its_jitter_and_then_dies_with_everything(
    address: Address,
) -> None:
    clock = At()
    retry = Retry(max_attempts=3, base=10, cap=60)
    async with hands(address, clock=clock) as worker:
        enqueued = await worker.enqueue("t", payload='{"a": 1}', tags=["x"], key="k")
        for attempt, delay in ((1, 10), (2, 20)):
            [claim] = await worker.claim()
            assert claim.attempt == attempt
            await worker.settle(claim, Failed(f"error {attempt}"), retry)
            clock.now += timedelta(seconds=delay - 0.001)
            assert not await worker.claim()
            clock.now += timedelta(seconds=0.001)
        [claim] = await worker.claim()
        await worker.settle(claim, Failed("error 3"), retry)
        job = await worker.store.history.job(enqueued.id)
        assert job is not None
        assert (job.state, job.payload, job.error) == ("dead", {"a": 1}, "error 3")
        assert [each.error for each in job.attempts] == ["error 1", "error 2", "error 3"]
        [dead] = await worker.store.history.dead()
        assert (dead.reason, dead.attempt, dead.tags) == ("exhausted", 3, ("x",))
        assert not (await worker.enqueue("t", key="k")).duplicate, "a dead job holds no key"


async def test_snoozed_and_released_jobs_keep_their_attempts(address: Address) -> None:
    async with hands(address) as worker:
        await worker.enqueue()
        fences = []
        for outcome in (Released(), Snoozed(0.0, "later"), Released()):
            [claim] = await worker.claim()
            assert claim.attempt == 1
            fences.append(claim.fence)
            assert await worker.settle(claim, outcome)
        assert fences == sorted(set(fences))
        outcomes = await worker.rows("select outcome::text from sexton.attempt order by fence")
        assert [row[0] for row in outcomes] == ["released", "snoozed", "released"]


async def test_a_key_is_held_on_for_the_window_it_asked_for(address: Address) -> None:
    clock = At()
    async with hands(address, clock=clock) as worker:
        first = await worker.enqueue("t", key="k", key_held_for=60.0)
        [claim] = await worker.claim()
        await worker.settle(claim, Succeeded())
        clock.now += timedelta(seconds=59)
        again = await worker.enqueue("t", key="k")
        assert again.duplicate
        assert again.id == first.id
        clock.now += timedelta(seconds=1)
        assert not (await worker.enqueue("t", key="k")).duplicate


async def test_a_key_is_free_at_once_when_its_job_was_cancelled_or_died(address: Address) -> None:
    async with hands(address) as worker:
        for outcome in (Cancelled(), Failed("x", permanent=True)):
            await worker.enqueue("t", key="k", key_held_for=60.0)
            [claim] = await worker.claim()
            await worker.settle(claim, outcome)
        assert not (await worker.enqueue("t", key="k")).duplicate


async def test_a_duplicate_in_an_open_transaction_holds_up_no_settlement(
    address: Address, database_url: str
) -> None:
    stranger = await asyncpg.connect(database_url)
    async with hands(address) as worker:
        first = await worker.enqueue("t", key="k")
        [claim] = await worker.claim()
        transaction = stranger.transaction()
        await transaction.start()
        row = await stranger.fetchrow("select * from sexton.enqueue('t', key => 'k')")
        assert (row["id"], row["duplicate"]) == (first.id, True)
        assert await worker.settle(claim, Succeeded()), "without waiting for the stranger"
        await transaction.rollback()
    await stranger.close()


async def test_a_job_that_somebody_has_locked_holds_up_no_other_settlement(
    address: Address, database_url: str
) -> None:
    stranger = await asyncpg.connect(database_url)
    async with hands(address) as worker:
        for _ in range(5):
            await worker.enqueue()
        claims = await worker.claim(5)
        transaction = stranger.transaction()
        await transaction.start()
        await stranger.execute("select * from sexton.job where id = $1 for update", claims[2].id)
        settled: list[int] = []
        settler = Settler(
            worker.store, lambda claims, ours: settled.extend(claim.id for claim in claims)
        )
        for claim in claims:
            settler.add(claim, Settlement("succeeded", "succeeded", result="1"))
        await settler.run_once()
        assert sorted(settled) == [claim.id for n, claim in enumerate(claims) if n != 2]
        assert settler.unsettled == 1
        await transaction.rollback()
        await settler.run_once()
        assert settler.unsettled == 0
    await stranger.close()


async def test_orphans_of_a_worker_that_went_long_ago_are_found(address: Address) -> None:
    async with hands(address) as old, hands(address) as new:
        await old.enqueue()
        await old.claim()
        await old.store.workers.leave(old.worker)
        await old.rows("update sexton.worker set gone_at = now() - interval '2 days' "
                       "where gone_at is not null")  # fmt: skip
        assert await reap.run_once(new.store) == 0
        assert await reap.run_once(new.store, None) == 1


async def test_redriven_jobs_get_a_fresh_budget_and_keep_counting(address: Address) -> None:
    retry = Retry(max_attempts=1)
    async with hands(address) as worker:
        enqueued = await worker.enqueue("t")
        for attempt in (1, 2):
            [claim] = await worker.claim()
            assert (claim.attempt, claim.tries) == (attempt, 1)
            await worker.settle(claim, Failed("x"), retry)
            [redriven] = await worker.store.history.redrive(ids=[enqueued.id])
            assert redriven.revived
        job = await worker.store.history.job(enqueued.id)
        assert job is not None
        assert job.state == "ready"
        assert [each.attempt for each in job.attempts] == [1, 2]


async def die(worker: Hands, task: str, error: str, **fields: Any) -> int:
    enqueued = await worker.enqueue(task, **fields)
    [claim] = await worker.claim()
    await worker.settle(claim, Failed(error, permanent=True))
    return enqueued.id


async def test_redrive_by_filter_dry_run_first(address: Address) -> None:
    async with hands(address) as worker:
        wanted = [await die(worker, "a", "timeout of x") for _ in range(3)]
        await die(worker, "a", "other")
        await die(worker, "b", "timeout of x")
        history = worker.store.history
        dry = await history.redrive(task="a", error="timeout", dry_run=True)
        assert [each.id for each in dry] == wanted
        assert len(await history.dead()) == 5
        assert [each.id for each in await history.redrive(task="a", error="timeout")] == wanted
        assert len(await history.dead()) == 2


async def test_a_redrive_by_error_goes_through_however_many_dead_some_at_a_time(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text looked for in the errors of millions at once took longer than anybody waited."""
    monkeypatch.setattr(history, "LOOK_AT_DEAD", 3)
    async with hands(address) as worker:
        wanted = [await die(worker, "t", "x" if n % 4 == 3 else "y") for n in range(24)][3::4]
        redrive = worker.store.history.redrive
        assert await redrive(error="z") == []
        dry = await redrive(error="x", dry_run=True)
        assert [each.id for each in dry] == wanted, "the earliest death first, and each once"
        first = await redrive(error="x", limit=2)
        assert [each.id for each in first] == wanted[:2]
        second = await redrive(error="x")
        assert [each.id for each in second if each.revived] == wanted[2:]
        assert len(await worker.store.history.dead()) == 18


async def test_those_that_died_at_the_same_moment_are_all_redriven(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "LOOK_AT_DEAD", 2)
    async with hands(address) as worker:
        ids = [await die(worker, "t", "x") for _ in range(5)]
        died = await worker.value("update sexton.dead set died_at = now() returning died_at")
        redrive = worker.store.history.redrive
        assert await redrive(until=died) == []
        assert [each.id for each in await redrive(since=died, dry_run=True)] == ids
        assert [each.id for each in await redrive(since=died)] == ids


async def test_a_dead_job_whose_key_another_holds_stays_dead(address: Address) -> None:
    async with hands(address) as worker:
        first = await die(worker, "t", "x", key="k")
        second = await die(worker, "t", "x", key="k")
        redriven = await worker.store.history.redrive(task="t")
        assert {each.id: each.revived for each in redriven} == {first: True, second: False}


async def test_cancel_ends_a_waiting_job_and_asks_for_a_running_one(address: Address) -> None:
    async with hands(address) as worker:
        waiting = await worker.enqueue("t", delay=60.0, key="k")
        running = await worker.enqueue("t")
        [claim] = await worker.claim()
        answers = await worker.store.jobs.cancel([waiting.id, running.id, 999_999])
        assert answers == {waiting.id: None, running.id: worker.worker}
        assert await worker.store.workers.renew(worker.worker) == [claim.fence]
        assert not (await worker.enqueue("t", key="k")).duplicate
        await worker.settle(claim, Cancelled())
        for id in (waiting.id, running.id):
            job = await worker.store.history.job(id)
            assert job is not None
            assert job.state == "cancelled"


async def test_an_error_of_fifty_megabytes_is_kept_short(address: Address) -> None:
    from sexton.targets.verdict import raised

    async with hands(address) as worker:
        await worker.enqueue()
        [claim] = await worker.claim()
        outcome, _ = raised(ValueError("\x00\ud800" + "x" * 50_000_000), Retry())
        assert await worker.settle(claim, outcome)
        [error] = [row[0] for row in await worker.rows("select error from sexton.attempt")]
        assert 4000 < len(error.encode()) <= 8192


async def test_one_result_that_postgresql_refuses_does_not_hold_up_the_others(
    address: Address,
) -> None:
    async with hands(address) as worker:
        for _ in range(3):
            await worker.enqueue()
        settled: list[bool] = []
        settler = Settler(
            worker.store, lambda claims, ours: settled.extend(each.id in ours for each in claims)
        )
        bad = Settlement("succeeded", "succeeded", result="{not JSON")
        good = Settlement("succeeded", "succeeded", result="1")
        claims = await worker.claim(3)
        for claim, settlement in zip(claims, (good, bad, good), strict=True):
            settler.add(claim, settlement)
        await settler.run_once()
        assert settled == [True] * 3
        rows = await worker.rows("select result::text, error from sexton.attempt order by job_id")
        assert [row[0] for row in rows] == ["1", None, "1"]
        assert "could not be kept" in rows[1][1]


async def test_an_attempt_lost_with_its_worker_counts_and_ends_dead(address: Address) -> None:
    clock = At()
    async with hands(address, clock=clock, lease=30) as keeper:
        enqueued = await keeper.enqueue("t")
        lost = 0
        for _ in range(5):
            worker = await keeper.store.workers.register("mortal", ["default"], "test", 10)
            keeper.worker = worker
            [_claim] = await keeper.claim()
            clock.now += timedelta(seconds=9.9)
            assert await reap.run_once(keeper.store) == 0, "not a moment before the lease is over"
            clock.now += timedelta(seconds=0.2)
            lost += await reap.run_once(keeper.store)
            clock.now += timedelta(seconds=3600)
        assert lost == 5
        job = await keeper.store.history.job(enqueued.id)
        assert job is not None
        assert job.state == "dead"
        assert [each.outcome for each in job.attempts] == ["lost"] * 5
        assert not await keeper.claim()


async def test_a_lost_worker_cannot_renew_or_settle_and_its_successor_can(
    address: Address,
) -> None:
    clock = At()
    async with hands(address, clock=clock, lease=10) as old, hands(address, clock=clock) as new:
        await old.enqueue()
        [claim] = await old.claim()
        clock.now += timedelta(seconds=11)
        assert await reap.run_once(new.store) == 1
        assert await old.store.workers.renew(old.worker) is None
        assert not await old.settle(claim, Succeeded())
        clock.now += timedelta(seconds=25)
        new.worker = await new.store.workers.register("successor", ["default"], "test", 30)
        [again] = await new.claim()
        assert again.id == claim.id
        assert again.fence > claim.fence
        assert not await old.settle(claim, Lost("late"))
        assert await new.settle(again, Succeeded())


async def test_claims_whose_answer_was_lost_are_found(address: Address) -> None:
    async with hands(address) as worker:
        for _ in range(3):
            await worker.enqueue()
        known = await worker.claim(2)
        await worker.claim(1)
        fences = [claim.fence for claim in known]
        assert not await worker.store.jobs.strays(worker.worker, fences, 60)
        strays = await worker.store.jobs.strays(worker.worker, fences, 0)
        assert len(strays) == 1


async def test_stuck_jobs_are_told_by_task(address: Address) -> None:
    clock = At()
    async with hands(address, clock=clock, name="silent") as worker:
        for task in ("a", "a", "b"):
            await worker.enqueue(task)
        await worker.claim(3)
        clock.now += timedelta(seconds=61)
        stuck = await worker.store.history.stuck(60)
        assert {(each.task, each.jobs, each.worker) for each in stuck} == {
            ("a", 2, "silent"),
            ("b", 1, "silent"),
        }
        await worker.store.workers.renew(worker.worker)
        assert not await worker.store.history.stuck(60)


async def test_history_is_kept_in_daily_buckets_and_dropped_whole(address: Address) -> None:
    clock = At()
    async with hands(address, clock=clock) as worker:
        await prune.run_once(worker.store)
        await worker.store.history.set_retention(3 * 86400, None, False)
        ids = []
        for _ in range(6):
            ids.append((await worker.enqueue()).id)
            [claim] = await worker.claim()
            assert await worker.settle(claim, Succeeded())
            clock.now += timedelta(days=1)
            await prune.run_once(worker.store)
        # Six days later, three days are kept: the day that is three days old is kept whole.
        kept = [await worker.store.history.job(id) is not None for id in ids]
        assert kept == [False, False, False, True, True, True]


async def test_a_missing_bucket_is_made_when_it_is_needed(address: Address) -> None:
    clock = At()
    clock.now = clock.now.replace(year=2037)
    async with hands(address, clock=clock) as worker:
        await worker.enqueue()
        [claim] = await worker.claim()
        settled: list[Claim] = []
        settler = Settler(worker.store, lambda claims, ours: settled.extend(claims))
        settler.add(claim, Settlement("succeeded", "succeeded"))
        await settler.run_once()
        assert settled == [claim]


@pytest.mark.parametrize("value", [1, "x", None, [1, {"a": None}], {"deep": [[[]]]}])
async def test_a_result_comes_back_as_it_was(address: Address, value: Any) -> None:
    async with hands(address) as worker:
        enqueued = await worker.enqueue()
        [claim] = await worker.claim()
        await worker.settle(claim, Succeeded(json.dumps(value)))
        job = await worker.store.history.job(enqueued.id)
        assert job is not None
        assert job.result == value


async def test_counts_and_pages(app: Sexton) -> None:
    @app.task
    async def t(n: int) -> None: ...

    async with app:
        await app.enqueue_many(t.call(n) for n in range(30))
        await t.enqueue(n=99, delay=60, tags=["late"])
        counts = (await app.counts())["default"]
        assert (counts.waiting, counts.ready, counts.running) == (1, 30, 0)
        first = await app.jobs(limit=20)
        second = await app.jobs(limit=20, before=first[-1].id)
        assert len(first) == 20
        assert len(second) == 11
        assert [job.payload["n"] for job in await app.jobs(tag="late")] == [99]
        assert len(await app.jobs(state="waiting")) == 1
