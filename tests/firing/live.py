"""A whole node in this process, by the database's own clock, perhaps with a worker."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import asyncpg

from sexton import Sexton
from sexton.flow.scheduler import Scheduler

from . import schedules

SECOND = timedelta(seconds=1)
ALLOW = {"overlap": "allow"}
OFTEN = {"every": 0.2}


class Live:
    """A node, perhaps with a worker, and questions to the database."""

    def __init__(self, app: Sexton, node: Scheduler, connection: asyncpg.Connection) -> None:
        self.app = app
        self.node = node
        self.connection = connection

    async def value(self, query: str, *args: Any) -> Any:
        return await self.connection.fetchval(query, *args)

    async def so(self, query: str, *args: Any) -> None:
        """Until the database says that it is so."""
        while not await self.value(query, *args):
            await asyncio.sleep(0.01)

    async def now(self) -> datetime:
        now: datetime = await self.value("select clock_timestamp()")
        return now

    async def soon(self) -> datetime:
        """A moment for the node to hear of it."""
        return await self.now() + 0.3 * SECOND

    async def second(self, n: int = 0) -> datetime:
        """The n-th whole second to come; a negative one has passed."""
        return (await self.now()).replace(microsecond=0) + (n + 1) * SECOND

    async def add(self, first: datetime, **given: Any) -> int:
        [id] = await schedules.add(self.connection, first, **given)
        return id

    async def decided(self, id: int, count: int) -> list[str]:
        """The first decisions, once there are so many."""
        await self.so("select count(*) >= $2 from sexton.fire where schedule_id = $1", id, count)
        rows = await self.connection.fetch(
            "select decision::text from sexton.fire where schedule_id = $1 order by fire_at", id
        )
        return [row["decision"] for row in rows][:count]

    async def fires(self, *ids: int) -> int:
        """How many decisions there are about these schedules."""
        found: int = await self.value(
            "select count(*) from sexton.fire where schedule_id = any ($1)", ids
        )
        return found

    async def no_more_of(self, *ids: int) -> None:
        """As if they had been paused."""
        await self.connection.execute(
            "update sexton.due set next_fire_at = 'infinity', late = false, stamp = stamp + 1 "
            "where schedule_id = any ($1)",
            ids,
        )

    async def drained(self) -> None:
        await self.so("select count(*) = 0 from sexton.job")


@contextlib.asynccontextmanager
async def living(app: Sexton, *, worker: bool = False) -> AsyncIterator[Live]:
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(app)
        connection = await asyncpg.connect(app.settings.database_url)
        stack.callback(connection.terminate)
        if worker:
            works = await app.worker()
            stack.push_async_callback(_ended, asyncio.create_task(works.run()))
            stack.callback(works.stop)
            await works.started.wait()
        node = await app.scheduler()
        stack.push_async_callback(_ended, asyncio.create_task(node.run()))
        stack.callback(node.stop)
        await node.started.wait()
        yield Live(app, node, connection)


async def _ended(running: "asyncio.Task[None]") -> None:
    await running
