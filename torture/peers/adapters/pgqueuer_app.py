"""PgQueuer: as its deployment guide starts workers, with the supervisor it asks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Schedule
from pgqueuer.queries import Queries

from torture.peers.adapters.given import Given
from torture.peers.workload import WORK


def set_up(given: Given) -> None:
    async def install() -> None:
        connection = await asyncpg.connect(given.url)
        try:
            await Queries(AsyncpgDriver(connection)).install()
        finally:
            await connection.close()

    asyncio.run(install())


def run(given: Given) -> None:
    async def ring(schedule: Schedule) -> None:
        # It says which instant is next, not which this one is; `updated` is when it was taken.
        run = given.effects.begin(schedule.entrypoint, taken_at=schedule.updated.timestamp())
        await asyncio.sleep(WORK)
        given.effects.end(run)

    @asynccontextmanager
    async def factory() -> AsyncIterator[PgQueuer]:
        connection = await asyncpg.connect(given.url)
        try:
            queuer = PgQueuer(AsyncpgDriver(connection))
            for schedule in given.schedules:
                queuer.schedule(schedule.name, schedule.seconds_last)(ring)
            yield queuer
        finally:
            await connection.close()

    start = import_module("pgqueuer").run
    asyncio.run(start(factory, shutdown_on_listener_failure=True))
