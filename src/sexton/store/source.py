"""Where a statement finds its connection: a pool, a line of its own, or the caller's."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Protocol

import asyncpg

from sexton.errors import Unavailable
from sexton.store.connection import ENGINE_SET_LOCAL, Address, connect, is_lost, say

Row = Any  # asyncpg.Record, which has no types of its own


class Source(Protocol):
    """Runs one statement; raises Unavailable when the server cannot be reached."""

    async def fetch(self, query: str, *args: Any) -> list[Row]: ...

    async def copy(
        self, schema: str, table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]
    ) -> None: ...


class Borrowed:
    """The caller's own asyncpg connection, in the caller's own transaction."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection

    async def fetch(self, query: str, *args: Any) -> list[Row]:
        rows: list[Row] = await self.connection.fetch(query, *args)
        return rows

    async def copy(
        self, schema: str, table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]
    ) -> None:
        await self.connection.copy_records_to_table(
            table, schema_name=schema, columns=columns, records=rows
        )


class _Guarded:
    """Fetch and copy over a connection that is got and given back by `_connection`."""

    address: Address
    _engine: bool

    def _connection(self) -> contextlib.AbstractAsyncContextManager[asyncpg.Connection]:
        raise NotImplementedError

    async def fetch(self, query: str, *args: Any) -> list[Row]:
        rows: list[Row]
        async with self._connection() as connection:
            if not self.address.pooler:
                rows = await connection.fetch(query, *args, timeout=self.address.patience)
                return rows
            async with connection.transaction():
                if self._engine:
                    await connection.execute(ENGINE_SET_LOCAL)
                rows = await connection.fetch(query, *args, timeout=self.address.patience)
            return rows

    async def copy(
        self, schema: str, table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]
    ) -> None:
        async with self._connection() as connection:
            await Borrowed(connection).copy(schema, table, columns, rows)


async def _no_reset(connection: asyncpg.Connection) -> None:
    """Our statements leave no session state behind, so a round trip to reset it buys nothing."""


class Pool(_Guarded):
    """Connections for callers who enqueue, many at once."""

    def __init__(self, address: Address, size: int) -> None:
        self.address = address
        self._engine = False
        self._size = size
        self._pool: asyncpg.Pool | None = None
        self._opening = asyncio.Lock()

    async def _open(self) -> asyncpg.Pool:
        async with self._opening:
            if self._pool is None:
                first = await connect(self.address, engine=False)  # for its readable errors
                await first.close()
                self._pool = await asyncpg.create_pool(
                    **self.address.options(engine=False),
                    min_size=1,
                    max_size=self._size,
                    reset=_no_reset,
                    max_inactive_connection_lifetime=60.0,
                )
            return self._pool

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[asyncpg.Connection]:
        try:
            pool = self._pool or await self._open()
            async with pool.acquire(timeout=self.address.patience) as connection:
                yield connection
        except Unavailable:
            raise
        except Exception as error:
            if is_lost(error):
                raise Unavailable(f"PostgreSQL did not answer: {say(error)}") from error
            raise

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[asyncpg.Connection]:
        """A transaction for a caller's own statements."""
        async with self._connection() as connection, connection.transaction():
            yield connection

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                await asyncio.wait_for(pool.close(), 2.0)
            except (TimeoutError, asyncpg.PostgresError, OSError):
                pool.terminate()


class Line(_Guarded):
    """One connection of a flow's own, opened when needed and replaced when lost."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._engine = True
        self._held: asyncpg.Connection | None = None
        self._turn = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[asyncpg.Connection]:
        async with self._turn:
            if self._held is None or self._held.is_closed():
                self._held = await connect(self.address, engine=True)
            try:
                yield self._held
            except BaseException as error:
                if is_lost(error) or isinstance(error, asyncio.CancelledError):
                    # What the server made of the last statement is not known: never reuse it.
                    self._drop()
                if is_lost(error) and not isinstance(error, Unavailable):
                    raise Unavailable(f"PostgreSQL did not answer: {say(error)}") from error
                raise

    def _drop(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.terminate()

    async def close(self) -> None:
        held, self._held = self._held, None
        if held is not None and not held.is_closed():
            try:
                await held.close(timeout=2.0)
            except (TimeoutError, asyncpg.PostgresError, OSError):
                held.terminate()
