"""Coroutines that share an asyncio task, as long as none of them can tell."""

import asyncio
import contextvars
import weakref
from typing import Any

from sexton import Sexton

from .test_worker import ended, working

colour: contextvars.ContextVar[str] = contextvars.ContextVar("colour")


async def run_all(app: Sexton, calls: list[Any]) -> list[Any]:
    """Enqueue first, so that one claim takes them all; then the results, in order."""
    async with app:
        enqueued = await app.enqueue_many(calls)
    async with working(app, concurrency=100):
        return [await ended(app, each.id) for each in enqueued]


async def test_what_one_job_leaves_in_the_context_no_other_job_sees(app: Sexton) -> None:
    @app.task
    async def paint(n: int, wait: bool) -> str | None:
        seen = colour.get(None)
        colour.set(f"of {n}")
        if wait:
            await asyncio.sleep(0)
        assert colour.get() == f"of {n}"
        return seen

    jobs = await run_all(app, [paint.call(n, wait=n % 3 == 0) for n in range(30)])
    assert [job.state for job in jobs] == ["succeeded"] * 30
    assert [job.result for job in jobs] == [None] * 30


async def test_jobs_that_wait_do_not_hold_up_the_others(app: Sexton) -> None:
    gate = asyncio.Event()
    reached: list[int] = []

    @app.task
    async def meet(n: int) -> None:
        reached.append(n)
        if len(reached) == 20:
            gate.set()
        await gate.wait()

    jobs = await run_all(app, [meet.call(n) for n in range(20)])
    assert [job.state for job in jobs] == ["succeeded"] * 20


async def test_a_job_that_waits_has_an_asyncio_task_of_its_own(app: Sexton) -> None:
    tasks: list[asyncio.Task[Any] | None] = []

    @app.task
    async def wait() -> None:
        await asyncio.sleep(0)
        tasks.append(asyncio.current_task())

    await run_all(app, [wait.call() for _ in range(10)])
    assert len(set(tasks)) == 10


async def test_timeouts_and_groups_of_the_tasks_own_work_from_their_first_step(app: Sexton) -> None:
    @app.task
    async def hurried() -> str:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            return "timed out"
        return "never"

    @app.task
    async def grouped() -> list[int]:
        async def child(n: int) -> int:
            await asyncio.sleep(0)
            return n

        async with asyncio.TaskGroup() as group:
            children = [group.create_task(child(n)) for n in range(3)]
        return [each.result() for each in children]

    first, second = await run_all(app, [hurried.call(), grouped.call()])
    assert first.result == "timed out"
    assert second.result == [0, 1, 2]


async def test_a_job_that_cancels_its_own_asyncio_task_cancels_no_other_job(app: Sexton) -> None:
    @app.task
    async def rash() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    @app.task
    async def innocent(n: int) -> int:
        await asyncio.sleep(0)
        return n

    calls = [rash.call() if n % 2 else innocent.call(n) for n in range(10)]
    jobs = await run_all(app, calls)
    assert [job.result for job in jobs[::2]] == [0, 2, 4, 6, 8]
    assert [job.attempt for job in jobs[::2]] == [1] * 5


async def test_a_job_that_keeps_hold_of_its_asyncio_task_leaves_it_to_no_other(app: Sexton) -> None:
    kept = weakref.WeakSet[asyncio.Task[Any]]()

    @app.task
    async def watched() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)

    @app.task
    async def looked_up() -> None:
        task = asyncio.current_task()
        assert task is not None
        kept.add(task)

    @app.task
    async def innocent(n: int) -> int:
        task = asyncio.current_task()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert task not in kept
        return n

    calls = [(innocent.call(n), watched.call(), looked_up.call())[n % 3] for n in range(12)]
    jobs = await run_all(app, calls)
    assert [job.result for job in jobs[::3]] == [0, 3, 6, 9]
    assert [job.attempt for job in jobs[::3]] == [1] * 4


async def test_a_registry_by_asyncio_task_gives_each_job_its_own(app: Sexton) -> None:
    sessions: dict[asyncio.Task[Any], list[int]] = {}

    @app.task
    async def use(n: int, wait: bool) -> list[int]:
        task = asyncio.current_task()
        assert task is not None
        session = sessions.setdefault(task, [])
        session.append(n)
        if wait:
            await asyncio.sleep(0)
        return session

    jobs = await run_all(app, [use.call(n, wait=n % 3 == 0) for n in range(20)])
    assert [job.result for job in jobs] == [[n] for n in range(20)]


async def test_cancellation_during_the_first_wait_reaches_the_task_and_may_be_refused(
    app: Sexton,
) -> None:
    waiting = asyncio.Event()

    @app.task(timeout=0.05)
    async def stubborn() -> str:
        try:
            waiting.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            return "finished in spite of it"
        return "never"

    [job] = await run_all(app, [stubborn.call()])
    assert waiting.is_set()
    assert job.result == "finished in spite of it"
