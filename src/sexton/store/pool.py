"""Connections for callers who enqueue, and for tasks that write in a transaction of ours."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from typing import Any

import asyncpg
from asyncpg.transaction import Transaction, TransactionState

from sexton.errors import Unavailable
from sexton.store.connection import Address, connect, is_lost, say
from sexton.store.source import Guarded, Row, close

IDLE_FOR = 60.0
# Said of a statement that was badly put as well as of a connection that is gone.
_AMBIGUOUS = (asyncpg.InterfaceError, asyncpg.InternalClientError)
_OF_ASYNCPG = (asyncpg.PostgresError, *_AMBIGUOUS)


@dataclass(frozen=True, slots=True)
class Use:
    """How much of a pool is in use."""

    size: int
    opened: int
    idle: int
    waiting: int


class Pool(Guarded):
    """Connections for many callers at once; the one used last is used next.

    asyncpg's own pool costs a third of a single-row insert, in context managers, timers and tasks.
    """

    def __init__(self, address: Address, size: int) -> None:
        self.address = address
        self._engine = False
        self._size = size
        self._open = 0
        self._idle: list[tuple[asyncpg.Connection, float]] = []
        # Each is handed a connection, or None for the right to open one: whoever came first goes
        # first, however greedily others come back for more.
        self._waiting: deque[asyncio.Future[asyncpg.Connection | None]] = deque()
        self._errands: set[asyncio.Task[None]] = set()

    @property
    def use(self) -> Use:
        return Use(self._size, self._open, len(self._idle), len(self._waiting))

    async def fetch(self, query: str, *args: Any) -> list[Row]:
        connection = await self._take_plain()
        try:
            rows: list[Row] = await connection.fetch(query, *args, timeout=self.address.patience)
        except BaseException as error:
            self._give_back_after(connection, error)
            raise
        self._give_back(connection)
        return rows

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[asyncpg.Connection]:
        connection = await self._take_plain()
        try:
            yield connection
        except BaseException as error:
            self._give_back_after(connection, error)
            raise
        self._give_back(connection)

    @contextlib.asynccontextmanager
    async def session(self, stands: str) -> AsyncIterator[asyncpg.Connection]:
        """A connection in whose session this was set, now or by an earlier caller, and in which
        every statement is a transaction of its own. Not behind a pooler, which lends sessions.
        """
        connection = await self._take()
        try:
            if connection.stands != stands:
                connection.stands = None
                await connection.execute(stands, timeout=self.address.patience)
                connection.stands = stands
            yield connection
        except BaseException as error:
            self._give_back_after(connection, error)
            raise
        self._give_back(connection)

    @contextlib.asynccontextmanager
    async def transaction(
        self, *, ours: bool = False, begin: str | None = None, any_session: bool = False
    ) -> AsyncIterator[asyncpg.Connection]:
        """A transaction for a caller's own statements, and for whatever else is done in it.

        What they set in the session does not outlast it, unless every statement is `ours`. It may
        `begin` with what is set in it only, in one round trip; if that is all that a `session` may
        have set, it takes `any_session`.
        """
        patience = self.address.patience
        theirs: Exception | None = None
        sound = True
        connection = await (self._take() if any_session else self._take_plain())
        try:
            transaction = connection.transaction() if begin is None else _Begun(connection, begin)
            async with asyncio.timeout(patience):  # a half-open one shows here
                await transaction.start()
            try:
                yield connection
            except Exception as error:
                if (ours and is_lost(error)) or _is_gone(connection, error):
                    raise
                # A timeout of the caller's own says nothing of this connection, and stays as it is.
                theirs = error
                sound = await _roll_back(transaction, patience)
            else:
                async with asyncio.timeout(patience):
                    await transaction.commit()
        except BaseException as error:
            self._give_back_after(connection, error, cleaned=ours)
            raise
        if not sound:
            self._retire(connection)
        elif ours:
            self._give_back(connection)
        else:
            self._clean(connection)
        if theirs is not None:
            raise theirs

    async def is_direct(self) -> bool:
        """Whether a session is ours for as long as we have it: no pooler stands between, not even
        one that nobody told us of."""
        if self.address.pooler:
            return False
        async with self._connection() as connection:
            try:
                pid = await connection.fetchval(
                    "select pg_backend_pid()", timeout=self.address.patience
                )
            except asyncpg.PostgresError:
                return False
            return bool(pid == connection.get_server_pid())

    async def _take_plain(self) -> asyncpg.Connection:
        """One in whose session nothing is set."""
        connection = await self._take()
        if connection.stands is not None:
            try:
                await connection.reset(timeout=self.address.patience)
            except BaseException as error:
                self._give_back_after(connection, error)
                raise
            connection.stands = None
        return connection

    async def _take(self) -> asyncpg.Connection:
        while self._idle:
            connection, _ = self._idle.pop()
            if not connection.is_closed():
                return connection
            self._open -= 1
        if self._open < self._size:
            self._open += 1
            return await self._connect()
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(self.address.patience):
                handed = await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._hand_on(turn.result())
            if isinstance(error, TimeoutError):
                raise Unavailable(
                    f"all {self._size} connections are in use: raise SEXTON_POOL_SIZE"
                ) from None
            raise
        return await self._connect() if handed is None else handed

    async def _connect(self) -> asyncpg.Connection:
        try:
            return await connect(self.address, engine=False)
        except BaseException:
            self._hand_on(None)
            raise

    def _give_back(self, connection: asyncpg.Connection) -> None:
        if self._waiting or connection.is_closed():
            self._hand_on(connection)
            return
        now = time.monotonic()
        self._idle.append((connection, now))
        oldest, since = self._idle[0]
        if now - since > IDLE_FOR:
            del self._idle[0]
            self._open -= 1
            oldest.terminate()

    def _hand_on(self, connection: asyncpg.Connection | None) -> None:
        """To whoever waits longest; one that is closed leaves its place to them."""
        if connection is not None and connection.is_closed():
            connection = None
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(connection)
                return
        if connection is None:
            self._open -= 1
        else:
            self._idle.append((connection, time.monotonic()))

    def _give_back_after(
        self, connection: asyncpg.Connection, error: BaseException, *, cleaned: bool = True
    ) -> None:
        """Never reuse one of which it is not known what the server made of its last statement."""
        lost = is_lost(error)
        if isinstance(error, asyncpg.InterfaceError):
            lost = connection.is_closed()
        unsure = lost or isinstance(error, asyncio.CancelledError | GeneratorExit)
        # Still in a transaction: it began, and was refused what was to be set in it.
        if unsure or connection.is_in_transaction():
            self._retire(connection)
        elif cleaned:
            self._give_back(connection)
        else:
            self._clean(connection)
        if lost and not isinstance(error, Unavailable):
            raise Unavailable(f"PostgreSQL did not answer: {say(error)}") from error

    def _retire(self, connection: asyncpg.Connection) -> None:
        """End it without anybody waiting; what it still does in PostgreSQL is cancelled."""
        self._hand_on(None)
        if not connection.is_closed():
            self._background(connection, close(connection))

    def _clean(self, connection: asyncpg.Connection) -> None:
        """Give it back as good as new; its transaction is over, so nobody waits for that."""
        if connection.recoded:
            self._retire(connection)
        elif self.address.pooler:  # the session is not ours, and was another for each transaction
            self._give_back(connection)
        else:
            self._background(connection, self._reset(connection))

    async def _reset(self, connection: asyncpg.Connection) -> None:
        connection.stands = None
        try:
            await connection.reset(timeout=self.address.patience)
        except BaseException as error:
            connection.terminate()
            self._hand_on(None)
            if not isinstance(error, Exception):
                raise
        else:
            self._give_back(connection)

    def _background(self, connection: asyncpg.Connection, work: Coroutine[Any, Any, None]) -> None:
        try:
            errand = asyncio.get_running_loop().create_task(work)
        except RuntimeError:  # a generator that is finalised after its loop
            work.close()
            connection.terminate()
            return
        self._errands.add(errand)
        errand.add_done_callback(self._errands.discard)

    def abandon(self) -> None:
        """Let go of connections whose event loop is closed already."""
        idle, self._idle = self._idle, []
        self._open = 0
        for connection, _ in idle:
            with contextlib.suppress(Exception):
                connection.terminate()

    async def close(self) -> None:
        if self._errands:
            await asyncio.gather(*self._errands, return_exceptions=True)
        idle, self._idle = self._idle, []
        self._open -= len(idle)
        await asyncio.gather(*(close(connection) for connection, _ in idle))


class _Begun(Transaction):  # type: ignore[misc]  # asyncpg has no types
    """One that begins with a text of ours; those within it are savepoints, as in any other."""

    def __init__(self, connection: asyncpg.Connection, begin: str) -> None:
        super().__init__(connection, None, False, False)
        self._begin = begin

    async def start(self) -> None:
        self._connection._top_xact = self
        try:
            await self._connection.execute(self._begin)
        except BaseException:
            self._state = TransactionState.FAILED
            self._connection._top_xact = None
            raise
        self._state = TransactionState.STARTED


def _is_gone(connection: asyncpg.Connection, error: Exception) -> bool:
    """Whether an error in somebody's transaction is this connection's end."""
    if connection.is_closed():
        return True
    return isinstance(error, _OF_ASYNCPG) and is_lost(error) and not isinstance(error, _AMBIGUOUS)


async def _roll_back(transaction: Transaction, patience: float) -> bool:
    try:
        async with asyncio.timeout(patience):
            await transaction.rollback()
    except Exception:  # a statement of theirs still runs, for one
        return False
    return True
