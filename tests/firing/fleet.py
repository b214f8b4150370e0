"""Node processes on one database, and the proof that they fired everything once."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from ..support.logs import log_file
from ..support.processes import ROOT
from . import schedules

# Who owned what, and who led, from when on: written by whoever changes it, after it got its locks.
WATCH = """
create table owned (
    n bigserial primary key, node_id integer, partitions smallint[],
    at timestamptz default clock_timestamp()
);
create table led (
    n bigserial primary key, node_id integer, term bigint, at timestamptz default clock_timestamp()
);
create function watch_owned() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' then
        insert into owned (node_id, partitions) values (old.node_id, '{}');
    else
        insert into owned (node_id, partitions) values (new.node_id, new.partitions);
    end if;
    return null;
end $$;
create trigger watch after insert or update or delete on sexton.ownership
    for each row execute function watch_owned();
create function watch_led() returns trigger language plpgsql as $$
begin
    insert into led (node_id, term) values (new.node_id, new.term);
    return null;
end $$;
create trigger watch after update on sexton.leader for each row execute function watch_led();
"""
# Fires by whoever did not own their partition then, or did not lead.
USURPED = """
select fire.schedule_id, fire.fire_at, fire.node_id, fire.kind
from sexton.fire
join sexton.due on due.schedule_id = fire.schedule_id
where not coalesce(
    case when fire.kind = 'due' then (
        select due.partition = any (owned.partitions) from owned
        where owned.node_id = fire.node_id and owned.at <= fire.decided_at
        order by owned.n desc limit 1)
    else (
        select led.node_id = fire.node_id and led.term = fire.term from led
        where led.at <= fire.decided_at
        order by led.n desc limit 1)
    end, false)
"""
BY_SCHEDULE = """
select fire.schedule_id, min(fire.fire_at) as first, max(fire.fire_at) as last, count(*) as fires,
    count(*) filter (where fire.decision = 'fired') as fired,
    count(distinct job.id) filter (
        where job.schedule_id = fire.schedule_id and job.fire_at = fire.fire_at) as jobs,
    count(*) filter (where fire.decided_at < fire.fire_at or job.created_at < fire.fire_at) as early
