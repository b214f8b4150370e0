"""Where a statement finds its connection: a pool, a line of its own, or the caller's."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Protocol

import asyncpg

from sexton.errors import Unavailable
from sexton.store.connection import ENGINE_BEGIN, Address, connect, is_lost, say

IDLE_FOR = 60.0
_OF_ASYNCPG = (asyncpg.PostgresError, asyncpg.InterfaceError)
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
        patience = self.address.patience
        async with self._connection() as connection:
            if not (self.address.pooler and self._engine):
                rows: list[Row] = await connection.fetch(query, *args, timeout=patience)
                return rows
            # By hand, because asyncpg's transactions wait for ever on a half-open connection.
            await connection.execute(ENGINE_BEGIN, timeout=patience)
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
            await Borrowed(connection).copy(schema, table, columns, rows)


class Pool(_Guarded):
    """Connections for callers who enqueue, many at once; the one used last is used next.

    asyncpg's own pool costs a third of a single-row insert, in context managers, timers and tasks.
    """

    def __init__(self, address: Address, size: int) -> None:
        self.address = address
        self._engine = False
        self._size = size
        self._open = 0
        self._idle: list[tuple[asyncpg.Connection, float]] = []
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def fetch(self, query: str, *args: Any) -> list[Row]:
        connection = await self._take()
        try:
            rows: list[Row] = await connection.fetch(query, *args, timeout=self.address.patience)
        except BaseException as error:
            self._give_back_after(connection, error)
            raise
        self._give_back(connection)
        return rows

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[asyncpg.Connection]:
        connection = await self._take()
        try:
            yield connection
        except BaseException as error:
            self._give_back_after(connection, error)
            raise
        self._give_back(connection)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[asyncpg.Connection]:
        """A transaction for a caller's own statements, and for whatever else is done in it."""
        theirs: Exception | None = None
        async with self._connection() as connection:
            transaction = connection.transaction()
            async with asyncio.timeout(self.address.patience):  # a half-open one shows here
                await transaction.start()
            try:
                yield connection
            except Exception as error:
                if connection.is_closed() or (is_lost(error) and isinstance(error, _OF_ASYNCPG)):
                    raise
                # A timeout of the caller's own says nothing of this connection, and stays as it is.
                theirs = error
                async with asyncio.timeout(self.address.patience):
                    await transaction.rollback()
            else:
                async with asyncio.timeout(self.address.patience):
                    await transaction.commit()
        if theirs is not None:
            raise theirs

    async def _take(self) -> asyncpg.Connection:
        while True:
            while self._idle:
                connection, _ = self._idle.pop()
                if not connection.is_closed():
                    return connection
                self._open -= 1
            if self._open < self._size:
                self._open += 1
                try:
                    return await connect(self.address, engine=False)
                except BaseException:
                    self._forget()
                    raise
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                async with asyncio.timeout(self.address.patience):
                    await turn
            except TimeoutError:
                if turn.done() and not turn.cancelled():
                    self._wake_one()
                raise Unavailable(
                    f"all {self._size} connections are in use: raise SEXTON_POOL_SIZE"
                ) from None
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._wake_one()
                raise

    def _give_back(self, connection: asyncpg.Connection) -> None:
        if connection.is_closed():
            self._forget()
            return
        now = time.monotonic()
        self._idle.append((connection, now))
        self._wake_one()
        oldest, since = self._idle[0]
        if now - since > IDLE_FOR:
            del self._idle[0]
            self._open -= 1
            oldest.terminate()

    def _give_back_after(self, connection: asyncpg.Connection, error: BaseException) -> None:
        """Never reuse one of which it is not known what the server made of its last statement."""
        if is_lost(error) or isinstance(error, asyncio.CancelledError | GeneratorExit):
            connection.terminate()
            self._forget()
        else:
            self._give_back(connection)
        if is_lost(error) and not isinstance(error, Unavailable):
            raise Unavailable(f"PostgreSQL did not answer: {say(error)}") from error

    def _forget(self) -> None:
        self._open -= 1
        self._wake_one()

    def _wake_one(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def abandon(self) -> None:
        """Let go of connections whose event loop is closed already."""
        idle, self._idle = self._idle, []
        self._open = 0
        for connection, _ in idle:
            with contextlib.suppress(Exception):
                connection.terminate()

    async def close(self) -> None:
        idle, self._idle = self._idle, []
        self._open -= len(idle)
        for connection, _ in idle:
            await _close(connection)


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
        if held is not None:
            await _close(held)


async def _close(connection: asyncpg.Connection) -> None:
    try:
        if not connection.is_closed():
            await connection.close(timeout=2.0)
    except (TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        connection.terminate()
