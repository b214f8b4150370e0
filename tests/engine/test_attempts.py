"""What becomes of attempts in odd circumstances, in a worker in this process."""

import asyncio
import contextlib
import functools
import gc
import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from sexton import Job, Retry, Sexton, Snooze
from sexton.domain.outcome import Failed, Snoozed
from sexton.flow.execute import UNKNOWN_TASK_PATIENCE, Executor, Running, unknown_task
from sexton.store.connection import Address
from sexton.targets.threads import ThreadCall, ThreadPool

from ..support import cpu_bound
from ..support.hands import hands
from ..support.postgres import Postgres
from ..support.proxy import Proxy
from .test_claim import At
from .test_worker import ended, working


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


async def test_a_result_nested_deeply_costs_no_slot(app: Sexton) -> None:
    def deep() -> Any:
        value: Any = None
        for _ in range(480):
            value = [value]
        return value

    @app.task
    async def at_once() -> Any:
        return deep()

    @app.task
    async def after_a_wait() -> Any:
        await asyncio.sleep(0)
        return deep()

    @app.task
    def in_a_thread() -> Any:
        return deep()

    async with working(app, concurrency=1) as worker:
        for task in (at_once, after_a_wait, in_a_thread):
            job = await ended(app, (await task.enqueue()).id)
            assert (job.state, job.attempt) == ("succeeded", 1)
        assert worker.health.running == 0


async def test_an_async_function_in_a_plain_wrapper_is_no_success(app: Sexton) -> None:
    ran: list[int] = []

    @app.task
    @wrapped
    async def work() -> None:
        ran.append(1)

    async with working(app):
        job = await ended(app, (await work.enqueue()).id)
    assert (job.state, job.attempt, ran) == ("dead", 1, [])
    assert "make the wrapper async" in (job.error or "")


