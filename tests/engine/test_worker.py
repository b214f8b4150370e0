"""A worker in this process: execution, timeouts, cancellation, leases, shutdown, wake-ups."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, TypedDict

import asyncpg
import psycopg
import pytest

from sexton import (
    Job,
    JobCancelled,
    JobTimeout,
    LeaseLost,
    PermanentFailure,
    Retry,
    RetryAfter,
    Sexton,
    Snooze,
)
from sexton.domain.job import JobView
from sexton.errors import ConfigurationError
from sexton.flow.rest import Rest
from sexton.flow.worker import Worker

from ..support import cpu_bound


@contextlib.asynccontextmanager
async def working(app: Sexton, **options: Any) -> AsyncIterator[Worker]:
    """A worker that has its lease, and is gone afterwards."""
    async with app:
        worker = await app.worker(**options)
        running = asyncio.create_task(worker.run())
        await worker.started.wait()
        try:
            yield worker
        finally:
            worker.stop()
            await running


async def ended(app: Sexton, id: int) -> JobView:
    """The job, once nobody will touch it any more."""
    while (job := await app.job(id)).state in ("waiting", "ready", "running"):
        await asyncio.sleep(0.01)
    return job


async def test_async_and_plain_functions_run_and_their_results_are_kept(app: Sexton) -> None:
    @app.task
    async def on_the_loop(n: int) -> dict[str, Any]:
        return {"n": n, "thread": threading.current_thread().name}

    @app.task
    def in_a_thread(n: int) -> dict[str, Any]:
        return {"n": n, "thread": threading.current_thread().name}

    async with working(app):
        first, second = await on_the_loop.enqueue(1), await in_a_thread.enqueue(2)
        one, two = await ended(app, first.id), await ended(app, second.id)
    assert one.result == {"n": 1, "thread": "MainThread"}
    assert two.result == {"n": 2, "thread": "sexton-task"}


async def test_arguments_arrive_as_the_signature_says(app: Sexton) -> None:
    @dataclass
    class Line:
        sku: str
        count: int = 1

    class Address(TypedDict):
        city: str

    got: list[Any] = []

    @app.task
    async def order(lines: list[Line], address: Address, *, rush: bool = False) -> None:
        got.append((lines, address, rush))

    async with working(app):
        enqueued = await order.enqueue([Line("a"), Line("b", 2)], {"city": "Oslo"})
        assert (await ended(app, enqueued.id)).state == "succeeded"
    assert got == [([Line("a"), Line("b", 2)], {"city": "Oslo"}, False)]


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ('{"n": "one"}', "argument n: expected int, got str"),
        ("{}", "missing required field n"),
        ('{"n": 1, "m": 2}', "unknown field m"),
    ],
)
async def test_a_payload_that_does_not_fit_is_a_permanent_failure_with_a_reason(
    app: Sexton, database_url: str, payload: str, reason: str
) -> None:
    @app.task
    async def count(n: int) -> None: ...

    async with working(app):
        connection = await asyncpg.connect(database_url)
        id = await connection.fetchval("select id from sexton.enqueue('count', $1)", payload)
        await connection.close()
        job = await ended(app, id)
    assert job.state == "dead"
    assert job.error is not None
    assert reason in job.error
    assert len(job.attempts) == 1


async def test_what_a_task_raises_decides_what_follows(app: Sexton) -> None:
    seen: list[str] = []
    retry = Retry(
        max_attempts=2, base=0, never=(KeyError,), on={OSError: Retry(max_attempts=3, base=0)}
    )

    @app.task(retry=retry)
    async def fail(job: Job, how: str) -> str:
        seen.append(how)
        match how:
            case "permanent":
                raise PermanentFailure("no use")
            case "never":
                raise KeyError(how)
            case "special":
                raise ConnectionError(how)
            case "ordinary":
                raise ValueError(how)
            case "after" if job.attempt == 1:
                raise RetryAfter(0.01)
            case "snooze" if seen.count("snooze") < 4:
                raise Snooze(0.01)
        return how

    async with working(app):
        jobs = {}
        for how in ("permanent", "never", "special", "ordinary", "after", "snooze"):
            jobs[how] = await fail.enqueue(how)
        ends = {how: await ended(app, job.id) for how, job in jobs.items()}
    assert {how: (job.state, seen.count(how)) for how, job in ends.items()} == {
        "permanent": ("dead", 1),
        "never": ("dead", 1),
        "special": ("dead", 3),
        "ordinary": ("dead", 2),
        "after": ("succeeded", 2),
        "snooze": ("succeeded", 4),
    }
    assert ends["snooze"].attempt == 1, "snoozing burns no attempt"
    assert ends["ordinary"].error is not None
    assert ends["ordinary"].error.startswith("ValueError: ordinary")
    assert "sexton/flow" not in ends["ordinary"].error


async def test_a_timeout_stops_a_coroutine_even_one_that_resists(app: Sexton) -> None:
    stopped: list[str] = []

    @app.task(timeout=0.1, retry=Retry(max_attempts=1))
    async def stubborn() -> None:
        for _ in range(2):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                stopped.append("again")
        await asyncio.sleep(60)

    async with working(app):
        job = await ended(app, (await stubborn.enqueue()).id)
    assert job.state == "dead"
    assert job.error == "JobTimeout: it ran longer than 0.1 s"
    assert len(stopped) == 2


async def test_a_timeout_stops_a_thread_that_runs_python(app: Sexton) -> None:
    caught: list[BaseException] = []

    @app.task(timeout=0.1, retry=Retry(max_attempts=1))
    def spin() -> None:
        try:
            while True:
                sum(range(100))
        except JobTimeout as error:
            caught.append(error)
            raise

    @app.task
    def after() -> str:
        return "untouched"

    async with working(app, concurrency=1):
        first, second = await spin.enqueue(), await after.enqueue()
        assert (await ended(app, first.id)).state == "dead"
        assert (await ended(app, second.id)).result == "untouched"
    assert caught


async def test_cancel_reaches_a_running_coroutine_and_a_thread(app: Sexton) -> None:
    begun: list[int] = []

    @app.task
    async def wait(job: Job) -> None:
        begun.append(job.id)
        await asyncio.sleep(60)

    @app.task
    def spin(job: Job) -> None:
        begun.append(job.id)
        while True:
            job.check()

    async with working(app):
        jobs = [await wait.enqueue(), await spin.enqueue()]
        while len(begun) < 2:
            await asyncio.sleep(0.01)
        assert await app.cancel(*(job.id for job in jobs)) == {job.id: False for job in jobs}
        assert [(await ended(app, job.id)).state for job in jobs] == ["cancelled", "cancelled"]


async def test_a_job_cancelled_before_its_first_step_gives_its_slot_back(app: Sexton) -> None:
    @app.task
    async def never() -> None:
        await asyncio.sleep(60)

    @app.task
    def nor_this() -> None:
        time.sleep(60)

    async with app:
        jobs = await app.enqueue_many([never.call(), never.call(), nor_this.call()])
    async with working(app, concurrency=3) as worker:
        start = worker._attempts.start

        def start_and_stop(claims: Any, *args: Any) -> None:
            start(claims, *args)
            worker._cancel([claim.fence for claim in claims])

        for fetcher in worker._fetchers.values():
            fetcher._start = start_and_stop
        states = {(await ended(app, job.id)).state for job in jobs}
        assert states == {"cancelled"}
        # Not at once: whoever looks for more jobs has the free slots in hand meanwhile.
        while [fetcher.free for fetcher in worker._fetchers.values()] != [3]:
            await asyncio.sleep(0.01)


async def test_claims_that_arrive_after_the_lease_was_given_up_are_not_started(
    app: Sexton,
) -> None:
    ran: list[int] = []

    @app.task
    async def once(job: Job) -> None:
        ran.append(job.attempt)

    async with app:
        enqueued = await once.enqueue()
    async with working(app) as worker:
        [fetcher] = worker._fetchers.values()
        claimed, worker._worker = worker._worker, None
        assert claimed is not None
        await fetcher.run_once(1, claimed)
        assert not ran
        worker._worker = claimed
        fetcher.wake()
        job = await ended(app, enqueued.id)
    assert [each.outcome for each in job.attempts] == ["released", "succeeded"]
    assert ran == [1]


async def test_a_worker_cancelled_twice_still_leaves_properly(app: Sexton) -> None:
    begun = asyncio.Event()

    @app.task
    async def long() -> None:
        begun.set()
        await asyncio.sleep(3600)

    async with app:
        enqueued = await long.enqueue()
        running = asyncio.create_task(app.run_worker())
        await begun.wait()
        running.cancel()
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not await app.workers()
        assert (await app.job(enqueued.id)).state == "ready"
    assert "sexton-lease" not in [thread.name for thread in threading.enumerate()]


async def test_the_job_context_tells_who_and_when(app: Sexton) -> None:
    seen: list[Job] = []

    @app.task(timeout=30)
    async def look(job: Job) -> None:
        seen.append(job)
        job.progress({"done": 0.5})

    async with working(app):
        enqueued = await look.enqueue(key="k")
        await ended(app, enqueued.id)
    [job] = seen
    assert (job.id, job.attempt, job.key, job.task) == (enqueued.id, 1, "k", "look")
    assert job.fence > 0
    assert job.remaining is not None
    assert 0 < job.remaining <= 30
    assert str(enqueued.id) in job.idempotency_key


async def test_progress_is_seen_while_the_job_runs(app: Sexton) -> None:
    @app.task
    async def long(job: Job) -> None:
        job.progress({"done": 0.5})
        await asyncio.sleep(60)

    async with working(app):
        enqueued = await long.enqueue()
        while (await app.job(enqueued.id)).progress is None:
            await asyncio.sleep(0.02)
        assert (await app.job(enqueued.id)).progress == {"done": 0.5}
        await app.cancel(enqueued.id)
        await ended(app, enqueued.id)


async def test_effects_and_success_commit_together_or_not_at_all(
    app: Sexton, database_url: str
) -> None:
    @app.task(retry=Retry(max_attempts=2, base=0))
    async def write(job: Job, n: int) -> None:
        async with job.transaction(result={"n": n}) as connection:
            await connection.execute("insert into effect values ($1)", n)
            if job.attempt == 1:
                raise RuntimeError("half way")

    connection = await asyncpg.connect(database_url)
    await connection.execute("create table effect (n integer)")
    async with working(app):
        job = await ended(app, (await write.enqueue(7)).id)
    assert (job.state, job.result) == ("succeeded", {"n": 7})
    assert [each.outcome for each in job.attempts] == ["failed", "succeeded"]
    assert await connection.fetchval("select count(*) from effect") == 1
    await connection.close()


async def test_a_stale_workers_transaction_is_refused_at_commit(
    app: Sexton, database_url: str
) -> None:
    refused: list[BaseException] = []

    @app.task(retry=Retry(max_attempts=2, base=0))
    async def write(job: Job) -> None:
        if job.attempt == 1:
            # Somebody declares this worker lost and the job is claimed again, all unnoticed.
            await thief.execute("update sexton.job set fence = nextval('sexton.fence')")
        try:
            async with job.transaction() as connection:
                await connection.execute("insert into effect values (1)")
        except LeaseLost as error:
            refused.append(error)
            raise

    thief = await asyncpg.connect(database_url)
    await thief.execute("create table effect (n integer)")
    async with working(app):
        await write.enqueue()
        while not refused:
            await asyncio.sleep(0.01)
    assert "must not commit" in str(refused[0])
    assert await thief.fetchval("select count(*) from effect") == 0
    await thief.close()


async def test_a_plain_function_settles_in_its_own_psycopg_transaction(
    app: Sexton, database_url: str
) -> None:
    @app.task
    def write(job: Job) -> None:
        with psycopg.connect(database_url) as connection:
            connection.execute("insert into effect values (1)")
            job.settle_in(connection, result="kept")

    connection = await asyncpg.connect(database_url)
    await connection.execute("create table effect (n integer)")
    async with working(app):
        job = await ended(app, (await write.enqueue()).id)
    assert (job.state, job.result) == ("succeeded", "kept")
    assert await connection.fetchval("select count(*) from effect") == 1
    await connection.close()


async def test_a_transaction_that_carried_the_settlement_and_was_rolled_back_is_no_success(
    app: Sexton, database_url: str
) -> None:
    @app.task(retry=Retry(max_attempts=2, base=0))
    def write(job: Job) -> None:
        with psycopg.connect(database_url) as connection:
            job.settle_in(connection, result="kept")
            if job.attempt == 1:
                connection.rollback()

    async with working(app):
        job = await ended(app, (await write.enqueue()).id)
    assert [each.outcome for each in job.attempts] == ["failed", "succeeded"]
    assert "did not commit" in (job.attempts[0].error or "")
    assert job.result == "kept"


async def test_an_idle_worker_is_woken_by_an_enqueue_from_anywhere(
    database_url: str,
) -> None:
    app = Sexton(database_url, poll=60)
    ran = asyncio.Event()

    @app.task
    async def ring() -> None:
        ran.set()

    async with working(app) as worker:
        while not worker.health.notifications:
            await asyncio.sleep(0.01)
        connection = await asyncpg.connect(database_url)
        while not await connection.fetchval("select 'default' = any (idle) from sexton.worker"):
            await asyncio.sleep(0.01)
        for enqueue in (
            lambda: ring.enqueue(),
            lambda: connection.execute("select sexton.enqueue('ring')"),
            lambda: ring.enqueue(delay=0.2),
            lambda: app.enqueue_many([ring.call()], connection=connection),
        ):
            ran.clear()
            await enqueue()
            # Far below the poll: only a notification can have done it.
            async with asyncio.timeout(20):
                await ran.wait()
        await connection.close()


async def test_a_busy_queue_sends_no_notifications_from_sql(app: Sexton, database_url: str) -> None:
    """No worker sleeps, so nobody needs to be woken: the commit stays cheap."""
    heard: list[str] = []
    connection = await asyncpg.connect(database_url)
    await connection.add_listener("sexton.wake", lambda *args: heard.append(args[3]))
    other = await asyncpg.connect(database_url)
    for _ in range(20):
        await other.execute("select sexton.enqueue('x')")
    await other.execute("select pg_notify('sexton.wake', 'end')")
    while "end" not in heard:
        await asyncio.sleep(0.01)
    assert heard == ["end"]
    await connection.close()
    await other.close()


async def test_single_enqueues_share_their_notifications(app: Sexton, database_url: str) -> None:
    @app.task
    async def t() -> None: ...

    heard: list[str] = []
    connection = await asyncpg.connect(database_url)
    await connection.add_listener("sexton.wake", lambda *args: heard.append(args[3]))
    async with app:
        began = time.monotonic()
        for _ in range(300):
            await t.enqueue()
        lasted = time.monotonic() - began
    await connection.execute("select pg_notify('sexton.wake', 'end')")
    while "end" not in heard:
        await asyncio.sleep(0.01)
    assert 1 <= heard.count("queue:default") <= lasted / 0.005 + 2
    await connection.close()


async def test_tasks_finish_within_the_grace_and_the_rest_is_released(database_url: str) -> None:
    app = Sexton(database_url, lease=3, poll=1, grace=1)
    begun = asyncio.Event()

    @app.task
    async def short() -> str:
        await asyncio.sleep(0.3)
        return "finished"

    @app.task
    async def long() -> None:
        begun.set()
        await asyncio.sleep(3600)

    @app.task
    def deaf() -> None:
        with contextlib.suppress(JobCancelled):
            time.sleep(3600)

    async with working(app) as worker:
        jobs = [await short.enqueue(), await long.enqueue(), await deaf.enqueue()]
        await begun.wait()
        while worker.health.running < 3:
            await asyncio.sleep(0.01)
    async with app:
        one, two, three = [await app.job(job.id) for job in jobs]
        assert (one.state, one.result) == ("succeeded", "finished")
        for job in (two, three):
            assert (job.state, job.attempt) == ("ready", 0), "released without burning an attempt"
        assert not await app.workers()


async def test_a_cpu_bound_task_runs_in_a_process_and_can_die_there(app: Sexton) -> None:
    crunch = app.task(process=True, retry=Retry(max_attempts=2, base=0))(cpu_bound.crunch)
    die = app.task(process=True, retry=Retry(max_attempts=2, base=0))(cpu_bound.die)
    endless = app.task(process=True, timeout=0.5, retry=Retry(max_attempts=1))(cpu_bound.endless)
    async with working(app):
        jobs = [await crunch.enqueue(10), await die.enqueue(), await endless.enqueue()]
        one, two, three = [await ended(app, job.id) for job in jobs]
    assert one.result == {"sum": 45, "attempt": 1, "here": False}
    assert (two.state, two.error) == ("dead", "its process ended with exit code 3")
    assert three.error == "JobTimeout: it ran longer than 0.5 s"


async def test_an_unknown_task_is_put_back_not_failed(app: Sexton, database_url: str) -> None:
    @app.task
    async def known() -> None: ...

    async with working(app):
        enqueued = await app.enqueue("unknown", {"a": 1})
        while not (await app.job(enqueued.id)).attempts:
            await asyncio.sleep(0.01)
        job = await app.job(enqueued.id)
    assert (job.state, job.attempt, job.attempts[0].outcome) == ("waiting", 0, "snoozed")


async def test_a_job_older_than_its_maximum_age_is_not_started(app: Sexton) -> None:
    ran: list[int] = []

    @app.task(retry=Retry(max_age=3600))
    async def late(n: int) -> None:
        ran.append(n)

    async with app:
        old, young = await late.enqueue(1, expires_in=0), await late.enqueue(2)
    async with working(app):
        assert (await ended(app, young.id)).state == "succeeded"
        job = await ended(app, old.id)
        assert [dead.reason for dead in await app.dead()] == ["expired"]
    assert (job.state, ran) == ("dead", [2])


async def test_a_result_that_is_not_json_does_not_undo_the_work(app: Sexton) -> None:
    @app.task
    async def odd() -> Any:
        return object()

    async with working(app):
        job = await ended(app, (await odd.enqueue()).id)
    assert job.state == "succeeded"
    assert job.error is not None
    assert "not kept" in job.error


async def test_queues_have_slots_of_their_own(app: Sexton) -> None:
    running = {"a": 0, "b": 0}
    most = {"a": 0, "b": 0}

    async def count(queue: str) -> None:
        running[queue] += 1
        most[queue] = max(most[queue], running[queue])
        await asyncio.sleep(0.02)
        running[queue] -= 1

    @app.task(queue="a")
    async def in_a() -> None:
        await count("a")

    @app.task(queue="b")
    async def in_b() -> None:
        await count("b")

    async with working(app, queues={"a": 2, "b": 5}):
        await app.enqueue_many([in_a.call() for _ in range(20)] + [in_b.call() for _ in range(20)])
        while await app.live_count():
            await asyncio.sleep(0.02)
    assert most == {"a": 2, "b": 5}


async def test_max_running_is_kept_by_a_worker_with_many_slots(app: Sexton) -> None:
    running = most = 0

    @app.task(max_running=3)
    async def few() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    async with working(app):
        await app.enqueue_many([few.call() for _ in range(40)])
        while await app.live_count():
            await asyncio.sleep(0.02)
    assert most == 3


async def test_a_worker_that_lost_its_lease_abandons_its_attempts_and_goes_on(
    app: Sexton, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    ended_how: list[str] = []

    @app.task(retry=Retry(max_attempts=5, base=0))
    async def hang(job: Job) -> str:
        if job.attempt > 1:
            return "second attempt"
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended_how.append("cancelled")
            raise
        return "first attempt"

    async with working(app) as worker:
        first = worker.health.worker
        enqueued = await hang.enqueue()
        while not worker.health.running:
            await asyncio.sleep(0.01)
        connection = await asyncpg.connect(database_url)
        await connection.execute("update sexton.worker set gone_at = now(), gone_why = 'lost'")
        await connection.close()
        with caplog.at_level(logging.ERROR, "sexton.worker"):
            job = await ended(app, enqueued.id)
        assert job.result == "second attempt"
        assert worker.health.worker not in (None, first)
    assert ended_how == ["cancelled"]
    assert [each.outcome for each in job.attempts] == ["lost", "succeeded"]
    assert "the lease is lost" in caplog.text


def test_a_task_that_cannot_be_right_is_refused_when_it_is_declared(app: Sexton) -> None:
    async def twice() -> None: ...

    app.task(twice)
    with pytest.raises(ConfigurationError, match="two tasks"):
        app.task(twice)
    with pytest.raises(ConfigurationError, match="needs a name"):

        @app.task
        async def positional(*numbers: int) -> None: ...

    with pytest.raises(ConfigurationError, match="cannot be made from JSON"):

        @app.task
        async def typed(lock: threading.Event) -> None: ...

    with pytest.raises(ConfigurationError, match="generator"):

        @app.task
        def generate() -> Any:
            yield 1

    with pytest.raises(ConfigurationError, match="max_running"):
        app.task(max_running=0)(twice)


async def test_a_queue_whose_sweep_takes_too_long_holds_up_no_other_and_is_let_rest(
    app: Sexton, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    async def noted(n: int) -> None: ...

    async with app:
        worker = await app.worker(queues={"slow": 1, "default": 1})
        clock = [1000.0]
        worker._rests = {queue: Rest(lambda: clock[0]) for queue in worker._rests}
        swept: list[str] = []
        for queue, fetcher in worker._fetchers.items():

            async def sweep(*_: Any, queue: str = queue) -> float:
                swept.append(queue)
                if queue == "slow":
                    clock[0] += 3.0
                    raise asyncpg.QueryCanceledError("canceling statement due to timeout")
                return 0.0

            monkeypatch.setattr(fetcher.claimer, "sweep", sweep)
        rests = worker._rests
        await worker._sweep()
        rests["default"].end()
        await worker._sweep()
        assert swept == ["slow", "default", "default"], "one of them rests"
        rests["slow"].end()
        worker._outage.lost(OSError("gone"))
        await worker._sweep()
        worker._outage.over()
        assert rests["slow"].over(claiming=False), "an absent server is no costly sweep"
