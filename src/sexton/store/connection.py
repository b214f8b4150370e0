"""Opening connections, and telling a lost server from a wrong statement."""

import asyncio
import contextlib
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg

from sexton.errors import ConfigurationError, Unavailable

# Our statements are few and their plans known: always by index, whatever the statistics say of a
# table that was empty a second ago. Only on connections that no user statement runs on.
ENGINE_SETTINGS = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    # Somebody else's lock is waited for elsewhere.
    "lock_timeout": "1000",
    # Our transactions have no time to think between statements: whoever takes so long is gone.
    "idle_in_transaction_session_timeout": "10000",
}
# PostgreSQL goes on for so long with a statement that we have given up.
GIVEN_UP_FOR = 1.0
# A peer that vanished without a word is noticed after 25 seconds, on either side.
_ALIVE = {"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3"}
_ALIVE_HERE = (
    ("TCP_KEEPIDLE" if hasattr(socket, "TCP_KEEPIDLE") else "TCP_KEEPALIVE", 10),
    ("TCP_KEEPINTVL", 5),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 25_000),  # what was sent and never acknowledged, in ms
)
# Limits are counted after their lock was had: an older snapshot would not see who came before.
_ISOLATION = {"default_transaction_isolation": "read committed"}
# The array types of our statements.
_ARRAYS = "select " + ", ".join(
    f"null::{name}[]"
    for name in ("text", "boolean", "smallint", "integer", "bigint", "float8", "timestamptz")
)
# Not `discard all`, which would also forget the statements that are prepared; not only `reset all`,
# which leaves the role as it is.
_RESET = (
    "reset session authorization; reset role; reset all; close all; unlisten *; discard temp; "
    "select pg_advisory_unlock_all()"
)

_LOST = (
    OSError,
    TimeoutError,
    asyncio.TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # what asyncpg says when a session ends in mid-answer
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.IdleSessionTimeoutError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,
)
_COLLIDED = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
)
# What a row that is written can be to blame for. A full disk or a grant that was taken back is
# nobody's fault: it is waited for, like a server that is away.
ITS_FAULT = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.PLPGSQLError,  # a trigger of the user's own
)
_REFUSED = (
    asyncpg.InvalidPasswordError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
)


def is_lost(error: BaseException) -> bool:
    """The server, or the way to it, is gone; another connection may do better."""
    return isinstance(error, (*_LOST, Unavailable))


def is_transient(error: BaseException) -> bool:
    """The same statement may well succeed if it is tried again."""
    return is_lost(error) or isinstance(error, _COLLIDED)


def say(error: BaseException) -> str:
    """One line about an error, for a log or a message."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


class Session(asyncpg.Connection):  # type: ignore[misc]  # asyncpg has no types
    """A connection that notices when its server vanished, and can be made as good as new after
    somebody else's statements."""

    __slots__ = ("recoded", "stands")

    def __init__(self, protocol: Any, transport: asyncio.Transport, *args: Any) -> None:
        super().__init__(protocol, transport, *args)
        _keep_alive(transport.get_extra_info("socket"))
        self.stands: str | None = None  # what was set in the session, and lasts
        self.recoded = False  # values are read and written in a way of theirs: it cannot be reset

    async def set_type_codec(self, *args: Any, **options: Any) -> None:
        self.recoded = True
        await super().set_type_codec(*args, **options)

    async def set_builtin_type_codec(self, *args: Any, **options: Any) -> None:
        self.recoded = True
        await super().set_builtin_type_codec(*args, **options)

    def get_reset_query(self) -> str:
        return _RESET


