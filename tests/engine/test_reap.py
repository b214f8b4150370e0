"""Reaping and pruning: nobody's lock keeps others waiting, and nothing piles up."""

import contextlib
from datetime import timedelta

import asyncpg
import psycopg
import pytest

from sexton import sql
from sexton.domain.job import AGEING, PRIORITIES
from sexton.domain.transitions import Settlement
from sexton.flow import prune, reap
from sexton.flow.meters import Tally
from sexton.store import Borrowed
from sexton.store.connection import Address
from sexton.store.foreign import run_async, succeed_call
from sexton.store.jobs import Orphan

from ..support.hands import hands

LOSE = """
update sexton.worker set lease_until = now() - interval '1 h', lease_for = '0 s' where id = $1
"""
GONE = """
insert into sexton.worker (
    name, queues, version, started_at, renewed_at, lease_until, lease_for, gone_at, gone_why)
select 'gone', '{}', '', at, at, at, '1 hour', at, 'lost'
from generate_series(1, $1::integer), (select now() - $2::interval as at) as gone
"""
ONE_TRY = """
insert into sexton.task (
    name, queue, priority, max_attempts, retry_base, retry_factor, retry_cap, declared_at)
values ('t', 'default', 0, 1, 1, 2, 60, now())
"""


async def test_an_orphan_that_somebody_has_locked_does_not_keep_the_reaper_from_the_others(
    address: Address, database_url: str
) -> None:
    async with hands(address) as lost, hands(address) as worker:
        for _ in range(20):
            await lost.enqueue()
        claims = await lost.claim(20)
        await worker.rows(
            "update sexton.worker set lease_until = now() - interval '1 h', lease_for = '0 s' "
            "where id = $1",
            lost.worker,
        )
        other = await asyncpg.connect(database_url)
        transaction = other.transaction()
        await transaction.start()
        # A task of the lost worker settles itself after all, and does not come to its commit.
        await other.execute("select sexton.succeed($1, $2)", claims[7].id, claims[7].fence)
        assert await reap.run_once(worker.store) == 19
        await transaction.rollback()
        await other.close()
        assert await reap.run_once(worker.store) == 1


async def test_an_orphan_whose_key_somebody_has_locked_does_not_keep_the_reaper_from_the_others(
    address: Address, database_url: str
) -> None:
    """It is on its last try, and to bury it is to free its key."""
    async with hands(address) as lost, hands(address) as worker:
        await worker.rows(ONE_TRY)
        held = await lost.enqueue(key="k")
        for _ in range(20):
            await lost.enqueue()
        await lost.claim(21)
        await worker.rows(LOSE, lost.worker)
        other = await asyncpg.connect(database_url)
        await other.execute("begin; select from sexton.held_key for update")
        await worker.rows("set lock_timeout = '50ms'")
        assert await reap.run_once(worker.store) == 20
        assert await worker.value("select array_agg(id) from sexton.job") == [held.id]
        await other.close()
        assert await reap.run_once(worker.store) == 1


async def test_an_orphan_that_a_trigger_will_not_have_settled_keeps_the_reaper_from_no_other(
    address: Address,
) -> None:
    async with hands(address) as lost, hands(address) as worker:
        for n in range(7):
            await lost.enqueue(tags=["precious"] if n < 2 else None)
        await lost.claim(7)
        await worker.rows(LOSE, lost.worker)
        await worker.rows(
            "create function public.refuse() returns trigger language plpgsql as "
            "$$ begin raise 'it stays'; end $$"
        )
        await worker.rows(
            "create trigger refuse before update on sexton.job for each row "
            "when (old.tags is not null) execute function public.refuse()"
        )
        assert await reap.run_once(worker.store) == 5
        await worker.rows("drop trigger refuse on sexton.job")
        assert await reap.run_once(worker.store) == 2


