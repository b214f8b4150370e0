"""A streaming standby of a test's server, and a way to PostgreSQL that can lead elsewhere."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self
from urllib.parse import quote

from ..support.postgres import Postgres
from ..support.proxy import Proxy


class Switch(Proxy):
    """Whoever comes in is led to the one that counts; who was connected to another is cut off."""

    def lead_to(self, target: Path) -> None:
        self._target = target
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await super()._serve(reader, writer)
        except OSError:  # nobody is there
            writer.transport.abort()


class Standby:
    """Follows a primary until it is promoted."""

    def __init__(self, primary: Postgres, folder: Path) -> None:
        self._primary = primary
        self._folder = folder
        self._data = folder / "data"
        self._owner = os.stat(primary.server.data_dir)

    @classmethod
    @contextlib.contextmanager
    def of(cls, primary: Postgres) -> Iterator[Self]:
        above = primary.server.folder.parent.parent
        folder = Path(tempfile.mkdtemp(prefix="sextest-", dir=above))
        try:
            standby = cls(primary, folder)
            standby._copy()
            standby._run("pg_ctl", "start", "-w", "-l", str(folder / "log"), "-o", standby._options)
            try:
                yield standby
            finally:
                standby._run("pg_ctl", "stop", "-m", "immediate")
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def socket(self) -> Path:
        return self._folder / ".s.PGSQL.5432"

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={quote(str(self._folder), safe='/')}"

    def fall_behind(self) -> None:
        """From here on it does not hear of what the primary commits."""
        with (self._data / "postgresql.auto.conf").open("a") as settings:
            settings.write("primary_conninfo = ''\n")
        self._run("pg_ctl", "reload")

    def promote(self) -> None:
        self._run("pg_ctl", "promote", "-w")

    @property
    def _options(self) -> str:
        return f"-c unix_socket_directories={self._folder} -c listen_addresses="

    def _copy(self) -> None:
        os.chown(self._folder, self._owner.st_uid, self._owner.st_gid)
        for each in self._primary.server.folder.glob("*.conf"):
            shutil.copy(each, self._folder)
            (self._folder / each.name).chmod(0o644)
        where = str(self._primary.socket.parent)
        self._run(
            "pg_basebackup", "-h", where, "-U", "postgres", "-R", "-c", "fast", "-X", "stream"
        )

    def _run(self, program: str, *args: str) -> None:
        """As the server's user, and without the locks by which the product knows its own."""
        done = subprocess.run(
            [str(self._primary.server.bin_dir / program), "-D", str(self._data), *args],
            user=self._owner.st_uid if os.geteuid() == 0 else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if program == "pg_basebackup" else subprocess.DEVNULL,
            check=False,
            cwd="/",
        )
        assert done.returncode == 0, (program, args, done.stderr)
