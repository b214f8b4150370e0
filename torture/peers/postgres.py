"""A PostgreSQL 18 from the wheel that is stopped, crashed and killed under everybody."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType

import asyncpg
from bench.server import ServerFailed, binaries, free_port, unprivileged_user

from sexton.torture.stand.scratch import scratch

# Processes are killed here, never the machine: what was written survives without being flushed.
SETTINGS = {
    "fsync": "off",
    "max_connections": "200",
    "listen_addresses": "127.0.0.1",
    "log_min_messages": "warning",
}
SIGNALS = {
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
    "postmaster": signal.SIGKILL,
}
LONGEST = 60.0  # seconds to come up, recovery included
_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """For `preexec_fn`: whatever becomes of the rig, its processes go with it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Postgres:
    """Starts on entry; on exit it is stopped and its folder removed."""

    def __init__(self) -> None:
        self._parts = contextlib.ExitStack()
        self.folder = self._parts.enter_context(scratch())
        self.port = free_port()
        self.user = unprivileged_user()
        self.process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    async def __aenter__(self) -> Postgres:
        try:
            self._make()
            await self.start()
        except BaseException:
            await self.remove()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.remove()

    def _make(self) -> None:
        if self.user is not None:
            shutil.chown(self.folder, self.user)
        kind = ("--encoding=UTF8", "--locale=C", "--auth=trust", "--username=postgres")
        program = (str(binaries() / "initdb"), "-D", str(self.folder / "data"), "--no-sync", *kind)
        done = subprocess.run(
            program, capture_output=True, text=True, user=self.user, cwd=self.folder
        )
        if done.returncode != 0:
            raise ServerFailed(f"initdb failed: {done.stderr.strip()}")

    async def start(self) -> None:
        """Until it takes connections; children of a killed postmaster may be in the way."""
        deadline = time.monotonic() + LONGEST
        while time.monotonic() < deadline:
            if self.process is None or self.process.returncode is not None:
                self.process = await self._spawn()
            with contextlib.suppress(OSError, asyncpg.PostgresError, TimeoutError):
                connection = await asyncpg.connect(self.url, timeout=2)
                await connection.close()
                return
            await asyncio.sleep(0.05)
        raise ServerFailed(f"PostgreSQL is not up: {self._log.read_text()[-2000:]}")

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    async def _spawn(self) -> asyncio.subprocess.Process:
        options = {
            **SETTINGS,
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
        }
        flags = [part for key, value in options.items() for part in ("-c", f"{key}={value}")]
        with self._log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                str(binaries() / "postgres"),
                *("-D", str(self.folder / "data"), *flags),
                stdout=log,
                stderr=log,
                user=self.user,
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    async def down(self, how: str) -> None:
        """Stop it `fast` or `immediate`, or kill its `postmaster`."""
        assert self.process is not None
        self.process.send_signal(SIGNALS[how])
        await self.process.wait()

    async def remove(self) -> None:
        if self.process is not None and self.process.returncode is None:
            await self.down("immediate")
        self._parts.close()
