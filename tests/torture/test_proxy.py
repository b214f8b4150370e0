"""The proxy does to PostgreSQL's messages exactly what it was told, and nothing else."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from sexton.store.connection import is_lost
from sexton.torture.proxy import (
    Blackhole,
    HalfOpen,
    Latency,
    LoseReply,
    Proxies,
    ProxyError,
    Refuse,
    Trip,
)
from sexton.torture.proxy.wire import Framer
from sexton.torture.stand.ports import free_port

from ..support.postgres import Postgres

WITHIN = 10.0


class Way:
    """One open proxy to a database of the test's own, and a way around it."""

    def __init__(self, proxies: Proxies, port: int, database: str, direct: asyncpg.Connection):
        self.proxies = proxies
        self.port = port
        self.database = database
        self.direct = direct
        self._opened: list[asyncpg.Connection] = []

    async def connect(self) -> asyncpg.Connection:
        url = f"postgresql://postgres@127.0.0.1:{self.port}/{self.database}"
        connection = await asyncpg.connect(url, timeout=WITHIN)
        self._opened.append(connection)
        return connection

    async def sessions(self) -> int:
        """How many there are besides the direct one."""
        number: int = await self.direct.fetchval(
            "select count(*) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid() "
            "and backend_type = 'client backend'"
        )
        return number

    async def rows(self) -> int:
        number: int = await self.direct.fetchval("select count(*) from note")
        return number

    def close(self) -> None:
        for each in self._opened:
            each.terminate()


@asynccontextmanager
async def way(server: Postgres, url: str) -> AsyncIterator[Way]:
    database = url.partition("@/")[2].partition("?")[0]
    direct = await asyncpg.connect(url)
    await direct.execute("create table note (n int)")
    async with Proxies() as proxies:
        port = await proxies.open("one", (str(server.socket.parent), 5432))
        opened = Way(proxies, port, database, direct)
        try:
            yield opened
        finally:
            opened.close()
            await direct.close()


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + WITHIN
    while not await true():
        assert time.monotonic() < deadline, "not so in time"
        await asyncio.sleep(0.01)


async def is_ended(work: Awaitable[Any]) -> None:
    """It fails as something does whose connection is gone."""
    with pytest.raises(Exception) as caught:
        await asyncio.wait_for(work, WITHIN)
    assert is_lost(caught.value), repr(caught.value)
    assert not isinstance(caught.value, TimeoutError)


async def test_everything_passes_when_nothing_is_wrong(server: Postgres, database_url: str) -> None:
    async with way(server, database_url) as there:
        connection = await there.connect()
        big = "x" * 3_000_000
        assert await connection.fetchval("select $1::text", big) == big
        await connection.copy_records_to_table("note", records=[(n,) for n in range(50_000)])
        rows = await connection.fetch("select n from note order by n")
        assert [row["n"] for row in rows] == list(range(50_000))
        tally = await there.proxies.tally("one")
        assert tally.connections == tally.open == 1
        assert tally.backend > 50_000
        assert tally.bytes_up > 3_000_000
        assert tally.bytes_down > 3_000_000


async def test_encryption_is_refused_and_a_cancel_request_passes(
    server: Postgres, database_url: str
) -> None:
    async with way(server, database_url) as there:
        connection = await there.connect()  # asyncpg asks for TLS first
        with pytest.raises(TimeoutError):  # and cancels over a connection of its own
            await connection.execute("select pg_sleep(60)", timeout=0.1)
        assert await connection.fetchval("select 1") == 1
        assert (await there.proxies.tally("one")).connections == 2


@pytest.mark.parametrize("how", ["reset", "fin"])
async def test_a_cut_ends_both_sides(server: Postgres, database_url: str, how: Any) -> None:
    async with way(server, database_url) as there:
        first, second = await there.connect(), await there.connect()
        working = asyncio.create_task(first.execute("select pg_sleep(60)"))
        await until(lambda: _is(there.sessions, 2))
        assert await there.proxies.cut("one", how) == 2
        await is_ended(working)
        await is_ended(second.execute("select 1"))
        await there.direct.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where query like 'select pg_sleep%'"
        )
        await until(lambda: _is(there.sessions, 0))
        assert await (await there.connect()).fetchval("select 1") == 1


