"""Nodes to play with: members in this process, and whole processes that can be killed."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

import asyncpg
import pytest

from sexton.cluster.member import Member, Owned
from sexton.domain.partition import EVERY
from sexton.store.connection import Address, is_lost

from ..support.logs import log_file
from ..support.processes import ROOT, until
from ..support.proxy import Proxy
from .node import TABLES


class Wall(Proxy):
    """A way to the server that can be blocked; what was sent meanwhile arrives after all."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    def block(self) -> None:
        self._flowing.clear()

    def unblock(self) -> None:
        self._flowing.set()


class Seat:
    """One member in this process, and all that it was told."""

    def __init__(self, address: Address, name: str, lease: float, **options: Any) -> None:
        self.told: list[Owned | None] = []
        self.gate: Callable[[], None] = lambda: None
        self.member = Member(
            address,
            "sexton",
            name=name,
            version="test",
            lease=lease,
            listen=options.get("listen", address),
            on_change=self.told.append,
            report=self._report,
        )

    def _report(self) -> tuple[int, None]:
        self.gate()
        return 7, None

    @property
    def size(self) -> int:
        owned = self.member.owned
        return 0 if owned is None else len(owned.partitions)


class Table:
    """The members of one test; they are stopped at its end."""

    def __init__(self, address: Address, lease: float) -> None:
        self.address = address
        self.lease = lease
        self.seats: list[Seat] = []

    def join(self, address: Address | None = None, **options: Any) -> Seat:
        lease = options.pop("lease", self.lease)
        seat = Seat(address or self.address, f"member:{len(self.seats)}", lease, **options)
        self.seats.append(seat)
        seat.member.start()
        return seat

    async def settled(self, *seats: Seat) -> None:
        """Until exactly these own everything, evenly, have heard of it, and one of them leads."""

        def heard() -> bool:
            return all(seat.told[-1:] == [seat.member.owned] for seat in seats)

        await until(lambda: self.is_settled(*seats) and heard(), 30)

    @staticmethod
    def is_settled(*seats: Seat) -> bool:
        owned = [seat.member.owned for seat in seats]
        partitions = [p for each in owned if each is not None for p in each.partitions]
        sizes = [seat.size for seat in seats]
        return (
            sorted(partitions) == list(EVERY)
            and max(sizes) - min(sizes) <= 1
            and sum(seat.member.leads for seat in seats) == 1
        )


@contextlib.asynccontextmanager
async def table(address: Address, lease: float = 3.0) -> AsyncIterator[Table]:
    members = Table(address, lease)
    try:
        yield members
    finally:
        await asyncio.gather(*(seat.member.stop() for seat in members.seats))


class NodeProcess:
    """`tests/cluster/node.py`, with what it said."""

    def __init__(self, url: str, **settings: object) -> None:
        environ = {
            **os.environ,
            "DATABASE_URL": url,
            "PYTHONPATH": str(ROOT),
            **{f"NODE_{name.upper()}": str(value) for name, value in settings.items()},
        }
        self.log = log_file()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.node"],
            env=environ,
            cwd=ROOT,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.pid = self.process.pid

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def output(self) -> str:
        self.log.flush()
        self.log.seek(0)
        return self.log.read()

    def reap(self) -> None:
        """End it whatever state it is in."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if not self.log.closed:
            self.log.close()


class Fleet:
    """Node processes on one database, and questions to it."""

    def __init__(self, url: str, connection: asyncpg.Connection) -> None:
        self.url = url
        self.connection = connection
        self.all: list[NodeProcess] = []

    def start(self, **settings: object) -> NodeProcess:
        node = NodeProcess(self.url, **settings)
        self.all.append(node)
        return node

    async def reconnect(self) -> None:
        """After PostgreSQL was restarted."""
        self.connection.terminate()
        self.connection = await asyncpg.connect(self.url)

    async def value(self, query: str, *args: object) -> Any:
        return await self.connection.fetchval(query, *args)

    async def so(self, query: str, *args: object, within: float = 40.0) -> None:
        """Until the database says that it is so."""
        deadline = time.monotonic() + within
        while not await self.value(query, *args):
            if time.monotonic() > deadline:
                outputs = "\n--\n".join(each.output() for each in self.all)
                pytest.fail(f"not so within {within:g} s: {query}\n{outputs}")
            await asyncio.sleep(0.02)

    async def evenly(self, nodes: int) -> None:
        """Until so many live nodes own everything and have each fired something of it."""
        await self.so(
            """
            select count(*) = $1 and sum(cardinality(o.partitions)) = 256
                and max(cardinality(o.partitions)) - min(cardinality(o.partitions)) <= 1
                and bool_and(exists (
                    select from ledger where ledger.node = o.node_id and ledger.epoch = o.epoch))
            from sexton.ownership as o
            join sexton.node as n on n.id = o.node_id and n.gone_at is null
            """,
            nodes,
        )

    async def leader(self) -> NodeProcess:
        pid = await self.value(
            "select pid from sexton.leader join sexton.node on node.id = leader.node_id "
            "where least(leader.lease_until, node.lease_until) > clock_timestamp()"
        )
        return next(each for each in self.all if each.pid == pid)

    async def node_of(self, process: NodeProcess) -> tuple[int, int]:
        """Its id and its epoch."""
        row = await self.connection.fetchrow(
            "select id, epoch from sexton.node join sexton.ownership on node_id = id "
            "where pid = $1 and gone_at is null",
            process.pid,
        )
        assert row is not None
        return row["id"], row["epoch"]

    async def violations(self) -> list[Any]:
        """Where the ledger shows two owners: an epoch with two nodes, or one that came back."""
        rows: list[Any] = await self.connection.fetch(
            """
            select * from (
                select partition, n, epoch, node,
                    lag(epoch) over next as epoch_before, lag(node) over next as node_before
                from ledger
                window next as (partition by partition order by n)
            ) as fire
            where epoch < epoch_before or (epoch = epoch_before and node <> node_before)
            """
        )
        return rows


@contextlib.asynccontextmanager
async def fleet(url: str) -> AsyncIterator[Fleet]:
    connection = await asyncpg.connect(url)
    await connection.execute(TABLES)
    nodes = Fleet(url, connection)
    try:
        yield nodes
    finally:
        for each in nodes.all:
            with contextlib.suppress(ProcessLookupError):
                each.signal(signal.SIGCONT)
            each.reap()
        nodes.connection.terminate()


async def was_ended(connection: asyncpg.Connection) -> bool:
    """Whether somebody has ended this session; it is closed in any case."""
    try:
        await connection.execute("select 1")
    except Exception as error:
        return is_lost(error)
    finally:
        connection.terminate()
    return False
