"""Claims: never over the limit, in the right order, each once, limits kept cluster-wide."""

import asyncio
import contextlib
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import psycopg
import pytest

from sexton import Sexton, sql
from sexton.domain.job import AGEING, PRIORITIES
from sexton.domain.outcome import Succeeded
from sexton.flow.claim import Claimer
from sexton.store import Line, Store
from sexton.store.connection import Address
from sexton.store.jobs import BEGINNING, Place

from ..support.hands import Hands, hands


async def test_a_claim_never_exceeds_its_limit(address: Address) -> None:
    async with hands(address) as worker:
        for priority in (-5, -1, 0, 0, 0, 3, 5, 5):
            await worker.enqueue(priority=priority)
        assert [len(await worker.claim(3)) for _ in range(4)] == [3, 3, 2, 0]


async def test_every_claim_has_a_larger_fence_whatever_the_job(address: Address) -> None:
    async with hands(address) as worker:
        for _ in range(3):
            await worker.enqueue()
        first, second = await worker.claim(), await worker.claim()
        await worker.settle(first[0], Succeeded())
        third = await worker.claim()
        fences = [claim.fence for claim in (*first, *second, *third)]
        assert fences == sorted(set(fences))


async def test_many_claimers_at_once_share_the_jobs_without_overlap(address: Address) -> None:
    async with hands(address) as one, hands(address) as two, hands(address) as three:
        for _ in range(300):
            await one.enqueue()
        taken: list[int] = []

        async def work(worker: Hands) -> None:
            while claims := await worker.claim(7):
                taken.extend(claim.id for claim in claims)

        await asyncio.gather(work(one), work(two), work(three))
        assert len(taken) == 300
        assert len(set(taken)) == 300


class At:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


async def test_a_priority_is_a_head_start_and_nothing_starves(address: Address) -> None:
    clock = At()
    async with hands(address, clock=clock) as worker:
        low = await worker.enqueue(priority=-5)
        clock.now += timedelta(seconds=AGEING * 10 - 1)
        sooner = await worker.enqueue(priority=5)
        assert [claim.id for claim in await worker.claim(1)] == [sooner.id]
        # The bound: ten steps of priority are ten head starts, and not a second more.
        clock.now += timedelta(seconds=2)
        await worker.enqueue(priority=5)
        assert [claim.id for claim in await worker.claim(1)] == [low.id]


async def test_within_a_priority_the_oldest_goes_first(address: Address) -> None:
    async with hands(address) as worker:
        ids = [(await worker.enqueue()).id for _ in range(20)]
        assert [claim.id for _ in range(20) for claim in await worker.claim(1)] == ids


async def test_a_job_is_not_claimed_before_it_is_due(address: Address) -> None:
    clock = At()
    async with hands(address, clock=clock) as worker:
        await worker.enqueue(delay=10.0)
        assert not await worker.claim()
        clock.now += timedelta(seconds=9.999)
        assert not await worker.claim()
        clock.now += timedelta(seconds=0.001)
        assert await worker.claim()


async def test_a_worker_that_is_gone_claims_nothing(address: Address) -> None:
    async with hands(address) as worker:
        await worker.enqueue()
        await worker.store.workers.leave(worker.worker)
        assert not await worker.claim()


async def test_jobs_committed_behind_the_place_where_claiming_begins_are_found(
    address: Address, database_url: str
) -> None:
    async with hands(address) as worker:
        claimer = Claimer(worker.store, "default", [], [])
        late = await asyncpg.connect(database_url)
        transaction = late.transaction()
        await transaction.start()
        await late.execute("select sexton.enqueue('late')")
        # Others are enqueued after it and claimed long after: the place moves past it.
        for _ in range(3):
            await worker.enqueue()
        await worker.rows("update sexton.job set due_at = due_at - interval '1 minute'")
        assert len(await claimer.run_once(10, worker.worker)) == 3
        await transaction.commit()
        await late.execute("update sexton.job set due_at = now() - interval '2 minutes' "
                           "where task = 'late'")  # fmt: skip
        await late.close()
        assert not await claimer.run_once(10, worker.worker)
        found: list[bool] = []
        await claimer.sweep(worker.store, lambda: found.append(True))
        assert found
        assert [claim.task for claim in await claimer.run_once(10, worker.worker)] == ["late"]