async def _is(ask: Callable[[], Awaitable[int]], wanted: int) -> bool:
    return await ask() == wanted


async def test_what_a_black_hole_held_arrives_when_it_is_lifted(
    server: Postgres, database_url: str
) -> None:
    async with way(server, database_url) as there:
        connection = await there.connect()
        await there.proxies.set("one", Blackhole())
        writing = asyncio.create_task(connection.execute("insert into note values (1)"))
        newcomer = asyncio.create_task(there.connect())
        done, _ = await asyncio.wait([writing, newcomer], timeout=0.2)
        assert not done
        assert await there.rows() == 0
        await there.proxies.set("one", None)
        await asyncio.wait_for(writing, WITHIN)
        assert await there.rows() == 1
        assert await (await newcomer).fetchval("select 2") == 2


async def test_a_client_that_gave_up_in_a_black_hole_is_still_heard_later(
    server: Postgres, database_url: str
) -> None:
    async with way(server, database_url) as there:
        connection = await there.connect()
        statement = await connection.prepare("insert into note values (1)")
        await there.proxies.set("one", Blackhole())
        writing = asyncio.create_task(statement.fetch())
        await until(lambda: _sent(there, 1))
        connection.terminate()
        await is_ended(writing)
        await there.proxies.set("one", None)
        await until(lambda: _is(there.rows, 1))
        await until(lambda: _is(there.sessions, 0))


async def _sent(there: Way, least: int) -> bool:
    before = (await there.proxies.tally("one")).bytes_up
    return before > least


async def test_a_black_hole_for_answers_lets_the_statement_through(
    server: Postgres, database_url: str
) -> None:
    async with way(server, database_url) as there:
        connection = await there.connect()
        statement = await connection.prepare("insert into note values (1)")
        await there.proxies.set("one", Blackhole(up=False))
        writing = asyncio.create_task(statement.fetch())
        await until(lambda: _is(there.rows, 1))
        assert not writing.done()
        await there.proxies.set("one", None)
        await asyncio.wait_for(writing, WITHIN)


async def test_refused_means_new_connections_only(server: Postgres, database_url: str) -> None:
    async with way(server, database_url) as there:
        connection = await there.connect()
        await there.proxies.set("one", Refuse())
        await is_ended(there.connect())
        assert await connection.fetchval("select 1") == 1
        await there.proxies.set("one", None)
        await there.connect()


async def test_a_half_open_connection_looks_alive(server: Postgres, database_url: str) -> None:
    async with way(server, database_url) as there:
        connection = await there.connect()
        await there.proxies.set("one", HalfOpen())
        await there.direct.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )
        await until(lambda: _is(there.sessions, 0))
        asking = asyncio.create_task(connection.fetchval("select 1"))
        done, _ = await asyncio.wait([asking], timeout=0.2)
        # The server's farewell may have come before it went; that it went is not told.
        assert not done or not connection.is_closed() or is_lost(asking.exception() or OSError())
        await there.proxies.cut("one")
        await asyncio.wait([asking], timeout=WITHIN)
        assert asking.done()


async def test_a_server_that_vanished_without_a_word_is_not_told_of(
    server: Postgres, database_url: str
) -> None:
    async with way(server, database_url) as there:
        connection = await there.connect()
        await there.proxies.set("one", HalfOpen())
        await there.proxies.cut("one", side="server")
        await until(lambda: _is(there.sessions, 0))
        asking = asyncio.create_task(connection.fetchval("select 1"))
        done, _ = await asyncio.wait([asking], timeout=0.2)
        assert not done
        await there.proxies.set("one", None)
        other = await there.connect()
        assert await other.fetchval("select 1") == 1
        assert not asking.done(), "whoever waits there has to give up by itself"
        await there.proxies.cut("one")
        await is_ended(asking)


