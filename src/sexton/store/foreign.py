"""Calling our SQL functions on somebody else's connection, inside their transaction.

Known are asyncpg, SQLAlchemy (connections and sessions, sync and async), psycopg (sync and
async), and anything else that looks like the DB-API with %(name)s parameters, as Django does.
"""

import contextlib
import inspect
import re
from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sexton.domain.job import NewJob
from sexton.errors import ConfigurationError, SchemaError, no_schema
from sexton.sql import for_schema

Driver = Literal["asyncpg", "sqlalchemy", "sqlalchemy-async", "dbapi", "psycopg", "psycopg-async"]


# Drivers differ in what they send for these, but every one sends text.
_SENT_AS = {"interval": "text", "json": "text", "jsonb": "text"}
_WRAPPED_TIMES = 4
_NO_SUCH_SCHEMA, _NO_SUCH_FUNCTION = "3F000", "42883"


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """`select * from function(name => value, …)`, with the SQL type of each argument."""

    function: str
    arguments: dict[str, tuple[Any, str]]
    named: bool = False  # in front, as our own statements are: whoever stops at it may be evicted

    def text(self, style: Literal["$", "%", ":"]) -> str:
        placeholders = {"$": "${n}", "%": "%({name})s", ":": ":{name}"}
        given = ", ".join(
            f"{name} => cast(cast({placeholders[style].format(n=n, name=name)} "
            f"as {_SENT_AS.get(kind, kind)}) as {kind})"
            for n, (name, (_, kind)) in enumerate(self.arguments.items(), 1)
        )
        name = f"-- {self.function}\n" if self.named else ""
        return f"{name}select * from {self.function}({given})"  # noqa: S608 - names and types are ours

    def values(self) -> dict[str, Any]:
        return {name: value for name, (value, _) in self.arguments.items()}


def enqueue_call(schema: str, job: NewJob, now: datetime | None) -> FunctionCall:
    """A call of `enqueue` for this job, leaving out what was not set."""
    every: dict[str, tuple[Any, str]] = {
        "task": (job.task, "text"),
        "payload": (job.payload, "json"),
        "queue": (job.queue or None, "text"),
        "priority": (job.priority, "integer"),
        "at": (job.at, "timestamptz"),
        "delay": (_interval(job.delay), "interval"),
        "key": (job.key, "text"),
        "key_held_for": (_interval(job.key_held_for), "interval"),
        "limit_key": (job.limit_key, "text"),
        "tags": (None if job.tags is None else list(job.tags), "text[]"),
        "expires_in": (_interval(job.expires_in), "interval"),
        "now": (now, "timestamptz"),
        "tenant_id": (None if job.tenant == 1 else job.tenant, "integer"),
    }
    given = {name: each for name, each in every.items() if each[0] is not None}
    return FunctionCall(for_schema("sexton.enqueue_json", schema), given)


def succeed_call(
    schema: str, job: int, fence: int, result: str | None, now: datetime | None
) -> FunctionCall:
    """A call of `succeed`: the settlement as a statement of the task's own transaction."""
    return FunctionCall(
        for_schema("sexton.succeed", schema),
        {
            "the_job": (job, "bigint"),
            "the_fence": (fence, "bigint"),
            "the_result": (result, "jsonb"),
            "the_now": (now, "timestamptz"),
        },
        named=True,
    )


def driver_of(connection: Any) -> Driver:
    """Which of the known kinds this connection is."""
    if hasattr(connection, "fetchrow") and hasattr(connection, "is_in_transaction"):
        return "asyncpg"
    roots = {cls.__module__.partition(".")[0] for cls in type(connection).__mro__}
    if "sqlalchemy" in roots:
        asynchronous = inspect.iscoroutinefunction(type(connection).execute)
        return "sqlalchemy-async" if asynchronous else "sqlalchemy"
    if "psycopg" in roots:
        asynchronous = inspect.iscoroutinefunction(type(connection).execute)
        return "psycopg-async" if asynchronous else "psycopg"
    if hasattr(connection, "cursor"):
        return "dbapi"
    raise ConfigurationError(
        f"connection= got a {type(connection).__name__}: give an asyncpg, psycopg or SQLAlchemy "
        "connection or session, or a DB-API connection"
    )