async def test_a_sweep_rests_by_what_it_cost_the_server_not_by_how_long_its_answer_took(
    address: Address,
) -> None:
    async with hands(address) as worker:
        claimer = Claimer(worker.store, "default", [], [])
        await claimer.sweep(worker.store, lambda: None)
        await worker.enqueue()
        began = time.monotonic()
        # Another statement has the connection, as slow answers and a busy process would.
        other = asyncio.create_task(worker.rows("select pg_sleep(2)"))
        await asyncio.sleep(0)
        spent = await claimer.sweep(worker.store, lambda: None)
        took = time.monotonic() - began
        await other
        assert took >= 2
        assert 0 < spent < took / 2


@pytest.mark.parametrize("statement", ["waiting", "limited_tasks"])
async def test_what_a_sweep_says_it_cost_has_the_whole_walk_in_it(
    address: Address, database_url: str, statement: str
) -> None:
    async with hands(address) as worker:
        await worker.enqueue()
        await worker.rows("update sexton.job set limited = $1", statement == "limited_tasks")
        # The same statement, over a table that takes its time for every row.
        await worker.rows("create schema slow")
        await worker.rows(
            "create view slow.job as select * from sexton.job where pg_sleep(0.3)::text is not null"
        )
        given = [list(PRIORITIES), None, None] if statement == "waiting" else [None, None]
        rows = await worker.rows(sql.statement(statement, "slow"), "default", *given)
        [cost] = [row["seconds"] for row in rows if row["seconds"] is not None]
        assert len(rows) == 2
        assert cost >= 0.3


def limited_app(
    database_url: str, max_running: int | None = None, max_running_per_key: int | None = None
) -> Sexton:
    app = Sexton(database_url)

    @app.task(name="few", max_running=max_running, max_running_per_key=max_running_per_key)
    async def few(n: int) -> None: ...

    return app


async def claim_limited(worker: Hands, limit: int = 100) -> list[Any]:
    claims, _, _ = await worker.store.jobs.claim_limited(
        "default", limit, worker.worker, [Place("few")]
    )
    return claims


async def test_max_running_holds_over_all_workers(address: Address, database_url: str) -> None:
    app = limited_app(database_url, max_running=4)
    async with app, hands(address) as one, hands(address) as two:
        await app.declare()
        await app.enqueue_many(app.tasks["few"].call(n) for n in range(20))
        assert not await one.claim(100), "the ordinary claim leaves limited jobs alone"
        got = await asyncio.gather(claim_limited(one, 3), claim_limited(two, 3), claim_limited(one))
        first = [claim for claims in got for claim in claims] + await claim_limited(two)
        assert len(first) == 4
        assert not await claim_limited(one)
        await one.settle(first[0], Succeeded())
        assert len(await claim_limited(two)) == 1


async def test_who_vanished_while_it_counted_a_limit_that_was_reached_keeps_no_job_from_others(
    address: Address, database_url: str
) -> None:
    """It claimed nothing, so it has no row locked; but whoever counts meanwhile passes by."""
    app = limited_app(database_url, max_running=1)
    async with app, hands(address) as worker:
        await app.declare()
        await app.enqueue_many(app.tasks["few"].call(n) for n in range(2))
        [claim] = await claim_limited(worker)
        with contextlib.closing(psycopg.Connection.connect(database_url)) as vanished:
            line = vanished.pgconn
            line.enter_pipeline_mode()
            given = ("default", "1", str(worker.worker), "{few}", "{1}", "{0}", "{-infinity}")
            line.send_query_params(
                sql.statement("claim_limited", "sexton").encode(),
                [each.encode() for each in (*given, "{NULL}", "{NULL}", str(AGEING))] + [None],
            )
            line.send_flush_request()
            line.flush()
            while not await worker.value(
                "select exists (select from pg_stat_activity where pid = $1 and state = 'active' "
                "and wait_event = 'ClientRead')",
                vanished.info.backend_pid,
            ):
                pass
            await worker.settle(claim, Succeeded())
            assert not await claim_limited(worker)
            assert await worker.store.cluster.evict(3600) == []
            assert len(await worker.store.cluster.evict(0, 0)) == 1
            while not await claim_limited(worker):
                pass


async def test_max_running_per_key_lets_other_keys_pass(
    address: Address, database_url: str
) -> None:
    app = limited_app(database_url, max_running_per_key=1)
    async with app, hands(address) as worker:
        await app.declare()
        few = app.tasks["few"]
        await app.enqueue_many(
            few.call(n).options(limit_key=f"customer {n % 3}") for n in range(30)
        )
        await few.enqueue(n=99)
        claims = await claim_limited(worker)
        assert sorted(claim.payload for claim in claims) == [
            '{"n":0}', '{"n":1}', '{"n":2}', '{"n":99}']  # fmt: skip
        assert not await claim_limited(worker)


