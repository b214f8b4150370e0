"""Sexton: each process is a node and a worker; every fire is wanted, however late."""

from __future__ import annotations

import asyncio

from sexton import Job, Sexton
from torture.peers.adapters.given import Given
from torture.peers.workload import WORK

CONCURRENCY = 50


def application(given: Given) -> Sexton:
    app = Sexton(given.url)

    @app.task(name="ring", queue="peers")
    async def ring(job: Job, name: str) -> None:
        assert job.fire is not None
        run = given.effects.begin(name, fire_at=job.fire.scheduled_at.timestamp(), job=job.id)
        await asyncio.sleep(WORK)
        given.effects.end(run)

    return app


def set_up(given: Given) -> None:
    async def add() -> None:
        app = application(given)
        await app.migrate()
        async with app:
            await app.schedules.add_many(
                app.schedules.spec(
                    schedule.name,
                    "ring",
                    {"name": schedule.name},
                    cron=schedule.seconds_first,
                    queue="peers",
                    misfire="all",
                    overlap="allow",
                )
                for schedule in given.schedules
            )

    asyncio.run(add())


def run(given: Given) -> None:
    async def work() -> None:
        app = application(given)
        async with app, asyncio.TaskGroup() as group:
            group.create_task(app.run_scheduler())
            group.create_task(app.run_worker(concurrency=CONCURRENCY))

    asyncio.run(work())