async def test_a_success_whose_result_was_not_kept_is_not_said_to_be_tried_again(
    app: Sexton, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def odd() -> Any:
        return object()

    with caplog.at_level(logging.INFO, "sexton.job"):
        async with working(app):
            await ended(app, (await odd.enqueue()).id)
    assert "succeeded at attempt 1, with a remark: the result was not kept" in caplog.text
    assert "again in" not in caplog.text


async def test_retries_and_snoozes_come_at_their_time_and_not_with_the_poll(
    database_url: str,
) -> None:
    app = Sexton(database_url, lease=30, poll=60, grace=5, patience=5)
    at: list[float] = []

    @app.task(retry=Retry(max_attempts=3, base=0.01))
    async def fail() -> None:
        at.append(time.monotonic())
        if len(at) < 3:
            raise ValueError

    @app.task
    async def sleepy() -> None:
        at.append(time.monotonic())
        if len(at) < 3:
            raise Snooze(0.3)

    async with working(app):
        for task in (fail, sleepy):
            at.clear()
            await ended(app, (await task.enqueue()).id)
            assert at[-1] - at[0] < 30
    assert at[-1] - at[0] > 0.5


async def test_the_time_of_a_process_task_begins_when_it_has_a_process(app: Sexton) -> None:
    nap = app.task(process=True, timeout=4, retry=Retry(max_attempts=1))(cpu_bound.nap)
    async with working(app) as worker:
        children = worker._attempts.executor._processes._limit
        enqueued = await app.enqueue_many([nap.call(0.75) for _ in range(6 * children)])
        jobs = [await ended(app, each.id) for each in enqueued]
    assert {job.state for job in jobs} == {"succeeded"}, "the last of them waited for 3.75 s"
    assert min(job.result for job in jobs) > 1, "each had its four seconds when it began"


async def test_the_time_of_a_plain_task_begins_when_it_has_a_thread(
    app: Sexton, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which on a host short of CPU may be later: such an attempt failed, and never began."""

    @app.task(timeout=2, retry=Retry(max_attempts=1))
    def late(job: Job, seconds: float) -> float | None:
        left = job.remaining
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(0.01)
        return left

    start = ThreadPool.start

    def delayed(pool: ThreadPool, call: ThreadCall) -> None:
        threading.Timer(2.5, start, (pool, call)).start()

    monkeypatch.setattr(ThreadPool, "start", delayed)
    async with working(app):
        done, hanging = await app.enqueue_many([late.call(0), late.call(60)])
        job = await ended(app, done.id)
        assert job.state == "succeeded"
        assert job.result > 0, "its time was not up when it began"
        job = await ended(app, hanging.id)
    [attempt] = job.attempts
    assert "JobTimeout: it ran longer than 2 s" in (attempt.error or "")


async def test_the_time_of_a_plain_task_that_never_gets_a_thread_is_not_waited_for_for_ever(
    app: Sexton, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task(timeout=0.2, retry=Retry(max_attempts=1))
    def never() -> None: ...

    given_up = asyncio.Event()

    def start(pool: ThreadPool, call: ThreadCall) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(ThreadPool, "start", start)
    monkeypatch.setattr(Executor, "stop", lambda *_: given_up.set())
    async with working(app):
        job = await ended(app, (await never.enqueue()).id)
        assert job.state == "dead"
        await asyncio.wait_for(given_up.wait(), 30)


async def test_a_delayed_or_redriven_job_of_an_unknown_task_is_put_back(
    app: Sexton, database_url: str
) -> None:
    @app.task
    async def known() -> None: ...

    connection = await asyncpg.connect(database_url)
    async with app:
        enqueued = await app.enqueue("unknown", delay="25h")
    await connection.execute(
        "update sexton.job set created_at = created_at - interval '25h', due_at = now()"
    )
    await connection.close()
    async with working(app):
        while not (await app.job(enqueued.id)).attempts:
            await asyncio.sleep(0.01)
        job = await app.job(enqueued.id)
    assert (job.state, job.attempts[0].outcome) == ("waiting", "snoozed")


async def test_an_unknown_task_is_given_up_after_a_day_of_being_put_back(address: Address) -> None:
    clock = At()
    day = UNKNOWN_TASK_PATIENCE
    async with hands(address, clock=clock) as worker:
        enqueued = await worker.enqueue("unknown")
        clock.now += timedelta(days=3)

        async def given_up() -> bool:
            [claim] = await worker.claim()
            reason = unknown_task(claim)
            known = await worker.store.jobs.long_unknown({claim.id: reason}, day)
            outcome = Failed(reason, permanent=True) if known else Snoozed(30.0, reason)
            await worker.settle(claim, outcome)
            clock.now += timedelta(seconds=30)
            return bool(known)

        await worker.store.history.make_buckets()
        assert not await given_up(), "however old it is"
        clock.now += timedelta(seconds=day - 60)
        assert not await given_up()
        clock.now += timedelta(seconds=60)
        assert await given_up()
        await worker.store.history.redrive(ids=[enqueued.id])
        assert not await given_up(), "a redrive gives it another day"


async def test_an_attempt_is_stopped_before_its_lease_is_over_when_postgresql_falls_silent(
    server: Postgres, database_url: str
) -> None:
    lease = 4.0
    async with Proxy(server.socket) as proxy:
        name = database_url.split("@/")[1].split("?")[0]
        app = Sexton(proxy.url(name), lease=lease, poll=1, grace=0, patience=10)
        began, stopped = asyncio.Event(), asyncio.Event()

        @app.task
        async def hang() -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stopped.set()
                raise

        async with app:
            worker = await app.worker()
            running = asyncio.create_task(worker.run())
            await worker.started.wait()
            await hang.enqueue()
            await began.wait()
            proxy.silence()
            asked_at = 0.0
            while not stopped.is_set():
                if worker._keeper.lease is not None:
                    asked_at = worker._keeper.lease.asked_at
                await asyncio.sleep(0.01)
            assert time.monotonic() < asked_at + lease
            proxy.speak()
            worker.stop()
            worker.stop()
            with contextlib.suppress(Exception):
                await running


async def test_idempotency_keys_of_two_installations_differ_and_stay_the_same_over_attempts(
    app: Sexton, database_url: str
) -> None:
    other = Sexton(database_url, schema="other", lease=3, poll=1)
    keys: list[str] = []

    async def look(job: Job) -> None:
        keys.append(job.idempotency_key)
        if job.attempt == 1:
            raise ValueError

    ids = []
    for each in (app, other):
        task = each.task(retry=Retry(max_attempts=2, base=0))(look)
        await each.migrate()
        async with working(each):
            enqueued = await task.enqueue()
            await ended(each, enqueued.id)
            ids.append(enqueued.id)
    assert ids[0] == ids[1]
    assert len(keys) == 4
    assert keys[0] == keys[1] != keys[2] == keys[3]
    assert all(str(ids[0]) in key for key in keys)


async def test_nothing_is_kept_of_attempts_that_have_ended(app: Sexton) -> None:
    """Neither by a cycle that only the collector sees, nor by one that it does not."""

    @app.task
    async def at_once() -> None: ...

    @app.task
    async def after_a_wait() -> None:
        await asyncio.sleep(0)

    @app.task(timeout="1m")
    async def in_time() -> None:
        await asyncio.sleep(0)

    @app.task
    def in_a_thread() -> None: ...

    def left() -> int:
        return sum(isinstance(each, asyncio.Task | Running) for each in gc.get_objects())

    async with working(app) as worker:
        before = left()
        gc.disable()
        try:
            for task in (at_once, after_a_wait, in_time, in_a_thread):
                finished = worker.finished
                await app.enqueue_many([task.call() for _ in range(500)])
                while worker.finished < finished + 500 or worker.health.running:
                    await asyncio.sleep(0.01)
                # asyncio keeps up to a hundred timers that were cancelled, and what they know.
                assert left() < before + 200, task.name
        finally:
            gc.enable()