async def test_a_batch_of_orphans_that_takes_too_long_is_reaped_in_smaller_ones(
    address: Address,
) -> None:
    async with hands(address) as lost, hands(address) as worker:
        for _ in range(20):
            await lost.enqueue()
        await lost.claim(20)
        await worker.rows(LOSE, lost.worker)
        await worker.rows(
            "create function public.dawdle() returns trigger language plpgsql as "
            "$$ begin perform pg_sleep(0.02); return new; end $$"
        )
        await worker.rows(
            "create trigger dawdle before update on sexton.job for each row "
            "execute function public.dawdle()"
        )
        await worker.rows("set statement_timeout = '250ms'")
        assert await reap.run_once(worker.store) == 20


async def test_a_worker_that_somebody_has_locked_does_not_keep_the_others_from_being_lost(
    address: Address, database_url: str
) -> None:
    async with hands(address) as renewing, hands(address) as lost, hands(address) as worker:
        await worker.rows(
            "update sexton.worker set lease_until = now() - interval '1 h', lease_for = '0 s' "
            "where id in ($1, $2)",
            *(renewing.worker, lost.worker),
        )
        other = await asyncpg.connect(database_url)
        await other.execute("begin")
        await other.fetch(sql.statement("renew", "sexton"), renewing.worker, None, None)
        assert [id for id, _ in await worker.store.workers.lose_expired()] == [lost.worker]
        await other.close()
        assert [id for id, _ in await worker.store.workers.lose_expired()] == [renewing.worker]


async def test_a_claim_whose_worker_vanished_in_the_middle_of_it_is_undone(
    address: Address, database_url: str
) -> None:
    """Its statement was run and not ended: nobody would see its jobs again before the session ends.

    A transaction of the application's own is left alone, however long it takes.
    """
    async with hands(address) as gone, hands(address) as worker:
        job = await worker.enqueue()
        application = await asyncpg.connect(database_url)
        await application.execute("begin; select sexton.enqueue('t')")
        with contextlib.closing(psycopg.Connection.connect(database_url)) as vanished:
            line = vanished.pgconn
            line.enter_pipeline_mode()
            lanes = "{" + ",".join(map(str, PRIORITIES)) + "}"
            begin = "{" + ",".join("2000-01-01" for _ in PRIORITIES) + "}"
            tenants = "{" + ",".join("1" for _ in PRIORITIES) + "}"
            given = ("default", "1", str(gone.worker), tenants, lanes, begin, str(AGEING), None)
            line.send_query_params(
                sql.statement("claim", "sexton").encode(),
                [None if each is None else each.encode() for each in given],
            )
            line.send_flush_request()
            line.flush()
            while not await worker.value(
                "select exists (select from pg_stat_activity where pid = $1 and state = 'active' "
                "and wait_event = 'ClientRead')",
                vanished.info.backend_pid,
            ):
                pass
            assert await worker.claim() == []
            assert await worker.store.cluster.evict(3600) == []
            assert len(await worker.store.cluster.evict(0, 0)) == 1
            while not (claims := await worker.claim()):
                pass
            assert [claim.id for claim in claims] == [job.id]
        assert await application.fetchval("select 1") == 1
        await application.close()


@pytest.mark.parametrize("own", [True, False], ids=["a transaction of ours", "settle_in"])
async def test_a_worker_that_stands_still_between_its_settlement_and_the_commit_loses_the_job(
    address: Address, database_url: str, own: bool
) -> None:
    """Its session has the job locked: nobody could run it again for as long as that takes."""
    async with hands(address) as still, hands(address) as worker:
        job = await worker.enqueue()
        [claim] = await still.claim()
        application = await asyncpg.connect(database_url)
        await application.execute("begin; select sexton.enqueue('t')")
        settling = await asyncpg.connect(database_url)
        await settling.execute("begin")
        if own:
            success = (claim.id, claim.fence, Settlement("succeeded", "succeeded"))
            assert await worker.store.over(Borrowed(settling)).jobs.settle([success])
        else:
            call = succeed_call("sexton", claim.id, claim.fence, None, None)
            assert await run_async(settling, call) == (True,)
        await worker.rows(
            "update sexton.worker set lease_until = now() - interval '1 h', lease_for = '0 s' "
            "where id = $1",
            still.worker,
        )
        assert await reap.run_once(worker.store) == 0
        assert await worker.store.cluster.evict(3600) == []
        assert len(await worker.store.cluster.evict(0, 0)) == 1
        while not await reap.run_once(worker.store):
            pass
        [again] = await worker.claim()
        assert (again.id, again.attempt) == (job.id, 2)
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
            await settling.execute("commit")
        assert await application.fetchval("select 1") == 1
        await application.close()