async def asked(connection: asyncpg.Connection) -> float:
    """How long a question took."""
    began = time.monotonic()
    await connection.execute("select 1")
    return time.monotonic() - began


async def test_latency_is_added_and_keeps_the_order(server: Postgres, database_url: str) -> None:
    async with way(server, database_url) as there:
        connection = await there.connect()
        await there.proxies.set("one", Latency(100, 50))
        assert await asked(connection) >= 0.2
        rows = await connection.fetch("select n from generate_series(1, 20000) as n")
        assert [row["n"] for row in rows] == list(range(1, 20001))
        await there.proxies.set("one", None)
        assert min([await asked(connection) for _ in range(5)]) < 0.2


async def test_a_reply_is_lost_only_after_the_commit(server: Postgres, database_url: str) -> None:
    async with way(server, database_url) as there:
        connection = await there.connect()
        await there.proxies.set("one", LoseReply())
        await connection.execute("begin")
        await connection.execute("insert into note values (1)")
        await is_ended(connection.execute("commit"))
        assert await there.rows() == 1
        newcomer = await there.connect()  # start-up is spared
        await is_ended(newcomer.execute("insert into note values (2)"))
        assert await there.rows() == 2


async def test_retargeted_connections_go_elsewhere_and_the_others_stay(
    server: Postgres, database_url: str
) -> None:
    async with way(server, database_url) as there:
        connection = await there.connect()
        await there.proxies.retarget(("127.0.0.1", 1))  # nobody is there
        await is_ended(there.connect())
        assert await connection.fetchval("select 1") == 1
        await there.proxies.retarget((str(server.socket.parent), 5432), ["one"])
        await there.connect()


# ── trips ───────────────────────────────────────────────────────────────────


async def messages(there: Way, connection: asyncpg.Connection, statement: str) -> list[str]:
    await there.proxies.arm("one", Trip(0, "count", log=True))
    await connection.execute(statement)
    return [line.split(maxsplit=1)[1] for line in (await there.proxies.tally("one")).log]


async def test_messages_are_counted_in_both_directions(server: Postgres, database_url: str) -> None:
    async with way(server, database_url) as there:
        connection = await there.connect()
        assert await messages(there, connection, "insert into note values (1)") == [
            "→ Query insert into note values (1)",
            "← CommandComplete INSERT 0 1 (insert into note values (1))",
            "← ReadyForQuery I (insert into note values (1))",
        ]
        tally = await there.proxies.tally("one")
        assert (tally.frontend, tally.backend, tally.matched) == (1, 2, 3)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("do", ["reset", "fin"])
async def test_a_connection_is_cut_at_exactly_that_message(
    server: Postgres, database_url: str, do: Any, at: int, when: Any
) -> None:
    async with way(server, database_url) as there:
        connection = await there.connect()
        await there.proxies.arm("one", Trip(at, do, when=when))
        writing = connection.execute("insert into note values (1)")
        if (at, when) == (3, "after"):
            await asyncio.wait_for(writing, WITHIN)
            await is_ended(connection.execute("select 1"))
        else:
            await is_ended(writing)
        tripped = await there.proxies.tripped("one", WITHIN)
        assert tripped.type == "QCZ"[at - 1]
        await until(lambda: _is(there.sessions, 0))
        assert await there.rows() == (0 if (at, when) == (1, "before") else 1)


@pytest.mark.parametrize("at", [1, 2, 3])
async def test_whichever_message_it_is_the_commit_is_applied_and_the_reply_is_lost(
    server: Postgres, database_url: str, at: int
) -> None:
    async with way(server, database_url) as there:
        connection = await there.connect()
        await there.proxies.arm("one", Trip(at, "lose_reply"))
        await is_ended(connection.execute("insert into note values (1)"))
        assert await there.rows() == 1
        await there.connect()