@contextlib.contextmanager
def demands_schema(schema: str) -> Iterator[None]:
    """In a database without Sexton, or with an older one, a call says so, whatever the driver
    makes of it."""
    try:
        yield
    except Exception as error:
        state = _sqlstate(error)
        if state == _NO_SUCH_SCHEMA and f'"{schema}"' in str(error):
            raise SchemaError(no_schema(schema)) from error
        if state == _NO_SUCH_FUNCTION and re.search(
            rf"\b{schema}\.enqueue_json\(", _primary(error)
        ):
            raise SchemaError(
                f"schema {schema!r} has no function that this code calls: run `sexton migrate`, "
                "which says so if it is the code that is older"
            ) from error
        raise


def _sqlstate(error: BaseException) -> str | None:
    """asyncpg's and psycopg's; psycopg2's."""
    for each in _wrapped(error):
        for name in ("sqlstate", "pgcode"):
            if isinstance(state := getattr(each, name, None), str):
                return state
    return None


def _primary(error: BaseException) -> str:
    """What PostgreSQL says, without the statement that drivers put beside it."""
    for each in _wrapped(error):
        for said in (each, getattr(each, "diag", None)):
            for name in ("message", "message_primary"):
                if isinstance(text := getattr(said, name, None), str):
                    return text
    return ""


def _wrapped(error: BaseException) -> Iterator[Any]:
    """SQLAlchemy and Django wrap what the driver raised, and SQLAlchemy wraps asyncpg's twice."""
    each: BaseException | None = error
    for _ in range(_WRAPPED_TIMES):
        yield each
        yield getattr(each, "orig", None)
        each = None if each is None else each.__cause__


def run_sync(connection: Any, call: FunctionCall) -> tuple[Any, ...]:
    """Run it on a connection that does not need awaiting."""
    match driver_of(connection):
        case "psycopg":
            from psycopg.rows import tuple_row

            with connection.cursor(row_factory=tuple_row) as cursor:
                cursor.execute(call.text("%"), call.values())
                return _values(cursor.fetchone())
        case "dbapi":
            with connection.cursor() as cursor:
                cursor.execute(call.text("%"), call.values())
                return _values(cursor.fetchone())
        case "sqlalchemy":
            from sqlalchemy import text

            return tuple(connection.execute(text(call.text(":")), call.values()).one())
    raise ConfigurationError(
        f"a {type(connection).__name__} is asynchronous: await the enqueue that takes it"
    )


async def run_async(connection: Any, call: FunctionCall) -> tuple[Any, ...]:
    """Run it on any connection; a synchronous one blocks the loop for as long as it takes."""
    match driver_of(connection):
        case "asyncpg":
            return tuple(await connection.fetchrow(call.text("$"), *call.values().values()))
        case "psycopg-async":
            from psycopg.rows import tuple_row

            async with connection.cursor(row_factory=tuple_row) as cursor:
                await cursor.execute(call.text("%"), call.values())
                return _values(await cursor.fetchone())
        case "sqlalchemy-async":
            from sqlalchemy import text

            result = await connection.execute(text(call.text(":")), call.values())
            return tuple(result.one())
        case _:
            return run_sync(connection, call)


def run(connection: Any, call: FunctionCall) -> tuple[Any, ...] | Awaitable[tuple[Any, ...]]:
    """The row, or something to await, as the connection has it."""
    if driver_of(connection) in ("dbapi", "psycopg", "sqlalchemy"):
        return run_sync(connection, call)
    return run_async(connection, call)


def _values(row: Any) -> tuple[Any, ...]:
    """A row whatever its caller's connection makes of rows: a mapping alone would give its keys."""
    return tuple(row.values()) if isinstance(row, Mapping) else tuple(row)


def _interval(length: float | None) -> str | None:
    return None if length is None else f"{length!r} seconds"
