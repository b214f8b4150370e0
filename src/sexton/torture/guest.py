"""On a server of somebody else's: looked at before, marked as taken, and left as it was found."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import asyncpg

from sexton.errors import ConfigurationError, SextonError, Unavailable
from sexton.store.connection import Address, connect, say
from sexton.torture.stand.errors import AWAY
from sexton.torture.stand.server import NAME
from sexton.torture.stand.way import address_of, plain

# Everything of a run is in these: the first is the engine's, the second the rig's own.
SCRATCH = "sexton_torture"
SCHEMAS = (SCRATCH, "torture")
ROLE = f"{SCRATCH}_tenant"
DROP = [f"drop schema if exists {schema} cascade" for schema in SCHEMAS]
_PATIENCE = 30.0
# In each process a pool of so many, and one more that listens; the rig itself has some as well.
_POOL_MOST, _POOL_LEAST, _BESIDE, _RIG = 10, 2, 1, 8
_LOOK = """
select
    array(select nspname::text from pg_namespace where nspname = any($1) order by 1) as taken,
    has_database_privilege(current_database(), 'create') as may_create,
    exists (select from pg_roles where rolname = $2) as has_role,
    (select pg_has_role(current_user, oid, 'member') from pg_roles where rolname = $2) as is_member,
    rolsuper or rolcreaterole as may_make_roles,
    quote_ident(rolname) as me,
    quote_ident(datname) as here,
    least(
        current_setting('max_connections')::int
            - current_setting('superuser_reserved_connections')::int
            - coalesce(current_setting('reserved_connections', true), '0')::int
            - (select sum(numbackends)::int from pg_stat_database),
        case when rolconnlimit >= 0 and not rolsuper then rolconnlimit
            - (select count(*)::int from pg_stat_activity where usesysid = pg_roles.oid) end,
        case when datconnlimit >= 0 and not rolsuper then datconnlimit
            - (select numbackends from pg_stat_database where datid = pg_database.oid) end
    ) as free
from pg_roles, pg_database
where rolname = current_user and datname = current_database()
"""
_TAKE = "select pg_try_advisory_lock(hashtextextended($1, 0))"
_GIVE_BACK = "select pg_advisory_unlock_all()"


@dataclass(slots=True)
class Guest:
    """What the server has room for, and what could not be taken away again."""

    env: Mapping[str, str] = field(default_factory=dict)
    left_behind: list[str] = field(default_factory=list)


@asynccontextmanager
async def guest(url: str, processes: int) -> AsyncIterator[Guest]:
    """A refusal that says what to do, or a place for a run that is cleared when it is over."""
    connection = await _enter(url)
    try:
        if not await connection.fetchval(_TAKE, SCRATCH):
            raise ConfigurationError("there is a run in that database: wait until it is over")
        found = await connection.fetchrow(_LOOK, list(SCHEMAS), ROLE)
        _demand(found)
        there = Guest({"SEXTON_POOL_SIZE": str(_pool(found["free"], processes))})
        try:
            yield there
        finally:
            there.left_behind = await _leave(url, with_role=not found["has_role"])
    finally:
        # It may be a moment until the server notices that the session has ended.
        try:
            with suppress(*AWAY):
                await connection.execute(_GIVE_BACK, timeout=_PATIENCE)
        finally:
            connection.terminate()


async def _enter(url: str) -> asyncpg.Connection:
    """As the proxies will: to one server, and without TLS."""
    address_of(url)
    connection = await connect(Address(plain(url), patience=_PATIENCE), engine=False)
    try:
        if await connection.fetchval("select pg_backend_pid()") != connection.get_server_pid():
            raise ConfigurationError(
                "a pooler stands before that PostgreSQL, and torture wants to hurt sessions of its "
                "own: give a direct way to a scratch server"
            )
        await connection.execute(f"set application_name = '{NAME}'")
    except BaseException:
        connection.terminate()
        raise
    return connection


def _demand(found: asyncpg.Record) -> None:
    if found["taken"]:
        drop = "".join(f"\n    {statement};" for statement in DROP)
        raise ConfigurationError(
            f"that database has a schema {found['taken'][0]!r} already: give a scratch database, "
            f"or if a run was killed there{drop}"
        )
    lacking: list[str] = []
    who: list[str] = []
    if not found["may_create"]:
        lacking.append(f"grant create on database {found['here']} to {found['me']}")
        who.append("owns it")
    if not (found["is_member"] if found["has_role"] else found["may_make_roles"]):
        if not found["has_role"]:
            lacking.append(f"create role {ROLE} nologin noinherit")
        lacking.append(f"grant {ROLE} to {found['me']}")
        who.append("may make roles")
    if lacking:
        grants = "".join(f"\n    {statement};" for statement in lacking)
        raise ConfigurationError(
            "the user of that URL has not enough rights: run as somebody who "
            f"{' and '.join(who)}{grants}"
        )


def _pool(free: int, processes: int) -> int:
    """As large as usual if there is room for that."""
    most = (free - _RIG) // processes - _BESIDE
    if most < _POOL_LEAST:
        wanted = processes * (_POOL_LEAST + _BESIDE) + _RIG
        raise ConfigurationError(
            f"that server has {free} connections left for that user in that database, and a run "
            f"wants {wanted} at least: set max_connections higher, or the connection limit of the "
            "one or the other, or take fewer with --nodes, --workers and --apis"
        )
    return min(_POOL_MOST, most)


async def _leave(url: str, *, with_role: bool) -> list[str]:
    """Never an error of its own: a verdict is worth more. What is left is told."""
    statements = [*DROP, *([f"drop role if exists {ROLE}"] if with_role else [])]
    left = []
    for nth, statement in enumerate(statements, 1):
        try:
            await _execute(url, statement)
        except asyncpg.DependentObjectsStillExistError:
            pass  # a run in another database of that server uses the role
        except (SextonError, *AWAY) as error:
            left.append(f"{statement};  -- {say(error)}")
            if isinstance(error, Unavailable):  # and would be for the others, one after the other
                left += [f"{each};" for each in statements[nth:]]
                break
    return left


async def _execute(url: str, statement: str) -> None:
    connection = await connect(Address(plain(url), patience=_PATIENCE), engine=False)
    try:
        await connection.execute(statement, timeout=2 * _PATIENCE)
    finally:
        connection.terminate()
