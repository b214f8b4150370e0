"""What all crash points share: one PostgreSQL with a template, the proxies, and the nursery."""

import asyncio
import contextlib
import itertools
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from urllib.parse import quote

import asyncpg

from sexton.embedded import EmbeddedServer
from sexton.store.connection import Address
from sexton.store.migrations import migrate
from sexton.torture.crash.nursery import Nursery
from sexton.torture.proxy import Proxies
from sexton.torture.stand.scratch import scratch

TEMPLATE = "crash_template"
# Processes are killed here, the machine is not: what was written survives without being flushed.
QUICK = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "400",
    "shared_buffers": "64MB",
    "autovacuum": "off",  # it would hold up the end of each point's database
}
ROOMY = 2**30


@dataclass(frozen=True)
class Site:
    """Where points are tried, several at once, each with a database and proxies of its own."""

    server: EmbeddedServer
    proxies: Proxies
    nursery: Nursery
    folder: Path
    pooler: bool  # processes speak as to a transaction pooler: more messages, in more transactions
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    @property
    def upstream(self) -> tuple[str, int]:
        return _socket_folder(self.server), 5432

    def url(self, database: str) -> str:
        return _url(self.server, database)

    async def make_database(self, name: str) -> None:
        await self._admin(f"create database {name} template {TEMPLATE} strategy file_copy")

    async def drop_database(self, name: str) -> None:
        await self._admin(f"drop database if exists {name} with (force)")

    async def _admin(self, statement: str) -> None:
        connection = await asyncpg.connect(self.url("postgres"))
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@contextlib.asynccontextmanager
async def site(*, pooler: bool = False) -> AsyncIterator[Site]:
    """Everything started; at the end everything ended and deleted."""
    with scratch(_memory()) as folder:
        server = await asyncio.to_thread(EmbeddedServer.open, folder / "postgres", settings=QUICK)
        try:
            await _make_template(server)
            async with Proxies() as proxies, Nursery() as nursery:
                yield Site(server, proxies, nursery, folder, pooler)
        finally:
            await asyncio.to_thread(server.close)


def _memory() -> Path | None:
    """Where there is room in memory, it is quicker."""
    memory = Path("/dev/shm")  # noqa: S108
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > ROOMY else None


async def _make_template(server: EmbeddedServer) -> None:
    connection = await asyncpg.connect(_url(server, "postgres"))
    await connection.execute(f"create database {TEMPLATE}")
    await connection.close()
    await migrate(Address(_url(server, TEMPLATE)), "sexton")
    connection = await asyncpg.connect(_url(server, TEMPLATE))
    watch = resources.files("sexton.torture.crash").joinpath("watch.sql")
    await connection.execute(watch.read_text(encoding="utf-8"))
    await connection.close()


def _socket_folder(server: EmbeddedServer) -> str:
    return server.url.partition("host=")[2]


def _url(server: EmbeddedServer, database: str) -> str:
    return f"postgresql://postgres@/{database}?host={quote(_socket_folder(server), safe='%/')}"
