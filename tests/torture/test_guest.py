"""On somebody else's server: refused with what to do about it, or left as it was found."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from sexton.errors import ConfigurationError, Unavailable
from sexton.store.connection import Address
from sexton.store.migrations import migrate
from sexton.torture.guest import DROP, ROLE, SCHEMAS, SCRATCH, guest

from ..support.postgres import Postgres

PROCESSES = 9
OLGA = "torture_olga"


@asynccontextmanager
async def admin(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


def as_olga(url: str) -> str:
    """The same database, for a user with no rights but to log in."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{OLGA}@{host}"))


@asynccontextmanager
async def olga(url: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody who may make roles, while there is a user who may not."""
    async with admin(url) as connection:
        await connection.execute(f"create role {OLGA} login")
        try:
            yield connection
        finally:
            await connection.execute(f"drop owned by {OLGA}")
            await connection.execute(f"drop role {OLGA}")


async def left(url: str) -> tuple[list[str], bool]:
    async with admin(url) as connection:
        found = await connection.fetch(
            "select nspname from pg_namespace where nspname = any($1)", list(SCHEMAS)
        )
        role = await connection.fetchval("select count(*) from pg_roles where rolname = $1", ROLE)
        return [row["nspname"] for row in found], bool(role)


async def make_all(url: str) -> None:
    """As a run does."""
    await migrate(Address(url), SCRATCH)
    async with admin(url) as connection:
        await connection.execute("create schema torture create table torture.change ()")


async def test_a_database_with_something_in_it_is_refused_and_one_is_told_how_to_clear_it(
    database_url: str,
) -> None:
    async with admin(database_url) as connection:
        await connection.execute(f"create schema {SCRATCH}")
        with pytest.raises(ConfigurationError, match="give a scratch database") as refused:
            async with guest(database_url, PROCESSES):
                pass
        for statement in DROP:
            assert statement in str(refused.value)
            await connection.execute(statement)
    async with guest(database_url, PROCESSES):
        pass


async def test_whatever_a_run_has_made_is_gone_after_it_even_if_it_failed(
    database_url: str,
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with guest(database_url, PROCESSES) as there:
            await make_all(database_url)
            assert await left(database_url) == ([*SCHEMAS], True)
            raise ZeroDivisionError
    assert await left(database_url) == ([], False)
    assert there.left_behind == []


async def test_a_role_that_was_there_before_a_run_is_there_after_it(database_url: str) -> None:
    async with admin(database_url) as connection:
        await connection.execute(f"create role {ROLE} nologin noinherit")
        try:
            async with guest(database_url, PROCESSES):
                await make_all(database_url)
            assert await left(database_url) == ([], True)
        finally:
            await connection.execute(f"drop role {ROLE}")


async def test_what_is_left_on_a_server_that_went_away_is_told_at_once(
    own_server: Postgres,
) -> None:
    await asyncio.to_thread(own_server.create_database, "scratch")
    url = own_server.url("scratch")
    async with guest(url, PROCESSES) as there:
        await make_all(url)
        await asyncio.to_thread(own_server.stop, "immediate")
    first, *others = there.left_behind
    assert first.startswith(f"{DROP[0]};  -- Unavailable: cannot reach PostgreSQL")
    assert others == [f"{DROP[1]};", f"drop role if exists {ROLE};"]
    await asyncio.to_thread(own_server.start)
    async with admin(url) as connection:
        for statement in there.left_behind:
            await connection.execute(statement)
    assert await left(url) == ([], False)


async def test_what_could_not_be_taken_away_is_told_and_is_no_error(database_url: str) -> None:
    async with olga(database_url) as connection:
        await connection.execute(f"create role {ROLE} nologin noinherit")
        try:
            await connection.execute(f"grant {ROLE} to {OLGA}")
            database = await connection.fetchval("select quote_ident(current_database())")
            await connection.execute(f"grant create on database {database} to {OLGA}")
            async with guest(as_olga(database_url), PROCESSES) as there:
                await connection.execute("create schema torture")  # it is not hers
            assert [each.partition(";")[0] for each in there.left_behind] == [DROP[1]]
            await connection.execute(DROP[1])
        finally:
            await connection.execute(f"drop role {ROLE}")


async def test_a_user_without_rights_is_told_once_of_all_that_are_missing(
    database_url: str,
) -> None:
    async with olga(database_url) as connection:
        with pytest.raises(ConfigurationError, match="owns it and may make roles") as refused:
            async with guest(as_olga(database_url), PROCESSES):
                pass
        await connection.execute(str(refused.value).partition("\n")[2])
        try:
            async with guest(as_olga(database_url), PROCESSES):
                pass
        finally:
            await connection.execute(f"drop role {ROLE}")


async def test_a_user_who_may_not_assume_a_role_that_is_there_is_told_so(
    database_url: str,
) -> None:
    async with olga(database_url) as connection:
        await connection.execute(f"create role {ROLE} nologin noinherit")
        try:
            database = await connection.fetchval("select quote_ident(current_database())")
            await connection.execute(f"grant create on database {database} to {OLGA}")
            with pytest.raises(ConfigurationError, match="not enough rights") as refused:
                async with guest(as_olga(database_url), PROCESSES):
                    pass
            assert str(refused.value).splitlines()[1:] == [f"    grant {ROLE} to {OLGA};"]
        finally:
            await connection.execute(f"drop role {ROLE}")


@pytest.mark.parametrize("of", ["role", "database"])
async def test_a_user_who_may_have_too_few_connections_is_refused_before_the_run(
    database_url: str, of: str
) -> None:
    async with olga(database_url) as connection:
        await connection.execute(f"alter role {OLGA} createrole")
        database = await connection.fetchval("select quote_ident(current_database())")
        await connection.execute(f"grant create on database {database} to {OLGA}")
        whose = OLGA if of == "role" else database
        await connection.execute(f"alter {of} {whose} connection limit 10")
        with pytest.raises(ConfigurationError, match=r"has \d connections left for that user"):
            async with guest(as_olga(database_url), PROCESSES):
                pass
        await connection.execute(f"alter {of} {whose} connection limit 60")
        async with guest(as_olga(database_url), PROCESSES) as there:
            assert 2 <= int(there.env["SEXTON_POOL_SIZE"]) <= 10


async def test_the_next_run_need_not_wait_for_the_server_to_forget_the_one_before(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It notices that a session has ended when it comes to it: here, not at all."""
    lingering: list[asyncpg.Connection] = []
    monkeypatch.setattr(asyncpg.Connection, "terminate", lambda each: lingering.append(each))
    for _ in range(2):
        async with guest(database_url, PROCESSES):
            pass
    monkeypatch.undo()
    assert len(lingering) >= 2
    for connection in lingering:
        connection.terminate()


async def test_two_runs_in_one_database_do_not_meet(database_url: str) -> None:
    async with guest(database_url, PROCESSES):
        await make_all(database_url)
        with pytest.raises(ConfigurationError, match="there is a run in that database"):
            async with guest(database_url, PROCESSES):
                pass
        assert await left(database_url) == ([*SCHEMAS], True)


async def test_pools_are_as_large_as_the_server_has_room_for(database_url: str) -> None:
    sizes = {}
    for processes in (1, 20):
        async with guest(database_url, processes) as there:
            sizes[processes] = int(there.env["SEXTON_POOL_SIZE"])
    assert sizes[1] == 10
    assert 2 <= sizes[20] <= 10
    with pytest.raises(ConfigurationError, match="connections left"):
        async with guest(database_url, 10_000):
            pass


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("postgresql:///scratch", "a URL with a host"),
        ("mysql://there/scratch", "that is no PostgreSQL"),
        ("mysql:scratch", "that is no PostgreSQL"),
        ("scratch", "that is no PostgreSQL"),
        ("postgresql://one,two/scratch", "one host"),
        ("postgresql://there:port/scratch", "give a URL like"),
        ("postgresql://[::1/scratch", "give a URL like"),
        ("postgresql://there/scratch?sslmode=require", "no TLS"),
    ],
)
async def test_what_no_proxy_can_do_is_refused(url: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        async with guest(url, PROCESSES):
            pass


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    with pytest.raises(Unavailable, match="cannot reach"):
        async with guest(f"postgresql://me@127.0.0.1:{port}/scratch", PROCESSES):
            pass