async def test_a_long_transaction_that_is_about_to_use_a_statement_of_ours_is_left_alone(
    address: Address, database_url: str
) -> None:
    """A client reads how a statement is described before it sends what is to be put in."""
    async with hands(address) as worker:
        with contextlib.closing(psycopg.Connection.connect(database_url)) as application:
            application.execute("select sexton.enqueue('t')")
            pid = application.info.backend_pid
            age = "select extract(epoch from clock_timestamp() - xact_start)::float8 "
            while (
                old := await worker.value(f"{age} from pg_stat_activity where pid = $1", pid)
            ) < 2:
                pass
            line = application.pgconn
            line.enter_pipeline_mode()
            line.send_prepare(b"one", sql.statement("enqueue_one", "sexton").encode())
            line.send_flush_request()
            line.flush()
            while not await worker.value(
                "select exists (select from pg_stat_activity where pid = $1 and state = 'active' "
                "and wait_event = 'ClientRead')",
                pid,
            ):
                pass
            assert await worker.store.cluster.evict(old - 0.5, old - 0.5) == []


async def test_what_dies_with_its_worker_is_counted_by_who_reaps_it(address: Address) -> None:
    """A job that kills every worker is not seen by any of them."""
    async with hands(address) as lost, hands(address) as worker:
        for task in ("poison", "poison", "unlucky"):
            await lost.enqueue(task)
        await lost.claim(3)
        await worker.rows(
            "insert into sexton.task (name, queue, priority, max_attempts, retry_base, "
            "retry_factor, retry_cap, declared_at) "
            "values ('poison', 'default', 0, 1, 1, 2, 60, now())"
        )
        await worker.rows(
            "update sexton.worker set lease_until = now() - interval '1 h', lease_for = '0 s' "
            "where id = $1",
            lost.worker,
        )
        settled, died = Tally(), Tally()

        def count(orphan: Orphan, settlement: Settlement) -> None:
            settled.add(orphan.task, settlement.outcome)
            if settlement.reason is not None:
                died.add(orphan.task, settlement.reason)

        assert await reap.run_once(worker.store, count=count) == 3
        assert sorted(settled) == [("poison", "lost", 2), ("unlucky", "lost", 1)]
        assert [*died] == [("poison", "exhausted", 2)]


async def test_everything_that_is_over_goes_in_one_prune(address: Address) -> None:
    count = 2 * prune.BATCH + 1
    async with hands(address) as worker:
        await worker.rows(
            "insert into sexton.held_key select 't', 'k' || n, n, now() - interval '1 h' "
            "from generate_series(1, $1::int) as n",
            count,
        )
        await worker.rows(
            "insert into sexton.dead (job_id, died_at, created_at, attempt, attempts_before, "
            "priority, reason, task, queue, payload) select n, now() - interval '3 days', now(), "
            "1, 0, 0, 'permanent', 't', 'default', '{}' from generate_series(1, $1::int) as n",
            count,
        )
        await worker.rows(GONE, count, timedelta(days=92))
        kept = await worker.value("select count(*) from sexton.worker where gone_at is null")
        await worker.rows("update sexton.installation set dead_retention = '2 days'")
        await prune.run_once(worker.store)
        assert await worker.value("select count(*) from sexton.worker") == kept
        assert await worker.value("select count(*) from sexton.held_key") == 0
        assert await worker.value("select count(*) from sexton.dead") == 0