async def test_at_a_hold_everything_stands_still_until_it_is_released(
    server: Postgres, database_url: str
) -> None:
    async with way(server, database_url) as there:
        first, second = await there.connect(), await there.connect()
        await there.proxies.arm("one", Trip(1, "hold", types="Q"))
        writing = asyncio.create_task(first.execute("insert into note values (1)"))
        assert (await there.proxies.tripped("one", WITHIN)).text.endswith("note values (1)")
        other = asyncio.create_task(second.execute("select 1"))
        newcomer = asyncio.create_task(there.connect())
        done, _ = await asyncio.wait([writing, other, newcomer], timeout=0.2)
        assert not done
        await there.proxies.release("one")
        await asyncio.wait_for(asyncio.gather(writing, other, newcomer), WITHIN)
        assert await there.rows() == 1


async def test_what_is_held_is_forgotten_with_its_client(
    server: Postgres, database_url: str
) -> None:
    async with way(server, database_url) as there:
        connection = await there.connect()
        await there.proxies.arm("one", Trip(1, "hold", types="Q"))
        writing = asyncio.create_task(connection.execute("insert into note values (1)"))
        await there.proxies.tripped("one", WITHIN)
        connection.terminate()
        await is_ended(writing)
        await until(lambda: _is(there.sessions, 0))
        await there.proxies.release("one")
        assert await there.rows() == 0
        await there.connect()


@pytest.mark.parametrize("scope", ["link", "all"])
async def test_a_black_hole_begins_at_a_message(
    server: Postgres, database_url: str, scope: Any
) -> None:
    async with way(server, database_url) as there:
        first, second = await there.connect(), await there.connect()
        await there.proxies.arm("one", Trip(2, "blackhole", scope=scope))
        writing = asyncio.create_task(first.execute("insert into note values (1)"))
        await there.proxies.tripped("one", WITHIN)
        assert await there.rows() == 1
        other = asyncio.create_task(second.execute("select 1"))
        done, _ = await asyncio.wait([writing, other], timeout=0.2)
        assert done == (set() if scope == "all" else {other})
        await there.proxies.set("one", None)
        await asyncio.wait_for(asyncio.gather(writing, other), WITHIN)


@pytest.mark.parametrize("between", [0, 3])
async def test_a_message_is_cut_by_its_place_whatever_comes_before_it(
    server: Postgres, database_url: str, between: int
) -> None:
    async with way(server, database_url) as there:
        connection = await there.connect()
        statement = await connection.prepare("insert into note select generate_series(1, $1)")
        place = "insert into note select/Bind 2/CommandComplete"
        trip = Trip(0, "reset", about=("insert into note",), place=place)
        await there.proxies.arm("one", trip)
        assert await statement.fetch(2) == []
        for number in range(between):
            await connection.execute(f"select {number}")
        assert not there.proxies.has_tripped("one")
        await is_ended(statement.fetch(3))
        tripped = there.proxies.has_tripped("one")
        assert tripped is not None
        assert tripped.text.startswith("CommandComplete INSERT 0 3")


async def test_a_trip_counts_only_what_it_is_about(server: Postgres, database_url: str) -> None:
    async with way(server, database_url) as there:
        first, second = await there.connect(), await there.connect()
        statement = await second.prepare("insert into note values ($1)")
        trip = Trip(0, "count", about=("insert into note",), log=True)
        await there.proxies.arm("one", trip)
        await first.execute("select 1")
        await second.execute("select 2")
        await statement.fetch(1)
        await second.execute("select 3")
        await first.execute("select 4")
        log = (await there.proxies.tally("one")).log
        assert log[0] == "* 2 → Bind insert into note values ($1)"
        assert all(line[2] == "2" for line in log)
        [bind, *_, begins, described, row, _, _] = (await there.proxies.tally("one")).places
        assert bind == "insert into note values ($1)/Bind 1/Bind"
        assert (begins, described) == ("select 3/Query 1/Query", "select 3/Query 1/RowDescription")
        assert row == "select 3/Query 1/DataRow"
        assert [line for line in log if not line.startswith("*")] == [
            "  2 → Query select 3",
            "  2 ← RowDescription (select 3)",
            "  2 ← DataRow (select 3)",
            "  2 ← CommandComplete SELECT 1 (select 3)",
            "  2 ← ReadyForQuery I (select 3)",
        ]


