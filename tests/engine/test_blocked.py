"""Outcomes that cannot be recorded, now or ever: they hold up nobody, and nothing is left over."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator

import asyncpg
import pytest

from sexton import Job, Retry, Sexton
from sexton.domain.outcome import Failed, Lost, Outcome, Released, Snoozed, Succeeded
from sexton.domain.transitions import SUCCEEDED, Settlement
from sexton.errors import Unavailable
from sexton.flow import stray
from sexton.flow import worker as worker_module
from sexton.flow.settle import Settler
from sexton.sql import statement
from sexton.store import Line
from sexton.store.connection import Address

from ..support.hands import hands
from .test_worker import ended, working


@contextlib.asynccontextmanager
async def stranger(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield connection
    finally:
        await transaction.rollback()
        await connection.close()


async def somebody_waits(url: str) -> None:
    """Until a session of this database waits for a lock."""
    connection = await asyncpg.connect(url)
    query = """select exists (select from pg_stat_activity
               where wait_event_type = 'Lock' and datname = current_database())"""
    while not await connection.fetchval(query):
        await asyncio.sleep(0.005)
    await connection.close()


@pytest.mark.parametrize("outcome", [Failed("x"), Snoozed(5.0, "later"), Released(), Lost("x")])
async def test_a_cancel_committed_while_a_settlement_waits_for_its_row_ends_the_job(
    outcome: Outcome, address: Address, database_url: str
) -> None:
    connection = await asyncpg.connect(database_url)
    async with hands(address) as worker:
        enqueued = await worker.enqueue()
        [claim] = await worker.claim()
        await worker.rows("set lock_timeout = '60s'")
        async with connection.transaction():
            await connection.fetch(statement("cancel", "sexton"), [enqueued.id], None, None)
            settling = asyncio.create_task(worker.settle(claim, outcome))
            await somebody_waits(database_url)
        assert await settling
        job = await worker.store.history.job(enqueued.id)
        assert job is not None
        assert job.state == "cancelled"
    await connection.close()


@pytest.mark.parametrize(
    "outcome", [Succeeded('"x"'), Failed("x"), Failed("x", permanent=True), Released()]
)
async def test_progress_committed_again_and_again_while_a_settlement_waits_loses_no_outcome(
    outcome: Outcome, address: Address, database_url: str
) -> None:
    one, two = await asyncpg.connect(database_url), await asyncpg.connect(database_url)
    said = "update sexton.job set progress = $1"
    async with hands(address) as worker:
        enqueued = await worker.enqueue()
        [claim] = await worker.claim()
        await worker.rows("set lock_timeout = '60s'")
        first = one.transaction()
        await first.start()
        await one.execute(said, "1")
        waiting = asyncio.create_task(two.execute("begin; update sexton.job set progress = '2'"))
        await somebody_waits(database_url)
        settling = asyncio.create_task(worker.settle(claim, outcome))
        while await one.fetchval("select count(*) from pg_locks where not granted") < 2:
            await asyncio.sleep(0.005)
        await first.commit()
        await waiting
        await two.execute("commit")
        assert await settling
        job = await worker.store.history.job(enqueued.id)
        assert job is not None
        assert [each.outcome for each in job.attempts] != []
    await one.close()
    await two.close()


async def test_settlements_lock_jobs_in_the_order_in_which_cancelling_does(
    address: Address, database_url: str
) -> None:
    async with hands(address) as worker, stranger(database_url) as connection:
        for _ in range(3):
            await worker.enqueue()
        claims = await worker.claim(3)
        _, two, three = sorted(claim.id for claim in claims)
        await connection.fetch("select from sexton.job where id = $1 for update", two)
        await worker.rows("set lock_timeout = '60s'")
        again = Settlement("failed", "waiting", delay=1.0, error="x")
        settled = [(each.id, each.fence, again) for each in claims]
        settling = asyncio.create_task(
            worker.store.jobs.settle(sorted(settled, key=lambda each: -each[0]))
        )
        await somebody_waits(database_url)
        free = await connection.fetch("select id from sexton.job for update skip locked")
        assert {row["id"] for row in free} == {two, three}, "the first is locked, the last is not"
        await connection.execute("rollback; begin")
        assert await settling == {claim.id for claim in claims}


async def test_a_locked_job_slows_the_settlements_of_others_once_at_most(
    address: Address, database_url: str
) -> None:
    settled: set[int] = set()

    def note(claims: object, ours: set[int]) -> None:
        settled.update(ours)

    async with hands(address) as worker, stranger(database_url) as connection:
        settler = Settler(worker.store, note)
        for _ in range(60):
            await worker.enqueue()
        claims = await worker.claim(60)
        locked = claims[7]
        await connection.fetch("select from sexton.job where id = $1 for update", locked.id)
        for n, claim in enumerate(claims[:30]):
            settler.add(
                claim, SUCCEEDED if n % 2 else Settlement("succeeded", "succeeded", result="1")
            )
        await settler.run_once()
        assert settled == {claim.id for claim in claims[:30]} - {locked.id}
        assert settler.unsettled == 1
        before = settler.batches
        for claim in claims[30:]:
            settler.add(claim, SUCCEEDED)
        while settler.unsettled > 1:
            await settler.run_once()
        assert settled == {claim.id for claim in claims} - {locked.id}
        assert settler.batches == before + 1, "one statement for all the others"
        await connection.execute("rollback; begin")
        while settler.unsettled:
            await settler.run_once()
        await settler.drained()
        assert locked.id in settled


async def test_what_was_settled_before_the_server_went_is_not_sent_again(
    address: Address, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with hands(address) as worker:
        settler = Settler(worker.store, lambda claims, ours: None)
        for _ in range(2):
            await worker.enqueue()
        plain, other = await worker.claim(2)
        connection = await asyncpg.connect(database_url)
        await connection.execute(
            """create function lose() returns trigger language plpgsql as $$
               begin perform pg_terminate_backend(pg_backend_pid()); return null; end $$;
               create trigger lose after update on sexton.job
               for each row execute function lose()"""
        )
        settler.add(plain, SUCCEEDED)
        settler.add(other, Settlement("failed", "waiting", delay=0.0, error="x"))
        with pytest.raises(Exception, match="did not answer"):
            await settler.run_once()
        assert settler.unsettled == 1
        await connection.execute("drop function lose cascade")
        await connection.close()
        await settler.run_once()
        assert settler.unsettled == 0
        assert "refused" not in caplog.text


@pytest.mark.parametrize("delay", [math.nan, 1e300])
async def test_a_delay_that_is_no_time_stops_no_other_settlement(
    delay: float, address: Address
) -> None:
    async with hands(address) as worker:
        settler = Settler(worker.store, lambda claims, ours: None)
        for _ in range(3):
            await worker.enqueue()
        claims = await worker.claim(3)
        for n, claim in enumerate(claims):
            delayed = delay if n == 1 else 5.0
            settler.add(claim, Settlement("failed", "waiting", delay=delayed, error="x"))
        await settler.run_once()
        assert settler.unsettled == 0
        jobs = [await worker.store.history.job(claim.id) for claim in claims]
        assert [job and job.state for job in jobs] == ["waiting", "dead", "waiting"]
        assert jobs[1] is not None
        assert "could not be kept" in (jobs[1].error or "")


async def test_a_policy_that_cannot_decide_costs_no_slot(app: Sexton) -> None:
    class Undecided(Retry):
        def delay(self, tries: int, noise: float) -> float:
            raise RuntimeError("no idea")

    @app.task(retry=Undecided())
    async def fail() -> None:
        raise ValueError

    async with working(app) as worker:
        job = await ended(app, (await fail.enqueue()).id)
        assert worker.health.running == 0
    assert job.state == "dead"
    assert "no idea" in (job.error or "")


async def test_a_worker_claims_nothing_while_too_many_outcomes_wait_to_be_recorded(
    app: Sexton, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "MOST_UNSETTLED", 2)
    gate = asyncio.Event()
    begun: list[int] = []

    @app.task
    async def wait(n: int) -> None:
        begun.append(n)
        await gate.wait()

    async with working(app) as worker:
        await app.enqueue_many([wait.call(n) for n in range(3)])
        while len(begun) < 3:
            await asyncio.sleep(0.01)
        async with stranger(database_url) as connection:
            await connection.fetch("select from sexton.job for update")
            gate.set()
            while worker.health.unsettled < 3:
                await asyncio.sleep(0.01)
            assert worker._who_claims() is None
            late = await wait.enqueue(3)
        assert (await ended(app, late.id)).state == "succeeded"
        assert worker._who_claims() is not None


async def test_a_claim_larger_than_can_be_carried_in_time_is_made_smaller(
    database_url: str,
) -> None:
    app = Sexton(database_url, lease=5, poll=1, grace=5, patience=0.5)
    ran = asyncio.Event()

    @app.task
    async def take() -> None:
        ran.set()

    connection = await asyncpg.connect(database_url)
    await connection.execute(
        """create function dawdle() returns trigger language plpgsql as $$
           begin perform pg_sleep(0.02); return new; end $$;
           create trigger dawdle before update on sexton.job
           for each row when (old.claimed_by is null) execute function dawdle()"""
    )
    async with app:
        await app.enqueue_many([take.call() for _ in range(200)])
    async with working(app, concurrency=40):
        await ran.wait()
        await connection.execute("drop function dawdle cascade")
    await connection.close()


async def test_a_batch_larger_than_can_be_settled_in_time_is_made_smaller(
    database_url: str,
) -> None:
    async with hands(Address(database_url, patience=0.5)) as worker:
        settler = Settler(worker.store, lambda claims, ours: None)
        for _ in range(40):
            await worker.enqueue()
        for claim in await worker.claim(40):
            settler.add(claim, SUCCEEDED)
        connection = await asyncpg.connect(database_url)
        await connection.execute(
            """create function dawdle() returns trigger language plpgsql as $$
               begin perform pg_sleep(0.1); return old; end $$;
               create trigger dawdle before delete on sexton.job
               for each row execute function dawdle()"""
        )
        with pytest.raises(Unavailable):
            await settler.run_once()
        assert settler.unsettled == 40
        await connection.execute(
            """select pg_terminate_backend(pid) from pg_stat_activity
               where wait_event = 'PgSleep' and datname = current_database()"""
        )
        await connection.execute("drop function dawdle cascade")
        await connection.close()
        assert [await settler.run_once() for _ in range(2)] == [20, 20]
        assert await worker.value("select count(*) from sexton.attempt") == 40


async def test_nothing_of_ours_is_settled_when_nothing_of_a_batch_is(address: Address) -> None:
    async with hands(address) as worker:
        await worker.enqueue()
        [stale] = await worker.claim()
        await worker.rows("update sexton.job set claimed_by = null")
        await worker.claim()
        assert await worker.store.jobs.settle_succeeded([stale.id], [stale.fence]) == set()


async def test_a_refused_success_is_remarked_upon(
    address: Address, caplog: pytest.LogCaptureFixture
) -> None:
    async with hands(address) as worker:
        await worker.enqueue()
        [stale] = await worker.claim()
        await worker.rows("update sexton.job set claimed_by = null")
        settler = Settler(worker.store, lambda claims, ours: None)
        settler.add(stale, SUCCEEDED)
        await settler.run_once()
    assert "was refused" in caplog.text


async def test_a_claim_that_was_never_heard_of_is_put_back_even_without_an_outage(
    app: Sexton, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stray, "EVERY", 0.05)
    monkeypatch.setattr(stray, "SELDOM", 0.05)

    @app.task
    async def take() -> None: ...

    async with app:
        enqueued = await take.enqueue(delay=3600)
    connection = await asyncpg.connect(database_url)
    async with working(app) as worker:
        await connection.execute(
            """update sexton.job set claimed_by = $1, fence = nextval('sexton.fence'), attempt = 1,
               claimed_at = now() - interval '1 hour'""",
            worker.health.worker,
        )
        job = await ended(app, enqueued.id)
    await connection.close()
    assert [each.outcome for each in job.attempts] == ["released", "succeeded"]


async def test_one_locked_job_keeps_nobody_elses_progress_back(
    app: Sexton, database_url: str
) -> None:
    async def all_said(ids: list[int], wanted: int) -> None:
        while len([id for id in ids if (await app.job(id)).progress == {"done": 1}]) < wanted:
            await asyncio.sleep(0.02)

    gate = asyncio.Event()
    begun: list[int] = []

    @app.task
    async def work(job: Job) -> None:
        begun.append(job.id)
        await gate.wait()
        job.progress({"done": 1})
        await asyncio.Event().wait()

    async with working(app):
        ids = [each.id for each in await app.enqueue_many([work.call() for _ in range(5)])]
        while len(begun) < 5:
            await asyncio.sleep(0.01)
        async with stranger(database_url) as connection:
            await connection.fetch("select from sexton.job where id = $1 for update", ids[0])
            gate.set()
            await all_said(ids[1:], 4)
            assert (await app.job(ids[0])).progress is None
        await all_said(ids, 5)
        await app.cancel(*ids)


@pytest.mark.parametrize("pooler", [False, True])
async def test_a_statement_that_was_given_up_does_not_run_on_in_postgresql(
    database_url: str, pooler: bool
) -> None:
    """Tried again by a loop, there would be one more of them each time."""
    watching = await asyncpg.connect(database_url)
    line = Line(Address(database_url, pooler=pooler, patience=0.5))
    with pytest.raises((Unavailable, asyncpg.QueryCanceledError)):
        await line.fetch("select pg_sleep(60)")
    async with asyncio.timeout(20):
        while await watching.fetchval(
            "select count(*) from pg_stat_activity where datname = current_database() "
            "and wait_event = 'PgSleep'"
        ):
            await asyncio.sleep(0.01)
    await line.close()
    await watching.close()
