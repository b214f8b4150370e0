"""The pair: what is acknowledged survives everything that can happen to it."""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from sexton.torture.stand import NotInSync, Pair, Sessions
from sexton.torture.stand.errors import AWAY
from sexton.torture.stand.server import Way

from ..support.processes import until


@contextlib.asynccontextmanager
async def a_pair(**settings: str) -> AsyncIterator[Pair]:
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 2**30
    root = Path(tempfile.mkdtemp(prefix="sextest-", dir=memory if roomy else None))
    root.chmod(0o755)
    try:
        pair = await Pair.make(root, settings=settings)
        try:
            await pair.start()
            yield pair
        finally:
            await pair.stop()
    finally:
        shutil.rmtree(root)


class Writer:
    """Inserts numbers, and keeps those that were acknowledged."""

    def __init__(self, pair: Pair, name: str) -> None:
        self._pair = pair
        self._name = name
        self.acknowledged: list[int] = []
        self.task = asyncio.create_task(self.run())

    async def run(self) -> None:
        number = 0
        while True:
            with contextlib.suppress(*AWAY):
                connection = await asyncpg.connect(self._pair.url(), timeout=5)
                try:
                    while True:
                        number += 1
                        await connection.execute(
                            "insert into written values ($1, $2)", self._name, number, timeout=20
                        )
                        self.acknowledged.append(number)
                finally:
                    connection.terminate()
            await asyncio.sleep(0.01)

    async def goes_on(self) -> None:
        """Until something more was acknowledged."""
        before = len(self.acknowledged)
        await until(lambda: self.task.done() or len(self.acknowledged) > before + 10, 30)
        assert not self.task.done(), self.task.exception()


@contextlib.asynccontextmanager
async def writing(pair: Pair, writers: int = 3) -> AsyncIterator[list[Writer]]:
    """All along; and at the end nothing that was acknowledged is missing."""
    async with pair.primary.session("sexton") as session:
        await session.execute("create table written (who text, n integer, primary key (who, n))")
        await session.execute("alter table written owner to sexton")
    all = [Writer(pair, f"writer-{n}") for n in range(writers)]
    try:
        for each in all:
            await each.goes_on()
        yield all
        for each in all:
            await each.goes_on()
    finally:
        for each in all:
            each.task.cancel()
        await asyncio.gather(*(each.task for each in all), return_exceptions=True)
    async with pair.primary.session("sexton") as session:
        for each in all:
            found = await session.fetch("select n from written where who = $1", each._name)
            missing = set(each.acknowledged) - {row["n"] for row in found}
            assert not missing, f"{each._name}: {len(missing)} acknowledged commits are lost"


async def test_promotions_lose_no_acknowledged_commit() -> None:
    async with a_pair() as pair, writing(pair) as writers:
        before = pair.address
        first = pair.primary.name
        took = await pair.promote()
        assert pair.primary.name != first
        assert pair.address != before
        for each in writers:
            await each.goes_on()
        # What died follows now, and takes over again.
        await pair.synced()
        await pair.promote()
        assert pair.address == before
        await pair.synced()
        assert [event.detail["by"] for event in pair.events.of("in sync")] == [
            "pg_basebackup",
            "pg_rewind",
            "pg_rewind",
        ]
        assert took < 20
        promoted = pair.events.of("promoted")
        assert len(promoted) == 2
        assert all(event.detail["writes_after"] > 0 for event in promoted)


async def test_a_primary_that_is_restarted_or_killed_comes_back_with_everything() -> None:
    async with a_pair() as pair, writing(pair) as writers:
        ways: tuple[Way, ...] = ("fast", "immediate")
        for way in ways:
            before = pair.primary.pid
            await pair.restart(way)
            assert pair.primary.pid not in (None, before)
            await writers[0].goes_on()
        before = pair.primary.pid
        assert await pair.kill9(down_for=0.5) >= 0.5
        assert pair.primary.pid not in (None, before)
        assert [event.detail["by"] for event in pair.events.of("down")] == [
            "fast restart",
            "immediate restart",
            "kill9",
        ]
        assert pair.in_sync, "the standby follows by itself"


async def test_nobody_waits_for_a_standby_that_is_lost_and_it_is_not_promoted() -> None:
    async with a_pair() as pair, writing(pair) as writers:
        assert pair.standby.pid is not None
        os.kill(pair.standby.pid, signal.SIGKILL)
        await until(lambda: not pair.in_sync, 20)
        with pytest.raises(NotInSync):
            await pair.promote(within=0)
        await pair.synced()
        for each in writers:
            await each.goes_on()
        assert pair.standby.pid


async def test_connections_are_used_up_taken_away_and_held() -> None:
    async with a_pair(max_connections="40") as pair:
        sessions = Sessions(pair.url)
        engine = {"application_name": "sexton"}
        others = [await asyncpg.connect(pair.url(), server_settings=engine) for _ in range(8)]

        async with sessions.fill() as held:
            # Who was refused a moment ago may still be leaving its place.
            await until(lambda: len(held) == 40 - 10 - 8, 10)
            with pytest.raises(asyncpg.TooManyConnectionsError):
                await asyncpg.connect(pair.url())
            assert await others[0].fetchval("select 1") == 1, "who is in stays in"
            # What somebody gives up is taken too.
            await others.pop().close()
            await until(lambda: len(held) == 40 - 10 - 7, 10)
            async with pair.primary.session() as session:
                assert await session.fetchval("select 1") == 1, "the rig still gets in"
        await _let_go(pair, left=len(others))
        await (await asyncpg.connect(pair.url())).close()

        async with sessions.fill(leave=2):
            last = [await asyncpg.connect(pair.url()) for _ in range(2)]
            with pytest.raises(asyncpg.TooManyConnectionsError):
                await asyncpg.connect(pair.url())
            for each in last:
                await each.close()

        async with sessions.hold(), pair.primary.session() as session:
            assert await session.fetchval(HELD) == [True, True]
            stranger = await asyncpg.connect(pair.url())
            assert await sessions.terminate(1.0, seed=1) == len(others)
            await until(lambda: all(each.is_closed() for each in others), 10)
            assert await stranger.fetchval("select 1") == 1, "who is no part of the run is left"
            assert await session.fetchval(HELD) == [True, True], "the rig spares its own"
            await pair.restart("immediate")
            await _held_again(pair)


async def test_a_server_that_is_away_holds_up_nobody_who_was_to_hold_a_transaction() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        port = nobody.getsockname()[1]
        sessions = Sessions(lambda: f"postgresql://postgres@127.0.0.1:{port}/nobody")
        async with asyncio.timeout(30), sessions.hold(within=0.2):
            pass


HELD = """
select array[
    coalesce(bool_or(backend_xid is not null), false),
    coalesce(bool_or(backend_xid is null and backend_xmin is not null), false)]
from pg_stat_activity where state = 'idle in transaction' and application_name = 'torture'
"""


async def _held_again(pair: Pair) -> None:
    deadline = time.monotonic() + 60
    async with pair.primary.session() as session:
        while await session.fetchval(HELD) != [True, True]:
            assert time.monotonic() < deadline, "a transaction is not opened again"
            await asyncio.sleep(0.02)


async def _let_go(pair: Pair, left: int) -> None:
    """Backends take a moment to go after their clients."""
    deadline = time.monotonic() + 60
    clients = "select count(*) from pg_stat_activity where backend_type = 'client backend'"
    async with pair.primary.session() as session:
        while await session.fetchval(clients) > left + 1:
            assert time.monotonic() < deadline, "the connections were not let go"
            await asyncio.sleep(0.02)
