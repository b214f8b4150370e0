"""A worker without a database: what it runs, and what it does when things go wrong."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from sexton import PermanentFailure, RetryAfter, Sexton, Snooze
from sexton.errors import ConfigurationError, Unavailable
from sexton.flow import reap
from sexton.remote import Denied, RemoteJob, RemoteWorker, Server

from ..api.served import Served, served
from ..api.test_jobs import hand, rows
from ..support.postgres import Postgres
from .way import Way


@contextlib.asynccontextmanager
async def working(worker: RemoteWorker) -> AsyncIterator[RemoteWorker]:
    running = asyncio.create_task(worker.run())
    try:
        started = asyncio.create_task(worker.started.wait())
        await asyncio.wait({running, started}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            started.cancel()
            await running
        yield worker
    finally:
        worker.stop()
        await running


async def until(so: Callable[[], Awaitable[bool]], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not await so():
        assert time.monotonic() < deadline, f"not so within {seconds:g} s"
        await asyncio.sleep(0.02)


class Site:
    """A tenant of the service: a client for it, and a key for workers."""

    def __init__(self, api: Served, server: Server, key: str) -> None:
        self.api, self.server, self.key = api, server, key

    def worker(self, url: str | None = None, **options: Any) -> RemoteWorker:
        return RemoteWorker(url or self.api.url, self.key, name="far", **options)

    async def done(self, id: int, *states: str) -> Any:
        wanted = states or ("succeeded", "dead", "cancelled")

        async def so() -> bool:
            return (await self.server.job(id)).state in wanted

        await until(so)
        return await self.server.job(id)


@contextlib.asynccontextmanager
async def site(api: Served) -> AsyncIterator[Site]:
    await api.tenant("acme")
    key = await api.key("worker", "acme")
    async with Server(api.url, await api.key("operator", "acme")) as server:
        yield Site(api, server, key)


async def test_functions_get_their_arguments_and_their_results_are_kept(api: Served) -> None:
    seen: list[RemoteJob] = []

    async def add(job: RemoteJob, a: int, b: int = 2) -> dict[str, int]:
        seen.append(job)
        return {"sum": a + b}

    def shout(text: str) -> str:
        assert threading.current_thread() is not threading.main_thread()
        return text.upper()

    async with site(api) as there:
        tasks = {"add": add, "shout": shout}
        async with working(there.worker(tasks=tasks)):
            first = await there.server.enqueue("add", {"a": 1}, key="k")
            second = await there.server.enqueue("shout", {"text": "x"})
            assert (await there.done(first.id)).result == {"sum": 3}
            assert (await there.done(second.id)).result == "X"
        [job] = seen
        assert (job.id, job.key, job.attempt, job.task) == (first.id, "k", 1, "add")
        assert job.idempotency_key.endswith(f"-job-{first.id}")
        assert list(await there.server.workers()) == []  # it has left


async def test_what_a_function_raises_means_what_it_means_in_a_task(api: Served) -> None:
    async def broken(how: str) -> None:
        match how:
            case "permanent":
                raise PermanentFailure("never")
            case "snooze":
                raise Snooze("1h", "closed")
            case "after":
                raise RetryAfter("1h", "busy")
            case "nul":
                raise ValueError("a\x00b\ud800")
            case _:
                raise KeyError(how)

    async with site(api) as there, working(there.worker(tasks={"broken": broken})):
        ids = {
            how: (await there.server.enqueue("broken", {"how": how})).id
            for how in ("permanent", "snooze", "after", "other", "nul")
        }
        wrong = (await there.server.enqueue("broken", {"what": 1})).id
        assert (await there.done(ids["permanent"])).error.startswith("PermanentFailure: never")
        snoozed = await there.done(ids["snooze"], "waiting")
        assert (snoozed.attempt, snoozed.attempts[0].outcome) == (0, "snoozed")
        after = await there.done(ids["after"], "waiting")
        assert (after.attempt, after.attempts[0].outcome) == (1, "failed")

        async def tried() -> bool:
            jobs = [await there.server.job(ids[how]) for how in ("other", "nul")]
            return all(job.attempts for job in jobs)

        await until(tried)
        other = (await there.server.job(ids["other"])).attempts[0]
        assert other.error is not None
        assert "KeyError" in other.error
        assert "test_worker.py" in other.error
        nul = (await there.server.job(ids["nul"])).attempts[0].error
        assert nul is not None
        assert "\x00" not in nul
        assert (await there.done(wrong)).state == "dead"  # its payload does not fit


async def test_a_task_that_nobody_here_knows_is_put_back(api: Served) -> None:
    async with site(api) as there, working(there.worker()):
        made = await there.server.enqueue("elsewhere")
        job = await there.done(made.id, "waiting")
        assert job.attempt == 0
        assert "no task 'elsewhere'" in job.attempts[0].error


async def test_a_task_that_takes_too_long_is_stopped(api: Served) -> None:
    async with site(api) as there:
        worker = there.worker()

        @worker.task("slow", timeout=0.2)
        async def slow() -> None:
            await asyncio.Event().wait()

        async with working(worker):
            made = await there.server.enqueue("slow")

            async def tried() -> bool:
                return bool((await there.server.job(made.id)).attempts)

            await until(tried)
            error = (await there.server.job(made.id)).attempts[0].error
            assert error is not None
            assert error.startswith("JobTimeout")


async def test_a_running_job_that_somebody_cancels_is_stopped_and_progress_is_seen(
    api: Served,
) -> None:
    stopped = asyncio.Event()

    async def endless(job: RemoteJob) -> None:
        try:
            job.progress({"done": 1})
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with site(api) as there, working(there.worker(tasks={"endless": endless})):
        made = await there.server.enqueue("endless")

        async def said() -> bool:
            progress = (await there.server.progress(made.id)).progress
            return bool(progress == {"done": 1})

        await until(said)
        await there.server.cancel(made.id)
        await asyncio.wait_for(stopped.wait(), 10)
        assert (await there.done(made.id)).state == "cancelled"


async def test_hundreds_at_once_with_a_few_slots(api: Served) -> None:
    most = running = 0

    async def count() -> None:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    async with site(api) as there:
        async for line in there.server.enqueue_many(
            {"target": {"task": "count"}} for _ in range(300)
        ):
            assert line.status == "created"
        async with working(there.worker(tasks={"count": count}, concurrency=7)):

            async def done() -> bool:
                return len(await there.server.jobs(state="succeeded", limit=500)) == 300

            await until(done)
        assert most == 7


async def test_a_graceful_stop_finishes_what_runs_and_gives_back_the_rest(api: Served) -> None:
    release = asyncio.Event()
    began = asyncio.Event()

    async def patient() -> str:
        began.set()
        await release.wait()
        return "done"

    async def endless() -> None:
        await asyncio.Event().wait()

    async with site(api) as there:
        worker = there.worker(tasks={"patient": patient, "endless": endless}, grace=1)
        running = asyncio.create_task(worker.run())
        first = await there.server.enqueue("patient")
        second = await there.server.enqueue("endless")
        await asyncio.wait_for(began.wait(), 20)
        await there.done(second.id, "running")
        worker.stop()
        third = await there.server.enqueue("patient")
        release.set()
        await asyncio.wait_for(running, 20)
        assert (await there.server.job(first.id)).result == "done"
        back = await there.server.job(second.id)
        assert (back.state, back.attempt) == ("ready", 0)
        assert (await there.server.job(third.id)).state == "ready"


async def test_a_worker_whose_lease_was_lost_joins_again_and_its_job_runs_again(
    api: Served,
) -> None:
    calls: list[int] = []
    stopped = asyncio.Event()

    async def once_slow(job: RemoteJob) -> str:
        calls.append(job.fence)
        if len(calls) == 1:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()
        return "second"

    async with site(api) as there, working(there.worker(tasks={"t": once_slow}, lease=5)) as far:
        first_id = far.id
        made = await there.server.enqueue("t")
        await there.done(made.id, "running")
        await rows(
            api,
            "update sexton.worker set lease_until = now() - interval '1 s', "
            "lease_for = '1 microsecond' where id = $1",
            first_id,
        )
        async with hand(api) as other:
            await reap.run_once(other.store)
        await asyncio.wait_for(stopped.wait(), 20)
        job = await there.done(made.id)
        assert job.result == "second"
        assert [each.outcome for each in job.attempts] == ["lost", "succeeded"]
        assert far.id != first_id
        assert calls == sorted(calls)


async def test_outcomes_survive_a_service_that_is_away(api: Served) -> None:
    release = asyncio.Event()

    async def patient() -> str:
        await release.wait()
        return "kept"

    async with site(api) as there, Way(api.url) as way:
        async with working(there.worker(way.url, tasks={"t": patient}, lease=60)):
            made = await there.server.enqueue("t")
            await there.done(made.id, "running")
            await way.shut()
            release.set()
            await asyncio.sleep(0)  # it ends while nobody can be told
            assert (await there.server.job(made.id)).state == "running"
            await way.open(way.port)
            job = await there.done(made.id)
        assert (job.state, job.result, len(job.attempts)) == ("succeeded", "kept", 1)


async def test_lost_answers_lose_no_job(api: Served) -> None:
    async def quick() -> int:
        return 1

    async with site(api) as there, Way(api.url) as way:
        worker = there.worker(way.url, tasks={"t": quick}, concurrency=1)
        async with working(worker):
            ids = []
            for _ in range(5):
                way.swallow = 1  # of a claim or of a settlement, as it happens
                ids.append((await there.server.enqueue("t")).id)
                await there.done(ids[-1])
        jobs = [await there.server.job(id) for id in ids]
        assert [job.state for job in jobs] == ["succeeded"] * 5


async def test_results_too_large_for_one_body_arrive_in_several(api: Served) -> None:
    async def large(n: int) -> str:
        return "x" * 60_000

    async with site(api) as there:
        async for _ in there.server.enqueue_many(
            {"target": {"task": "large"}, "payload": {"n": n}} for n in range(40)
        ):
            pass
        async with working(there.worker(tasks={"large": large})):

            async def done() -> bool:
                return len(await there.server.jobs(state="succeeded")) == 40

            await until(done)
        [line] = (await there.server.jobs(limit=1)).items
        assert len((await there.server.job(line.id)).result) == 60_000


async def test_a_result_beyond_all_bounds_is_left_out_and_the_job_has_succeeded(
    api: Served,
) -> None:
    async def huge() -> str:
        return "x" * 3_000_000

    async with site(api) as there, working(there.worker(tasks={"huge": huge})):
        made = await there.server.enqueue("huge")
        job = await there.done(made.id)
        assert (job.state, job.result) == ("succeeded", None)


async def test_a_worker_that_may_not_says_so_at_once(api: Served) -> None:
    await api.tenant("acme")
    viewer = RemoteWorker(api.url, await api.key("viewer", "acme"))
    with pytest.raises(Denied):
        await viewer.run()


@pytest.mark.parametrize(
    "options",
    [{"queues": []}, {"queues": "mail"}, {"concurrency": 0}, {"tasks": {"t": 5}}],
)
def test_a_worker_that_cannot_be_right_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        RemoteWorker("http://127.0.0.1:1", **options)


async def test_a_worker_outlives_a_restart_of_the_service(api: Served) -> None:
    """In a long poll when it ends; the next process serves the same worker, under the same id."""

    async def quick() -> str:
        return "done"

    async with contextlib.AsyncExitStack() as stack:
        there = await stack.enter_async_context(site(api))
        way = await stack.enter_async_context(Way(api.url))
        second = stack.enter_context(served(Sexton(api.database_url)))
        worker = there.worker(way.url, tasks={"t": quick}, lease=60)
        await stack.enter_async_context(working(worker))
        before = worker.id
        way.leads_to(second.url)
        await asyncio.to_thread(api.stop)
        server = Server(second.url, await second.key("operator", "acme"))
        made = await server.enqueue("t")

        async def done() -> bool:
            return (await server.job(made.id)).state == "succeeded"

        await until(done)
        assert worker.id == before


async def test_a_worker_outlives_a_restart_of_postgresql(own_server: Postgres) -> None:
    async def quick() -> str:
        return "done"

    url = await asyncio.to_thread(own_server.create_database, "away")
    with served(Sexton(url, lease=10, poll=1, patience=2)) as api:
        async with site(api) as there, working(there.worker(tasks={"t": quick}, lease=60)):
            await asyncio.to_thread(own_server.stop, "immediate")
            await asyncio.to_thread(own_server.start)

            async def enqueued() -> bool:
                with contextlib.suppress(Unavailable):
                    ids.append((await there.server.enqueue("t", key="one")).id)
                return bool(ids)

            ids: list[int] = []
            await until(enqueued)
            assert (await there.done(ids[0])).result == "done"
