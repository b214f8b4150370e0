"""Worker processes that are killed, stopped, frozen and replaced, each with real signals."""

import asyncio
import os
import signal
from collections import Counter

import asyncpg

from sexton import Sexton
from sexton.store.migrations import migrations

from ..support.processes import crew, until
from ..support.tasks import app as tasks


def enqueuer(url: str) -> Sexton:
    """The tasks' application, on the test's database."""
    app = Sexton(url, lease=2, poll=0.5)
    app.tasks = tasks.tasks
    return app


async def drained(app: Sexton) -> None:
    while await app.live_count():
        await asyncio.sleep(0.05)


async def test_kill_9_of_a_worker_in_mid_task_costs_one_attempt_and_no_job(
    database_url: str,
) -> None:
    app = enqueuer(database_url)
    async with app:
        with crew(database_url) as workers:
            first = workers.start()
            enqueued = await app.enqueue("hang", {"n": 1})
            await workers.effects.until(lambda e: len(e.lines("begin")) == 1)
            first.signal(signal.SIGKILL)
            workers.start()
            await drained(app)
            begins, [end] = workers.effects.lines("begin"), workers.effects.lines("end")
            job = await app.job(enqueued.id)
    assert [each.outcome for each in job.attempts] == ["lost", "succeeded"]
    assert len(begins) == 2
    assert int(begins[1][3]) > int(begins[0][3]), "the fence grew"
    assert end[2] == "2"


async def test_a_worker_stopped_beyond_its_lease_cannot_overwrite_its_successor(
    database_url: str,
) -> None:
    app = enqueuer(database_url)
    connection = await asyncpg.connect(database_url)
    await connection.execute("create table effect (n integer, attempt integer, fence bigint)")
    async with app:
        with crew(database_url) as workers:
            frozen = workers.start()
            enqueued = await app.enqueue("hang_and_write", {"n": 1, "seconds": 0.5})
            await workers.effects.until(lambda e: len(e.lines("begin")) == 1)
            frozen.signal(signal.SIGSTOP)
            workers.start()
            await workers.effects.until(lambda e: len(e.lines("end")) == 1)
            frozen.signal(signal.SIGCONT)
            await until(lambda: "the lease is lost" in frozen.output())
            frozen.signal(signal.SIGTERM)
            assert frozen.wait() == 0
            job = await app.job(enqueued.id)
    assert [each.outcome for each in job.attempts] == ["lost", "succeeded"]
    effects = await connection.fetch("select attempt, fence from effect")
    assert [row["attempt"] for row in effects] == [2], "the frozen worker's write was refused"
    await connection.close()


async def test_a_task_that_exits_its_worker_ends_dead_and_not_in_a_loop(database_url: str) -> None:
    app = enqueuer(database_url)
    async with app:
        with crew(database_url) as workers:
            enqueued = await app.enqueue("kill_the_worker", {"n": 1})
            hard = await app.enqueue("kill_the_worker_hard", {"n": 2}, delay=1)
            # One at a time: two that were claimed together would be lost together.
            running = workers.start("default:1")
            while len(await app.dead()) < 2:
                if running.process.poll() is not None:
                    running = workers.start("default:1")
                await asyncio.sleep(0.05)
            for job in (await app.job(enqueued.id), await app.job(hard.id)):
                assert job.state == "dead"
                assert [each.outcome for each in job.attempts] == ["lost"] * 3
            assert len(workers.effects.lines("begin")) == 6


async def test_a_task_that_blocks_the_loop_beyond_the_lease_keeps_it(database_url: str) -> None:
    app = enqueuer(database_url)
    async with app:
        with crew(database_url) as workers:
            workers.start()
            workers.start()
            enqueued = await app.enqueue("block_the_loop", {"n": 1, "seconds": 6})
            await drained(app)
            job = await app.job(enqueued.id)
            assert len(workers.effects.lines("begin")) == 1
    assert [each.outcome for each in job.attempts] == ["succeeded"]


async def test_sigterm_with_full_slots_finishes_what_runs_and_claims_no_more(
    database_url: str,
) -> None:
    app = enqueuer(database_url)
    async with app:
        with crew(database_url) as workers:
            await app.enqueue_many([app.tasks["slow"].call(n=n, seconds=1) for n in range(40)])
            worker = workers.start("default:10")
            await workers.effects.until(lambda e: len(e.lines("begin")) >= 10)
            worker.signal(signal.SIGTERM)
            assert worker.wait() == 0
            begins, ends = workers.effects.lines("begin"), workers.effects.lines("end")
            assert len(begins) == len(ends) == 10
            counts = (await app.counts())["default"]
            assert (counts.running, counts.live) == (0, 30)
            assert not await app.workers()


async def test_a_rolling_restart_under_load_loses_nothing_and_runs_nothing_twice(
    database_url: str,
) -> None:
    app = enqueuer(database_url)
    async with app:
        with crew(database_url) as workers:
            await app.enqueue_many([app.tasks["slow"].call(n=n) for n in range(1500)])
            old = [workers.start("default:20") for _ in range(2)]
            for generation in range(3):
                seen = len(workers.effects.lines("end"))
                await workers.effects.until(lambda e, s=seen: len(e.lines("end")) > s + 50)  # type: ignore[misc]
                for n in range(2):
                    fresh = workers.start("default:20")
                    old[n].signal(signal.SIGTERM)
                    assert old[n].wait() == 0, f"generation {generation}"
                    old[n] = fresh
            await drained(app)
            begins = Counter(line[1] for line in workers.effects.lines("begin"))
            ends = Counter(line[1] for line in workers.effects.lines("end"))
    assert len(ends) == 1500
    assert set(begins.values()) == set(ends.values()) == {1}


async def test_a_limit_of_concurrency_holds_while_workers_are_killed(database_url: str) -> None:
    app = enqueuer(database_url)
    async with app:
        with crew(database_url) as workers:
            await app.declare()
            await app.enqueue_many([app.tasks["limited"].call(n=n) for n in range(150)])
            running = [workers.start("limited:10") for _ in range(2)]
            for _ in range(4):
                seen = len(workers.effects.lines("end"))
                await workers.effects.until(lambda e, s=seen: len(e.lines("end")) > s + 8)  # type: ignore[misc]
                running.pop(0).signal(signal.SIGKILL)
                running.append(workers.start("limited:10"))
            await drained(app)
            lines = workers.effects.lines()
    # Walk the log: a killed process's tasks end with it, everybody else's with their "end".
    killed = {str(worker.pid) for worker in workers.all if worker.process.returncode == -9}
    live: dict[str, str] = {}
    most = 0
    for word, n, _attempt, _fence, pid in lines:
        if word == "begin":
            live[n] = pid
            most = max(most, sum(pid not in killed for pid in live.values()))
        else:
            del live[n]
    assert most <= 3
    assert len({line[1] for line in lines if line[0] == "end"}) == 150


async def test_ten_processes_migrating_at_once_make_one_schema(server: object) -> None:
    from ..support.postgres import Postgres

    assert isinstance(server, Postgres)
    await server._admin("create database racing")
    url = server.url("racing")
    environ = {**os.environ, "SEXTON_DATABASE_URL": url}
    import sys

    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "sexton.cli.main", "migrate"),
            env=environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        for _ in range(10)
    ]
    outputs = await asyncio.gather(*(process.communicate() for process in processes))
    assert [process.returncode for process in processes] == [0] * 10, outputs
    connection = await asyncpg.connect(url)
    assert await connection.fetchval("select count(*) from sexton.migration") == len(migrations())
    await connection.close()
    await server._admin("drop database racing with (force)")