async def test_start_up_can_be_counted_or_left_out(server: Postgres, database_url: str) -> None:
    async with way(server, database_url) as there:
        await there.proxies.arm("one", Trip(1, "reset"))
        await is_ended(there.connect())
        assert (await there.proxies.tripped("one", WITHIN)).type == "!"
        await there.proxies.arm("one", Trip(1, "reset", ready=True))
        connection = await there.connect()
        await is_ended(connection.execute("select 1"))


async def test_mistakes_of_the_caller_are_told(server: Postgres, database_url: str) -> None:
    async with way(server, database_url) as there:
        with pytest.raises(ProxyError, match="other"):
            await there.proxies.tally("other")
        with pytest.raises(ProxyError, match="open already"):
            await there.proxies.open("one", ("127.0.0.1", 1))
        with pytest.raises(TimeoutError):
            await there.proxies.arm("one", Trip(1, "reset"))
            await there.proxies.tripped("one", 0.05)
        assert there.proxies.has_tripped("one") is None


async def test_bytes_of_any_protocol_pass_raw() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1024):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, Proxies() as proxies:
        port = await proxies.open("http", server.sockets[0].getsockname()[:2], raw=True)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n")
        assert await asyncio.wait_for(reader.read(100), WITHIN) == b"GET / HTTP/1.1\r\n"
        await proxies.cut("http")
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(100), WITHIN)
        writer.close()


async def test_a_promotion_moves_the_ways_to_postgresql_and_no_others(
    server: Postgres, database_url: str
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(100))
        writer.close()

    echoes = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with way(server, database_url) as there, echoes:
        to = echoes.sockets[0].getsockname()[:2]
        port = await there.proxies.open("http", to, raw=True)
        await there.proxies.retarget(("127.0.0.1", free_port()))
        await is_ended(there.connect())
        await there.proxies.retarget((str(server.socket.parent), 5432))
        await there.connect()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello")
        assert await asyncio.wait_for(reader.read(100), WITHIN) == b"hello"
        writer.close()


async def test_whoever_asks_when_no_answer_is_read_any_more_does_not_wait_for_it() -> None:
    """As when a sweep is interrupted, which cancels everything at once: it did not end."""
    async with Proxies() as proxies:
        asking = asyncio.create_task(proxies.open("one", ("127.0.0.1", 1)))
        await asyncio.sleep(0)
        assert proxies._reading is not None
        proxies._reading.cancel()
        for each in (asking, proxies.close("one")):
            with pytest.raises(ProxyError, match="has ended"):
                await asyncio.wait_for(each, 30)


async def test_the_proxies_end_with_whoever_started_them() -> None:
    async with Proxies() as proxies:
        assert proxies.pid
    with pytest.raises(ProxyError):
        await proxies.tally("one")


def test_messages_in_pieces_are_passed_on_whole() -> None:
    stream = b"".join(
        letter.encode() + (4 + len(body)).to_bytes(4, "big") + body
        for letter, body in [("Q", b"select 1\0"), ("S", b""), ("d", b"x" * 300), ("X", b"")]
    )
    for size in (1, 2, 3, 7, 64, 1000):
        framer = Framer(opening=False)
        pieces = [framer.feed(stream[at : at + size]) for at in range(0, len(stream), size)]
        assert b"".join(pieces) == stream
        assert framer.count == 4
        for piece in pieces:
            assert b"".join(message for _, message in framer.split(piece)) == piece