from sexton.fire
left join sexton.job on job.id = fire.job_id
group by 1
"""
SECOND = timedelta(seconds=1)


class NodeProcess:
    """`tests/firing/node.py`, with what it said."""

    def __init__(self, url: str, lease: float, **wrong: object) -> None:
        environ = {
            **os.environ,
            "SEXTON_DATABASE_URL": url,
            "SEXTON_NODE_LEASE": str(lease),
            "SEXTON_PATIENCE": "2",
            "PYTHONPATH": str(ROOT),
            **{f"NODE_{name.upper()}": str(value) for name, value in wrong.items()},
        }
        self.log = log_file()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.firing.node"],
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
    """Nodes that fire schedules every second, and questions to their database."""

    def __init__(self, url: str, connection: asyncpg.Connection) -> None:
        self.url = url
        self.connection = connection
        self.all: list[NodeProcess] = []
        self.others: list[asyncpg.Connection] = []
        self.ids: list[int] = []
        self.first: datetime | None = None

    def start(self, url: str | None = None, lease: float = 1.5, **wrong: object) -> NodeProcess:
        node = NodeProcess(url or self.url, lease, **wrong)
        self.all.append(node)
        return node

    async def schedule(self, count: int) -> None:
        """So many schedules, each to be fired at every second from the next but one on."""
        now = await self.value("select date_trunc('second', clock_timestamp())")
        self.first = now + 2 * SECOND
        self.ids = await schedules.add(
            self.connection,
            self.first,
            count=count,
            policy={"misfire": "all", "overlap": "allow"},
        )

    async def another(self) -> asyncpg.Connection:
        """A connection to hold something with."""
        connection = await asyncpg.connect(self.url)
        self.others.append(connection)
        return connection

    async def reconnect(self, url: str | None = None) -> None:
        """After PostgreSQL was restarted, or is another one."""
        self.url = url or self.url
        self.connection.terminate()
        self.connection = await asyncpg.connect(self.url)

    # ── looking ─────────────────────────────────────────────────────────────

    async def value(self, query: str, *args: object) -> Any:
        return await self.connection.fetchval(query, *args)

    async def so(self, query: str, *args: object, within: float = 60.0) -> None:
        """Until the database says that it is so."""
        deadline = time.monotonic() + within
        while not await self.value(query, *args):
            if time.monotonic() > deadline:
                pytest.fail(f"not so within {within:g} s: {query}\n{self.outputs()}")
            await asyncio.sleep(0.02)

    async def said(self, node: NodeProcess, words: str, within: float = 60.0) -> None:
        deadline = time.monotonic() + within
        while words not in node.output():
            if time.monotonic() > deadline:
                pytest.fail(f"{words!r} not said within {within:g} s\n{self.outputs()}")
            await asyncio.sleep(0.02)

    def outputs(self) -> str:
        return "\n--\n".join(each.output() for each in self.all)

    async def shared_by(self, *nodes: NodeProcess) -> None:
        """Until these have a part of everything each, and nobody else has."""
        await self.so(
            """
            select count(*) = cardinality($1::integer[]) and bool_and(n.pid = any ($1))
                and sum(cardinality(o.partitions)) = 256 and min(cardinality(o.partitions)) > 0
            from sexton.ownership as o
            join sexton.node as n on n.id = o.node_id and n.gone_at is null
            """,
            [each.pid for each in nodes],
        )

    async def go_on(self, seconds: int = 1) -> None:
        """Until every schedule has been fired for some seconds that are still to come now."""
        until = await self.value(
            "select greatest(clock_timestamp(), $1) + $2 * interval '1 second'",
            *(self.first, seconds),
        )
        await self.so(
            "select count(*) = cardinality($1::bigint[]) from sexton.due "
            "where schedule_id = any ($1) and next_fire_at > $2",
            *(self.ids, until),
        )

    async def leader(self) -> NodeProcess:
        """Whoever leads, once somebody does."""
        query = """
            select node.pid from sexton.leader join sexton.node on node.id = leader.node_id
            where least(leader.lease_until, node.lease_until) > clock_timestamp()
                and node.gone_at is null
        """
        while (pid := await self.value(query)) is None:
            await asyncio.sleep(0.02)
        return next(each for each in self.all if each.pid == pid)

    async def node_of(self, process: NodeProcess) -> int:
        id: int = await self.value(
            "select id from sexton.node where pid = $1 order by id desc limit 1", process.pid
        )
        return id

    async def replicated(self) -> None:
        """Until a standby has everything that is committed now."""
        here = await self.value("select pg_current_wal_lsn()::text")
        await self.so(
            "select count(*) = 1 from pg_stat_replication where replay_lsn >= $1::text::pg_lsn",
            here,
        )

    # ── the proof ───────────────────────────────────────────────────────────

    async def prove(self) -> None:
        """Each second of each schedule: one decision, one job, not early, by its owner."""
        assert self.first is not None
        async with self.connection.transaction(isolation="repeatable_read", readonly=True):
            rows = await self.connection.fetch(BY_SCHEDULE)
            usurped = await self.connection.fetch(USURPED)
            gaps = await self.value("select count(*) from sexton.gap")
            jobs = await self.value("select count(*) from sexton.job")
            twice = await self.connection.fetch(
                "select schedule_id, fire_at from sexton.job group by 1, 2 having count(*) > 1"
            )
        assert {row["schedule_id"] for row in rows} == {*self.ids}
        for row in rows:
            seconds = round((row["last"] - row["first"]) / SECOND) + 1
            assert row["first"] == self.first
            assert row["fires"] == row["fired"] == row["jobs"] == seconds, dict(row)
            assert row["early"] == 0
        assert jobs == sum(row["fires"] for row in rows), "no job without its fire"
        assert not twice
        assert not gaps
        assert not usurped


@contextlib.asynccontextmanager
async def fleet(url: str) -> AsyncIterator[Fleet]:
    connection = await asyncpg.connect(url)
    await connection.execute(WATCH)
    nodes = Fleet(url, connection)
    try:
        yield nodes
    finally:
        for each in nodes.all:
            with contextlib.suppress(ProcessLookupError):
                each.signal(signal.SIGCONT)
            each.reap()
        for connection in (nodes.connection, *nodes.others):
            connection.terminate()
