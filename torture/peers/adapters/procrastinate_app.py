"""Procrastinate: each worker also defers periodic tasks, and retries stalled jobs by its recipe."""

from __future__ import annotations

import asyncio
from typing import Any

from procrastinate import App, JobContext, PsycopgConnector

from torture.peers.adapters.given import Given
from torture.peers.workload import WORK

CONCURRENCY = 50


def application(given: Given) -> Any:
    app: Any = App(connector=PsycopgConnector(conninfo=given.url))

    @app.task(name="ring", pass_context=True)  # type: ignore[untyped-decorator]
    async def ring(context: JobContext, timestamp: int, name: str) -> None:
        run = given.effects.begin(name, fire_at=timestamp, job=context.job.id)
        await asyncio.sleep(WORK)
        given.effects.end(run)

    for schedule in given.schedules:
        app.periodic(
            cron=schedule.seconds_last,
            periodic_id=schedule.name,
            task_kwargs={"name": schedule.name},
        )(ring)

    # The manual's own recipe, and more often than its ten minutes, which this run would not see.
    @app.periodic(cron="* * * * * */10")  # type: ignore[untyped-decorator]
    @app.task(queueing_lock="retry_stalled_jobs", pass_context=True)  # type: ignore[untyped-decorator]
    async def retry_stalled_jobs(context: JobContext, timestamp: int) -> None:
        for job in await app.job_manager.get_stalled_jobs():
            await app.job_manager.retry_job(job)

    return app


def set_up(given: Given) -> None:
    async def install() -> None:
        app = application(given)
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    asyncio.run(install())


def run(given: Given) -> None:
    application(given).run_worker(concurrency=CONCURRENCY)
