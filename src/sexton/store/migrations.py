"""Numbered SQL, forward only, applied once under a lock."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from importlib import resources

import asyncpg

from sexton import sql
from sexton.errors import SchemaError, SextonError, Unavailable, no_schema
from sexton.store.connection import Address, connect, is_lost, say

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
_LOCK_WITHIN, _TRIES = 3.0, 5
# What PostgreSQL says of a statement that came before its migration.
MISSING = (
    *(asyncpg.InvalidSchemaNameError, asyncpg.UndefinedTableError),
    *(asyncpg.UndefinedFunctionError, asyncpg.UndefinedColumnError),
)


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    version: int
    name: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SchemaState:
    """What the database has against what this code wants."""

    schema: str
    found: int
    wanted: int

    @property
    def current(self) -> bool:
        return self.found == self.wanted

    def demand_current(self) -> None:
        """Raise with what to do, unless the schema is exactly what this code was written for."""
        if self.found > self.wanted:
            raise SchemaError(
                f"schema {self.schema!r} is at version {self.found}, newer than this code's "
                f"{self.wanted}: upgrade Sexton here before it touches the database"
            )
        if self.found == 0:
            raise SchemaError(no_schema(self.schema))
        if self.found < self.wanted:
            raise SchemaError(
                f"schema {self.schema!r} is at version {self.found}, this code wants "
                f"{self.wanted}: run `sexton migrate`"
            )


def migrations() -> list[Migration]:
    """Every migration this code knows, in order."""
    found = []
    for file in resources.files(sql).joinpath("migrations").iterdir():
        if match := _FILE.fullmatch(file.name):
            found.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    return sorted(found, key=lambda each: each.version)


async def check(address: Address, schema: str) -> SchemaState:
    """How the database stands, changing nothing."""
    try:
        async with _connected(address) as connection, asyncio.timeout(address.patience):
            # In a transaction, so that even a pooler nobody told us of lets it be.
            transaction = connection.transaction()
            await transaction.start()
            state = await _state(connection, schema)
            await transaction.rollback()
            return state
    except asyncpg.InsufficientPrivilegeError as error:
        raise SchemaError(
            f"this role may not look into schema {schema!r} ({error}): grant it USAGE on the "
            "schema and its rights on what is in it"
        ) from error


async def migrate(address: Address, schema: str) -> list[Migration]:
    """Bring the schema up to date; safe when many processes do so at once."""
    tries = 0
    while True:
        try:
            return await _migrate(address, schema)
        except _Locked as locked:
            tries += 1
            if tries == _TRIES:
                raise SchemaError(
                    f"{locked} did not get its locks in schema {schema!r} in {_TRIES} tries of "
                    f"{_LOCK_WITHIN:g} s, and nothing was changed. Somebody has a table locked, as "
                    "by a backup or a transaction that was left open: "
                    f"{await _holders(address, schema)}; end it, or try again later"
                ) from locked.__cause__
            await asyncio.sleep(_LOCK_WITHIN)  # let those go first who wait behind it


async def _migrate(address: Address, schema: str) -> list[Migration]:
    try:
        async with _connected(address) as connection:
            version = connection.get_server_version().major
            if version < 15:
                raise SchemaError(f"PostgreSQL {version} is too old: Sexton needs 15 or newer")
            # Read committed: whoever waited for the lock must see what was done under it.
            async with connection.transaction(isolation="read_committed"):
                return await _apply(connection, schema)
    except asyncpg.InsufficientPrivilegeError as error:
        raise SchemaError(
            f"this role may not make schema {schema!r} ({error}): grant it CREATE on the "
            "database, or make the schema for it, with this role as its owner"
        ) from error


async def _apply(connection: asyncpg.Connection, schema: str) -> list[Migration]:
    with _locking("sexton migrate"):
        await connection.execute(
            "select pg_advisory_xact_lock(hashtextextended($1, 0))", f"{schema}.migrate"
        )
        # Everybody who wants a table waits behind whoever waits to change it.
        await connection.execute(f"set local lock_timeout = '{_LOCK_WITHIN * 1000:.0f}ms'")
        state = await _state(connection, schema)
        if state.found > state.wanted:
            state.demand_current()
        if state.found == 0:
            await _make_schema(connection, schema)
    applied = [each for each in migrations() if each.version > state.found]
    note = sql.for_schema("insert into sexton.migration (version, name) values ($1, $2)", schema)
    for migration in applied:
        with _locking(f"migration {migration.version:04}_{migration.name}"):
            await connection.execute(sql.for_schema(migration.text, schema))
            await connection.execute(note, migration.version, migration.name)
    with _locking("making tables for the days to come"):
        await connection.fetchval(sql.statement("make_buckets", schema), 7, None)
    return applied


class _Locked(Exception):
    """The step of this name waited too long for somebody else's lock."""