@dataclass(frozen=True, slots=True)
class Address:
    """Where PostgreSQL is and how it is to be talked to."""

    url: str
    pooler: bool = False
    patience: float = 10.0

    def __str__(self) -> str:
        """For logs and messages: without the password, wherever it stands."""
        parts = urlsplit(self.url)
        user, at, host = parts.netloc.rpartition("@")
        query = [each for each in parse_qsl(parts.query) if each[0] != "password"]
        shown = f"{user.partition(':')[0]}{at}{host}"
        rest = urlunsplit(("", "", parts.path, urlencode(query, safe="/"), parts.fragment))
        # Not `urlunsplit` for all of it, which drops the // before a host that is not there.
        return f"{parts.scheme}://{shown}{rest}" if parts.scheme else rest

    __repr__ = __str__

    def options(self, *, engine: bool, bare: bool = False) -> dict[str, Any]:
        """What asyncpg's connect wants; `bare`: with nothing that a pooler would not know."""
        options: dict[str, Any] = {"dsn": self.url, "timeout": self.patience}
        if self.pooler:
            # Behind a transaction pooler the next statement may meet another session.
            options["statement_cache_size"] = 0
        else:
            options["server_settings"] = {"application_name": "sexton"}
            if not bare:
                options["server_settings"] |= _ALIVE
            if engine:
                options["server_settings"] |= self._engine_settings | _ISOLATION
        return options

    @property
    def engine_begin(self) -> str:
        """The same where a setting would outlive our transaction in a session of others too."""
        local = [f"set local {name} = {text}" for name, text in self._engine_settings.items()]
        return "; ".join(["begin isolation level read committed", *local])

    @property
    def _engine_settings(self) -> dict[str, str]:
        """What we gave up must not run on: tried again, there would be more of it each time. But a
        while, so that it is us who gave up, and whoever needs little more may come to its end."""
        milliseconds = round((self.patience + GIVEN_UP_FOR) * 1000)
        return ENGINE_SETTINGS | {"statement_timeout": str(milliseconds)}


def _keep_alive(at: socket.socket | None) -> None:
    """What waits for an answer without a limit of its own, as a user's statement, ends too."""
    if at is None or at.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with contextlib.suppress(OSError):  # it is gone already, which its reader will notice
        at.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _ALIVE_HERE:
            if hasattr(socket, name):  # not everywhere
                at.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def connect(address: Address, *, engine: bool) -> asyncpg.Connection:
    """One connection, or an error that says what to do."""
    try:
        connection = await _open(address, engine)
        if address.pooler:
            await _learn_types(connection, address.patience)
        return connection
    except asyncpg.ProtocolViolationError as error:
        if "startup parameter" not in str(error):
            raise Unavailable(f"cannot reach PostgreSQL at {address}: {say(error)}") from error
        raise ConfigurationError(
            f"a pooler stands before PostgreSQL ({error}): set SEXTON_POOLER=1, and "
            "SEXTON_LISTEN_URL to a direct way to PostgreSQL"
        ) from error
    except _REFUSED as error:
        raise ConfigurationError(
            f"PostgreSQL at {address} refused the connection: {say(error)}"
        ) from error
    except _LOST as error:
        raise Unavailable(f"cannot reach PostgreSQL at {address}: {say(error)}") from error


async def _open(address: Address, engine: bool) -> asyncpg.Connection:
    try:
        return await asyncpg.connect(**address.options(engine=engine), connection_class=Session)
    except asyncpg.ProtocolViolationError as error:
        if engine or "startup parameter" not in str(error):
            raise
        # A pooler that nobody told us of, which some statements can do with.
        options = address.options(engine=False, bare=True)
        return await asyncpg.connect(**options, connection_class=Session)


async def _learn_types(connection: asyncpg.Connection, patience: float) -> None:
    """Ask about arrays now, and roll back: asyncpg sets jit in the session when it first meets one.

    In a session that a pooler lends, that would stay behind for somebody else.
    """
    try:
        async with asyncio.timeout(patience):
            transaction = connection.transaction()
            await transaction.start()
            await connection.fetch(_ARRAYS)
            await transaction.rollback()
    except BaseException:
        connection.terminate()
        raise
