"""Limits under load: no key starves, no crowd slows anybody, nothing is forgotten."""

import asyncio
import logging
import time
from typing import Any

import asyncpg
import pytest

from sexton import Retry, Sexton
from sexton.domain.job import Claim
from sexton.flow.claim import LOOK_AGAIN, OTHERS_FIRST, Claimer
from sexton.store.connection import Address
from sexton.store.jobs import Place
from sexton.store.workers import Declaration

from ..support.hands import Hands, hands
from .test_worker import working

PER_KEY = Declaration("t", "default", 0, Retry(), None, 1)


async def put(worker: Hands, key: str | None, **fields: Any) -> int:
    return (await worker.enqueue("t", limited=True, limit_key=key, **fields)).id


async def done(worker: Hands, claims: list[Claim]) -> None:
    await worker.store.jobs.settle_succeeded(
        [claim.id for claim in claims], [claim.fence for claim in claims]
    )


def took(claims: list[Claim], id: int) -> bool:
    return id in [claim.id for claim in claims]


async def crowd(
    worker: Hands, count: int, due: str, key: str = "'c' || lpad(n::text, 8, '0')"
) -> None:
    await worker.rows(
        f"insert into sexton.job (task, queue, limited, limit_key, due_at) "
        f"select 't', 'default', true, {key}, now() + {due} "
        f"from generate_series(1, $1::int) as n",
        count,
    )


async def test_a_key_does_not_starve_while_larger_ones_keep_coming(address: Address) -> None:
    async with hands(address) as worker:
        await worker.store.workers.declare([PER_KEY])
        claimer = Claimer(worker.store, "default", ["t"], ["t"])
        await put(worker, "order 000000")
        second = await put(worker, "order 000000")
        names = iter(f"order {n:06}" for n in range(1, 10_000))
        for _ in range(20):
            await put(worker, next(names))
        rounds = 0
        while not took(claims := await claimer.run_once(5, worker.worker), second):
            await done(worker, claims)
            for _ in claims:
                await put(worker, next(names))
            rounds += 1
            assert rounds < 20


async def test_a_key_behind_a_long_queue_of_a_full_one_does_not_starve_either(
    address: Address,
) -> None:
    async with hands(address) as worker:
        await worker.store.workers.declare([PER_KEY])
        claimer = Claimer(worker.store, "default", ["t"], ["t"])
        await crowd(worker, 1500, "-interval '1 hour'", key="'busy'")
        [running] = await claimer.run_once(5, worker.worker)
        last = await put(worker, "a")
        names = iter(f"z {n:06}" for n in range(10_000))
        for _ in range(200):
            await put(worker, next(names))
        rounds = 0
        while not took(claims := await claimer.run_once(5, worker.worker), last):
            await done(worker, claims)
            for _ in range(10):  # more than are claimed, and all larger
                await put(worker, next(names))
            rounds += 1
            assert rounds < 100
        assert running.task == "t"


async def test_a_hundred_thousand_keys_that_are_not_due_cost_a_claim_nothing(
    address: Address,
) -> None:
    async with hands(address) as worker:
        await worker.store.workers.declare([PER_KEY])
        await crowd(worker, 100_000, "interval '1 hour'")
        place = [Place("t")]
        claim = worker.store.jobs.claim_limited
        await claim("default", 50, worker.worker, place)  # plans are made
        began = time.perf_counter()
        claims, _, more = await claim("default", 50, worker.worker, place)
        empty = time.perf_counter() - began
        assert (claims, more) == ([], False)
        last = await put(worker, "zzz")
        began = time.perf_counter()
        claims, _, _ = await claim("default", 50, worker.worker, place)
        found = time.perf_counter() - began
        assert [each.id for each in claims] == [last]
        # A walk over all keys takes seconds.
        assert max(empty, found) < 1.0


async def test_a_crowd_of_full_keys_is_walked_over_a_little_at_a_time(address: Address) -> None:
    async with hands(address) as worker:
        await worker.store.workers.declare([PER_KEY])
        await crowd(worker, 1200, "-interval '1 hour'", key="'busy'")
        await crowd(worker, 1100, "interval '1 hour'")
        claimer = Claimer(worker.store, "default", ["t"], ["t"])
        last = await put(worker, "zzz")
        assert len(await claimer.run_once(50, worker.worker)) == 1
        claims: list[Claim] = []
        while not claims:
            again = await claimer.next_due_in()
            assert again is not None
            assert again <= 1.5 * LOOK_AGAIN, "the walk is not over: do not sleep yet"
            claims = await claimer.run_once(50, worker.worker)
        assert [each.id for each in claims] == [last]