@contextlib.contextmanager
def _locking(step: str) -> Iterator[None]:
    try:
        yield
    except asyncpg.LockNotAvailableError as error:
        raise _Locked(step) from error


async def _holders(address: Address, schema: str) -> str:
    """Whom to look for, as it is a moment after."""
    with contextlib.suppress(Unavailable, TimeoutError, asyncpg.PostgresError):
        async with (
            _connected(address) as connection,
            asyncio.timeout(address.patience),
            connection.transaction(readonly=True),
        ):
            statement = sql.statement("lock_holders", schema)
            found = await connection.fetch(statement, schema, _LOCK_WITHIN)
            if found:
                return ", ".join(each["who"] for each in found)
    return "the oldest in pg_stat_activity (xact_start) or in pg_prepared_xacts, most likely"


@contextlib.asynccontextmanager
async def _connected(address: Address) -> AsyncIterator[asyncpg.Connection]:
    """For one errand; a connection that is cut meanwhile is a server that is away."""
    connection = await connect(address, engine=False)
    try:
        yield connection
        await connection.close(timeout=address.patience)
    except Exception as error:
        if is_lost(error) or (connection.is_closed() and not isinstance(error, SextonError)):
            # What ends a transaction complains in its own way, and hides what it was.
            hides = isinstance(error, asyncpg.InterfaceError) and error.__context__
            raise Unavailable(f"PostgreSQL did not answer: {say(hides or error)}") from error
        await connection.close(timeout=address.patience)
        raise
    finally:
        connection.terminate()


async def _state(connection: asyncpg.Connection, schema: str) -> SchemaState:
    wanted = migrations()[-1].version
    ours = await connection.fetchval(
        "select count(*) = 3 from pg_attribute where attrelid = to_regclass($1) "
        "and attname in ('version', 'name', 'applied_at')",
        f"{schema}.migration",
    )
    if not ours:
        return SchemaState(schema, 0, wanted)
    found = await connection.fetchval(
        sql.for_schema("select max(version) from sexton.migration", schema)
    )
    return SchemaState(schema, found or 0, wanted)


async def _make_schema(connection: asyncpg.Connection, schema: str) -> None:
    if await connection.fetchval("select quote_ident($1) <> $1", schema):
        raise SchemaError(f"schema name {schema!r} is a reserved word of SQL: choose another")
    strangers = await connection.fetchval(
        "select count(*) from pg_class where relnamespace = to_regnamespace($1)", schema
    )
    if strangers:
        raise SchemaError(
            f"schema {schema!r} holds tables that are not Sexton's: choose another with "
            "SEXTON_SCHEMA"
        )
    # Not `if not exists`: that wants CREATE on the database even where the schema is there.
    if await connection.fetchval("select to_regnamespace($1) is null", schema):
        await connection.execute(f"create schema {schema}")  # checked: a plain identifier
    await connection.execute(
        sql.for_schema(
            """
            create table sexton.migration (
                version     integer primary key,
                name        text not null,
                applied_at  timestamptz not null default now()
            )
            """,
            schema,
        )
    )
