"""Where a statement finds its connection: a line of its own here, others in pool and borrowed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Protocol

import asyncpg

from sexton.errors import Unavailable
from sexton.store.connection import Address, connect, is_lost, say

CLOSE_WITHIN = 2.0
Row = Any  # asyncpg.Record, which has no types of its own


class Source(Protocol):
    """Runs one statement; raises Unavailable when the server cannot be reached."""

    async def fetch(self, query: str, *args: Any) -> list[Row]: ...

    async def copy(
        self, schema: str, table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]
    ) -> None: ...


class Guarded:
    """Fetch and copy over a connection that is got and given back by `_connection`."""

    address: Address
    _engine: bool

    def _connection(self) -> contextlib.AbstractAsyncContextManager[asyncpg.Connection]:
        raise NotImplementedError

    async def fetch(self, query: str, *args: Any) -> list[Row]:
        patience = self.address.patience
        async with self._connection() as connection:
            if not (self.address.pooler and self._engine):
                rows: list[Row] = await connection.fetch(query, *args, timeout=patience)
                return rows
            # By hand, because asyncpg's transactions wait for ever on a half-open connection.
            await connection.execute(self.address.engine_begin, timeout=patience)
            try:
                rows = await connection.fetch(query, *args, timeout=patience)
            except Exception as error:
                if not is_lost(error):
                    await connection.execute("rollback", timeout=patience)
                raise
            await connection.execute("commit", timeout=patience)
            return rows

    async def copy(
        self, schema: str, table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]
    ) -> None:
        async with self._connection() as connection:
            await connection.copy_records_to_table(
                table, schema_name=schema, columns=columns, records=rows
            )


class Line(Guarded):
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
        if held is not None:
            await close(held)


async def close_all(lines: Iterable[Line]) -> None:
    """At once: where the way is dead each takes its time, and whoever ends waits for all."""
    await asyncio.gather(*(line.close() for line in lines))


async def close(connection: asyncpg.Connection) -> None:
    """Politely, which also cancels what it still does in PostgreSQL; then otherwise."""
    try:
        if not connection.is_closed():
            await connection.close(timeout=CLOSE_WITHIN)
    except (
        *(TimeoutError, OSError),
        *(asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError),
    ):
        connection.terminate()
