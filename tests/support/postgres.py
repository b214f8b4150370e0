"""A PostgreSQL for tests: quick, private, and stoppable in every way."""

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self
from urllib.parse import quote

import asyncpg

from sexton.embedded import EmbeddedServer
from sexton.store.connection import Address
from sexton.store.migrations import migrate

DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")
TEMPLATE = "sexton_template"
# Tests stop processes, not machines: what was written survives without being flushed.
QUICK = {"fsync": "off", "max_connections": "300", "autovacuum_naptime": "5s"}


class Postgres:
    """One embedded server with a migrated template database."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.server = server

    @classmethod
    @contextlib.contextmanager
    def running(cls, version: int | None = None) -> Iterator[Self]:
        memory = Path("/dev/shm")
        roomy = memory.is_dir() and shutil.disk_usage(memory).free > 2**30
        folder = Path(tempfile.mkdtemp(prefix="sextest-", dir=memory if roomy else None))
        folder.chmod(0o755)
        wanted = int(os.environ.get("TEST_POSTGRES", "18")) if version is None else version
        try:
            server = EmbeddedServer.open(
                folder / "sexton",
                settings=QUICK,
                version=None if wanted == 15 else wanted,
                bin_dir=DEBIAN_15 if wanted == 15 else None,
            )
            try:
                postgres = cls(server)
                asyncio.run(postgres._make_template())
                yield postgres
            finally:
                server.close()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def url(self, database: str) -> str:
        socket_folder = self.server.url.partition("host=")[2]
        return f"postgresql://postgres@/{database}?host={quote(socket_folder, safe='%/')}"

    @property
    def socket(self) -> Path:
        """The Unix socket, for proxies."""
        return Path(self.server.url.partition("host=")[2]) / ".s.PGSQL.5432"

    async def _make_template(self) -> None:
        await self._admin(f"create database {TEMPLATE}")
        await migrate(Address(self.url(TEMPLATE)), "sexton")

    def create_database(self, name: str, template: str = TEMPLATE) -> str:
        asyncio.run(self._admin(f"create database {name} template {template} strategy file_copy"))
        return self.url(name)

    def drop_database(self, name: str) -> None:
        asyncio.run(self._admin(f"drop database if exists {name} with (force)"))

    async def _admin(self, statement: str) -> None:
        connection = await asyncpg.connect(self.url("postgres"))
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    def stop(self, mode: str = "fast") -> None:
        """Stop it under everyone; `immediate` is a crash without a shutdown checkpoint."""
        self.server.run("pg_ctl", "stop", "-w", "-m", mode, "-D", str(self.server.data_dir))

    def start(self) -> None:
        log = str(self.server.data_dir / "restart.log")
        data = str(self.server.data_dir)
        self.server.run("pg_ctl", "start", "-w", "-t", "60", "-D", data, "-l", log)

    def recover(self) -> None:
        """Bring a crashed server back the way the product does: by opening its folder again."""
        EmbeddedServer.open(self.server.folder, bin_dir=self.server.bin_dir).close()

    def kill_postmaster(self) -> None:
        """The postmaster dies without a word; its children notice and follow."""
        assert self.server.pid is not None
        os.kill(self.server.pid, signal.SIGKILL)