async def test_who_finds_a_limit_being_counted_looks_again_soon(
    address: Address, database_url: str
) -> None:
    async with hands(address) as worker:
        await worker.store.workers.declare([Declaration("t", "default", 0, Retry(), 50, None)])
        claimer = Claimer(worker.store, "default", ["t"], ["t"])
        await put(worker, None)
        other = await asyncpg.connect(database_url)
        async with other.transaction():
            await other.execute(
                "select pg_advisory_xact_lock(hashtextextended('sexton.max_running:t', 0))"
            )
            for _ in range(12):  # however long it has been quiet
                assert not await claimer.run_once(5, worker.worker)
            again = await claimer.next_due_in()
            assert again is not None
            assert again <= 1.5 * LOOK_AGAIN
        await other.close()
        assert len(await claimer.run_once(5, worker.worker)) == 1


async def test_a_transaction_held_open_elsewhere_does_not_slow_limited_claims_with_every_job(
    address: Address, database_url: str
) -> None:
    async with hands(address) as worker:
        await worker.store.workers.declare([PER_KEY])
        claimer = Claimer(worker.store, "default", ["t"], ["t"])
        await crowd(worker, 3000, "-interval '1 minute' + n * interval '1 ms'", key="'k' || n % 50")
        holder = await asyncpg.connect(database_url)
        async with holder.transaction(isolation="repeatable_read"):
            await holder.execute("select 1 from sexton.job limit 1")
            while claims := await claimer.run_once(50, worker.worker):
                await done(worker, claims)
            await put(worker, "last")
            [claim] = await claimer.run_once(50, worker.worker)
        await holder.close()
        place = claimer._places["t", 1]
        assert place.since.timestamp() > claim.due - 60, "it begins where the last was found"


async def test_a_cancel_between_a_claim_past_the_limit_and_its_return_is_not_forgotten(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hands(address) as worker:
        await worker.store.workers.declare([Declaration("t", "default", 0, Retry(), 1, None)])
        job = await worker.enqueue("t")  # by code that does not know of the limit
        claimer = Claimer(worker.store, "default", ["t"], ["t"])
        mark = worker.store.jobs.mark_limited

        async def late(claims: Any) -> Any:
            assert await worker.store.jobs.cancel([job.id]) == {job.id: worker.worker}
            return await mark(claims)

        monkeypatch.setattr(worker.store.jobs, "mark_limited", late)
        for _ in range(3):
            assert not await claimer.run_once(10, worker.worker)
        view = await worker.store.history.job(job.id)
        assert view is not None
        assert view.state == "cancelled"


async def test_limited_jobs_of_a_task_that_no_code_has_are_claimed_in_the_end(
    address: Address,
) -> None:
    async with hands(address) as worker:
        await worker.store.workers.declare([PER_KEY])
        job = await put(worker, "a")
        claimer = Claimer(worker.store, "default", ["other"], [])
        await claimer.sweep(worker.store, lambda: None)
        assert not await claimer.run_once(10, worker.worker), "others may have the task"
        await worker.rows(
            "update sexton.job set due_at = due_at - $1::float8 * interval '1 s'", OTHERS_FIRST
        )
        await claimer.sweep(worker.store, lambda: None)
        assert [each.id for each in await claimer.run_once(10, worker.worker)] == [job]


async def test_a_worker_says_that_it_has_a_limited_task_which_nobody_knows(
    app: Sexton, address: Address, caplog: pytest.LogCaptureFixture
) -> None:
    async with hands(address) as worker:
        await worker.store.workers.declare([PER_KEY])
        await put(worker, "a")
        await worker.rows("update sexton.job set due_at = due_at - interval '1 h'")

    @app.task
    async def other() -> None: ...

    with caplog.at_level(logging.WARNING):
        async with working(app), asyncio.timeout(20):
            while "put back" not in caplog.text:
                await asyncio.sleep(0.02)