async def test_a_full_key_with_a_long_queue_does_not_hide_the_others(
    address: Address, database_url: str
) -> None:
    app = limited_app(database_url, max_running_per_key=1)
    async with app, hands(address) as worker:
        await app.declare()
        few = app.tasks["few"]
        # A hundred keys are full, two hundred wait for the clock: the last one is still served.
        calls = [few.call(n).options(limit_key=f"a{n:03}") for n in range(100)]
        await app.enqueue_many(calls)
        running = [claim for _ in range(3) for claim in await claim_limited(worker)]
        assert len(running) == 100
        await app.enqueue_many([few.call(n).options(limit_key=f"a{n:03}") for n in range(100)])
        await app.enqueue_many(
            [few.call(n).options(limit_key=f"b{n:03}", delay=3600) for n in range(200)]
        )
        last = await few.enqueue(n=7, limit_key="z")
        assert [claim.id for claim in await claim_limited(worker)] == [last.id]


async def test_a_limit_holds_for_jobs_enqueued_by_code_that_did_not_know_it(
    address: Address, database_url: str
) -> None:
    free, tied = limited_app(database_url), limited_app(database_url, max_running=1)
    async with free, tied, hands(address) as worker:
        await tied.declare()
        await free.enqueue_many(free.tasks["few"].call(n) for n in range(5))
        claimer = Claimer(worker.store, "default", ["few"], ["few"])
        claims = [claim for _ in range(4) for claim in await claimer.run_once(10, worker.worker)]
        assert len(claims) == 1
        assert claims[0].attempt == 1, "being put right burns no attempt"


async def test_jobs_that_waited_for_a_limit_run_when_it_is_gone(
    address: Address, database_url: str
) -> None:
    free, tied = limited_app(database_url), limited_app(database_url, max_running=1)
    async with free, tied, hands(address) as worker:
        await tied.declare()
        await tied.enqueue_many(tied.tasks["few"].call(n) for n in range(5))
        await free.declare()
        claimer = Claimer(worker.store, "default", ["few"], [])
        assert not await claimer.run_once(10, worker.worker)
        await claimer.sweep(worker.store, lambda: None)
        assert len(await claimer.run_once(10, worker.worker)) == 5


async def test_a_claim_survives_the_failure_of_the_one_beside_it(
    address: Address, database_url: str
) -> None:
    app = limited_app(database_url, max_running=1)

    @app.task
    async def plain() -> None: ...

    async with app, hands(address) as worker:
        await app.declare()
        await plain.enqueue()
        await app.tasks["few"].enqueue(n=1)
        claimer = Claimer(worker.store, "default", ["few", "plain"], ["few"])
        claimer._limited_first = True  # so the ordinary one goes first
        await worker.rows("alter function sexton.claim_within_limits rename to out_of_order")
        assert [claim.task for claim in await claimer.run_once(10, worker.worker)] == ["plain"]


async def test_what_a_sweep_found_is_not_forgotten_by_a_claim_on_its_way(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hands(address) as worker:
        claimer = Claimer(worker.store, "default", [], [])
        await worker.enqueue()
        original = worker.store.jobs.claim

        async def slow(*args: Any) -> Any:
            claims = await original(*args)
            # Meanwhile a job is committed far behind, and the sweep finds it.
            await worker.enqueue("late")
            await worker.rows("update sexton.job set due_at = due_at - interval '1 h' "
                              "where task = 'late'")  # fmt: skip
            claimer._since[1, 0] = BEGINNING.replace(year=2001)
            return claims

        with monkeypatch.context() as patched:
            patched.setattr(worker.store.jobs, "claim", slow)
            await claimer.run_once(10, worker.worker)
        assert [claim.task for claim in await claimer.run_once(10, worker.worker)] == ["late"]


async def test_a_limit_survives_fifty_workers_that_die(address: Address, database_url: str) -> None:
    app = limited_app(database_url, max_running=2)
    async with app:
        await app.declare()
        await app.enqueue_many(app.tasks["few"].call(n) for n in range(5))
        line = Line(address)
        store = Store(line, "sexton")
        from sexton.flow import reap

        for n in range(50):
            worker = await store.workers.register(f"w{n}", ["default"], "test", 30)
            claims, _, _ = await store.jobs.claim_limited("default", 10, worker, [Place("few")])
            assert len(claims) == 2
            # Its lease ran out long ago, as far as the database can tell.
            await store.source.fetch(
                "update sexton.worker set lease_until = now() - interval '1 h' where id = $1",
                worker,
            )
            await store.source.fetch("update sexton.task set max_attempts = 1000, retry_cap = 0")
            await store.source.fetch("update sexton.worker set lease_for = '0 s'")
            assert await reap.run_once(store) == 2
        await line.close()
