"""Where the contenders meet: a pristine database for each run, and what the server can tell."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from bench.contenders import Contender
from bench.driver import ContenderFailed, Process
from bench.server import Server


def with_database(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


class Arena:
    def __init__(self, url: str, admin: asyncpg.Connection, server: Server | None) -> None:
        self.url = url
        self.admin = admin
        self.server = server  # ours, if it is
        self.prepared: set[str] = set()

    @classmethod
    @asynccontextmanager
    async def opened(cls, url: str, server: Server | None) -> AsyncIterator[Arena]:
        admin = await asyncpg.connect(url)
        arena = cls(url, admin, server)
        try:
            yield arena
        finally:
            for name in arena.prepared:
                for database in (f"bench_{name}", f"bench_{name}_template"):
                    await admin.execute(f'drop database if exists "{database}" with (force)')
            await admin.close()

    async def version(self) -> str:
        return str(await self.admin.fetchval("show server_version"))

    async def checkpoint(self) -> None:
        with suppress(asyncpg.InsufficientPrivilegeError):
            await self.admin.execute("checkpoint")

    async def wal_position(self) -> int:
        return int(await self.admin.fetchval("select pg_current_wal_flush_lsn()"))

    async def prepare(self, contender: Contender) -> None:
        """Install the contender's schema once, in a template that each run copies."""
        name = f"bench_{contender.name}_template"
        self.prepared.add(contender.name)
        await self.admin.execute(f'drop database if exists "{name}" with (force)')
        await self.admin.execute(f'create database "{name}"')
        process = await Process.start(contender, with_database(self.url, name))
        try:
            await process.ask("setup", timeout=60)
        finally:
            await process.stop()

    @asynccontextmanager
    async def stage(self, contender: Contender, beside: str = "") -> AsyncIterator[Stage]:
        """A fresh database for one run, or `beside` others of it; its processes end with it."""
        template = f"bench_{contender.name}_template"
        name = f"bench_{contender.name}{beside}"
        await self.admin.execute(f'drop database if exists "{name}" with (force)')
        await self.admin.execute(
            f'create database "{name}" template "{template}" strategy file_copy'
        )
        url = with_database(self.url, name)
        watcher = await asyncpg.connect(url)
        stage = Stage(self, contender, url, name, watcher)
        try:
            yield stage
        except BaseException:
            for process in stage.processes:
                await process.kill()
            raise
        else:
            for process in stage.processes:
                await process.stop()
        finally:
            watcher.terminate()
            if beside:
                await self.admin.execute(f'drop database if exists "{name}" with (force)')


class Stage:
    """One contender's run: its database, its processes and a connection that watches."""

    def __init__(
        self, arena: Arena, contender: Contender, url: str, name: str, watcher: asyncpg.Connection
    ) -> None:
        self.arena = arena
        self.contender = contender
        self.url = url
        self.name = name
        self.watcher = watcher
        self.expected = 0  # jobs that are meant to stay: due another day
        self.watched = 0  # statements of ours, which the server counts as commits of theirs
        self.processes: list[Process] = []

    async def process(self) -> Process:
        process = await Process.start(self.contender, self.url)
        self.processes.append(process)
        await process.ask("open", timeout=60)
        return process

    async def stop(self, process: Process) -> None:
        self.processes.remove(process)
        await process.stop()

    async def settle_down(self) -> None:
        """Vacuum and checkpoint now, so neither falls into what is measured next."""
        await self.watcher.execute("vacuum (analyze)")
        self.watched += 1
        await self.arena.checkpoint()

    async def remaining(self) -> int:
        self.watched += 1
        return int(await self.watcher.fetchval(self.contender.remaining))

    async def expect(self, count: int) -> None:
        """What was acknowledged must be there."""
        if (found := await self.remaining()) != count:
            raise ContenderFailed(f"{found} jobs in the database, {count} were enqueued")

    async def wait_until_settled(self, limit: float = 120) -> float:
        """The instant at which the database holds no unsettled job."""
        end = time.monotonic() + limit
        while await self.remaining() > self.expected:
            if time.monotonic() > end:
                raise TimeoutError(f"{await self.remaining()} jobs unsettled after {limit:.0f} s")
            await asyncio.sleep(0.002)
        return time.monotonic()

    async def commits(self) -> int:
        """Commits of the contender so far, once its sessions have ended and told the server."""
        admin = self.arena.admin
        for _ in range(200):
            others = await admin.fetchval(
                "select count(*) from pg_stat_activity"
                " where datname = $1 and pid <> $2 and backend_type = 'client backend'",
                self.name,
                self.watcher.get_server_pid(),
            )
            if not others:
                break
            await asyncio.sleep(0.05)
        self.watched += 1
        await self.watcher.execute("select pg_stat_force_next_flush()")
        await asyncio.sleep(0.2)
        told = await admin.fetchval(
            "select xact_commit from pg_stat_database where datname = $1", self.name
        )
        return int(told) - self.watched
