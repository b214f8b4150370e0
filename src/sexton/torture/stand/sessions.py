"""What can be done to a PostgreSQL by its sessions alone, be it ours or an operator's."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import asyncpg

from sexton.torture.stand.errors import AWAY
from sexton.torture.stand.server import NAME

_AT_ONCE = 8
_AGAIN_EVERY = 0.1
# So often in a row, knocking alone: then there is no place left.
_REFUSALS = 3
HELD_WITHIN = 10.0
# One keeps what it sees from being vacuumed, the other what has changed since.
_HOLDING = (
    ("begin isolation level repeatable read", "select count(*) from pg_class"),
    ("begin", "select pg_current_xact_id()"),
)
_OTHERS = """
select pid from pg_stat_activity
where backend_type = 'client backend' and datname = current_database()
    and usename = current_user and application_name = any($1)
order by pid
"""
# The engine's, and those of a client that writes its own SQL; whoever else there is is no part of
# the run.
CLIENT = "torture client"
_PARTIES = ["sexton", CLIENT]


class Sessions:
    """Takes sessions away from others; `where` tells the URL, which a promotion changes."""

    def __init__(self, where: Callable[[], str]) -> None:
        self._where = where

    async def terminate(self, share: float, seed: int) -> int:
        """So many of the cluster's sessions, drawn by the seed; how many that were."""
        connection = await self._connect()
        try:
            pids = [row["pid"] for row in await connection.fetch(_OTHERS, _PARTIES)]
            drawn = random.Random(seed).sample(pids, round(share * len(pids)))
            ended = (
                "select count(*) from unnest($1::integer[]) as pid where pg_terminate_backend(pid)"
            )
            return int(await connection.fetchval(ended, drawn))
        finally:
            connection.terminate()

    @asynccontextmanager
    async def fill(self, leave: int = 0) -> AsyncIterator[list[asyncpg.Connection]]:
        """Every connection there is but so many, and also those that others give up meanwhile."""
        held: list[asyncpg.Connection] = []
        refilling: asyncio.Task[None] | None = None
        try:
            await self._take_all(held)
            await self._take_the_last(held)
            for _ in range(min(leave, len(held))):
                await held.pop().close()
            if not leave:
                refilling = asyncio.create_task(self._refill(held))
            yield held
        finally:
            if refilling is not None:
                refilling.cancel()
                with suppress(asyncio.CancelledError):
                    await refilling
            for connection in held:
                connection.terminate()

    @asynccontextmanager
    async def hold(self, within: float = HELD_WITHIN) -> AsyncIterator[None]:
        """Two transactions that stay open: one with a snapshot, one with an id; anew when lost.

        They are there at first, unless the server is away for longer than that.
        """
        first = [asyncio.Event() for _ in _HOLDING]
        holding = [
            asyncio.create_task(self._hold(statements, held))
            for statements, held in zip(_HOLDING, first, strict=True)
        ]
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await asyncio.gather(*(held.wait() for held in first))
            yield
        finally:
            for task in holding:
                task.cancel()
            await asyncio.gather(*holding, return_exceptions=True)

    async def _hold(self, statements: tuple[str, ...], held: asyncio.Event) -> None:
        while True:
            with suppress(*AWAY):
                connection = await self._connect()
                try:
                    for statement in statements:
                        await connection.execute(statement)
                    held.set()
                    lost = asyncio.Event()
                    connection.add_termination_listener(lambda _, lost=lost: lost.set())
                    await lost.wait()
                finally:
                    connection.terminate()
            await asyncio.sleep(_AGAIN_EVERY)

    async def _take_all(self, held: list[asyncpg.Connection]) -> None:
        async def take() -> None:
            with suppress(*AWAY):  # refused at last, or it is away
                while True:
                    held.append(await self._connect())

        await asyncio.gather(*(take() for _ in range(_AT_ONCE)))

    async def _take_the_last(self, held: list[asyncpg.Connection]) -> None:
        """What was free while several knocked at once: who is refused has a place until it left."""
        refused = 0
        while refused < _REFUSALS:
            await asyncio.sleep(_AGAIN_EVERY)
            try:
                held.append(await self._connect())
                refused = 0
            except AWAY:
                refused += 1

    async def _refill(self, held: list[asyncpg.Connection]) -> None:
        while True:
            await asyncio.sleep(_AGAIN_EVERY)
            held[:] = [connection for connection in held if not connection.is_closed()]
            with suppress(*AWAY):
                held.append(await self._connect())
                await self._take_all(held)

    async def _connect(self) -> asyncpg.Connection:
        return await asyncpg.connect(
            self._where(), timeout=30.0, server_settings={"application_name": NAME}
        )
