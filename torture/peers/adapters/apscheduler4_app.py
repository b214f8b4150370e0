"""APScheduler 4, an alpha: schedulers that are workers too, sharing a store and a broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from torture.peers.adapters.given import Given
from torture.peers.workload import WORK

effects: Any = None


async def ring(name: str) -> None:
    job = import_module("apscheduler").current_job.get()
    run = effects.begin(name, fire_at=job.scheduled_fire_time.timestamp(), job=job.id)
    await asyncio.sleep(WORK)
    effects.end(run)


@asynccontextmanager
async def scheduler(given: Given) -> AsyncIterator[Any]:
    apscheduler = import_module("apscheduler")
    store = import_module("apscheduler.datastores.sqlalchemy").SQLAlchemyDataStore
    broker = import_module("apscheduler.eventbrokers.asyncpg").AsyncpgEventBroker
    engine = import_module("sqlalchemy.ext.asyncio").create_async_engine(
        given.url.replace("://", "+asyncpg://", 1), pool_pre_ping=True
    )
    made = apscheduler.AsyncScheduler(
        store(engine),
        broker.from_async_sqla_engine(engine),
        task_defaults=apscheduler.TaskDefaults(max_running_jobs=None, misfire_grace_time=None),
    )
    async with made:
        yield made


def set_up(given: Given) -> None:
    async def add() -> None:
        apscheduler = import_module("apscheduler")
        trigger = import_module("apscheduler.triggers.cron").CronTrigger
        # With a fraction of a second here, "every second" would be at that fraction.
        start = datetime.now(UTC).replace(microsecond=0)
        async with scheduler(given) as made:
            for schedule in given.schedules:
                # A task of its own: of one task for all, every process counts runs in the same row.
                await made.configure_task(schedule.name, func=ring)
                await made.add_schedule(
                    schedule.name,
                    trigger(second=schedule.seconds, start_time=start, timezone="UTC"),
                    id=schedule.name,
                    kwargs={"name": schedule.name},
                    coalesce=apscheduler.CoalescePolicy.all,
                )

    asyncio.run(add())


def run(given: Given) -> None:
    global effects
    effects = given.effects

    async def work() -> None:
        async with scheduler(given) as made:
            await made.run_until_stopped()

    asyncio.run(work())
