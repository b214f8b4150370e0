"""One PostgreSQL data folder and its programs: make it, start it, wait for it."""

import fcntl
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from sexton.embedded import folder as layout
from sexton.embedded import guard
from sexton.embedded.account import Account
from sexton.errors import EmbeddedError

DATABASE = "sexton"
INIT_FOR = 600.0
READY_FOR = 300.0  # crash recovery of a gigabyte of WAL on a slow disk
LOG_BYTES = 8 * 2**20
SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "shared_buffers": "128MB",
    "max_connections": "200",
    "max_wal_size": "1GB",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "logging_collector": "off",
    "log_destination": "stderr",
    "cluster_name": "sexton",
}
FIXED = {"port", "unix_socket_directories", "data_directory", "config_file", "hba_file"}


@contextmanager
def lock_file(folder: Path, name: str) -> Iterator[int]:
    """A descriptor of one of the folder's locks, for a moment."""
    fd = guard.open_lock(str(folder), name)
    try:
        yield fd
    finally:
        os.close(fd)


def validated(settings: Mapping[str, str]) -> dict[str, str]:
    """Refuse at the door what would break the file or the promise of where the socket is."""
    for name, value in settings.items():
        if not re.fullmatch(r"[a-z_][a-z0-9_]*(\.[a-z0-9_]+)?", name) or "\n" in value:
            raise EmbeddedError(f"{name!r} = {value!r} is not a PostgreSQL setting")
        if name in FIXED:
            raise EmbeddedError(f"the setting {name!r} is Sexton's own: leave it out")
    return {**SETTINGS, **settings}


@dataclass(frozen=True)
class Cluster:
    """What is needed to run PostgreSQL's programs on one data folder."""

    folder: Path
    account: Account
    version: int
    bin_dir: Path
    settings: Mapping[str, str]

    @property
    def data_dir(self) -> Path:
        """Owned by the server's user, unlike the folder around it."""
        return self.folder / layout.DATA

    @property
    def pid(self) -> int:
        """The postmaster's, read afresh: the server may have been restarted."""
        pid, _, _ = guard.postmaster(str(self.data_dir))
        return pid

    @property
    def socket_dir(self) -> str:
        """Where the running server listens, in its own words."""
        _, listening, _ = guard.postmaster(str(self.data_dir))
        return listening

    def run(self, program: str, *args: str) -> subprocess.CompletedProcess[str]:
        """Output goes through a file: a server started this way would keep a pipe open for ever."""
        with (
            tempfile.TemporaryFile("w+") as output,
            self._server_lock() as server,
        ):
            done = self._spawn(program, *args, stdout=output, stderr=output, pass_fds=[server])
            output.seek(0)
            return subprocess.CompletedProcess(done.args, done.returncode, output.read(), "")

    def create(self, gate: int) -> None:
        """Made aside and renamed when complete, database included: half a cluster never counts."""
        new = self.folder / f"{layout.DATA}.new"
        shutil.rmtree(new, ignore_errors=True)
        layout.demand_room(self.folder)
        new.mkdir(mode=0o700)
        try:
            os.chown(new, self.account.uid, self.account.gid)
            self._init("initdb", "-D", str(new), "-U", "postgres", "-A", "trust", "-E", "UTF8",
                       "--no-locale", "--no-sync", gate=gate)  # fmt: skip
            self._init("postgres", "--single", "-F", "-D", str(new), "-c", "exit_on_error=on",
                       "template1", gate=gate, text=f"create database {DATABASE}\n")  # fmt: skip
            conf = os.open(new / "postgresql.conf", os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
            with os.fdopen(conf, "w") as file:
                file.write(f"\ninclude_if_exists = '../{layout.CONF}'\n")
            self._init("initdb", "-D", str(new), "--sync-only", gate=gate)
            new.rename(self.data_dir)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        self._sync_folder()

    def ensure_running(self, gate: int) -> None:
        """Start the server, or adopt the one that is up or still on its way up or down."""
        with lock_file(self.folder, guard.SERVER) as server:
            if os.pread(gate, len(guard.STOPPING), 0) and not self.stop(gate):
                raise self._failed("did not stop", 0)
            deadline, launched_at = time.monotonic() + READY_FOR, -1
            while not self._is_ready(server):
                if not guard.server_alive(server):
                    if launched_at >= 0:
                        guard.remove_short_socket_dir(
                            str(layout.socket_dir(self.folder, self.account))
                        )
                        raise self._failed("did not start", launched_at)
                    self._refuse_strange_server()
                    launched_at = self._launch()
                elif time.monotonic() > deadline:
                    raise self._failed(f"was not ready in {READY_FOR:.0f} s", max(launched_at, 0))
                else:
                    time.sleep(0.005)

    def stop(self, gate: int) -> bool:
        """Only under the gate and with no user left (see the package's docstring)."""
        with lock_file(self.folder, guard.SERVER) as server:
            return guard.stop_server(gate, server, str(self.data_dir))

    def _is_ready(self, server: int) -> bool:
        pid, _, status = guard.postmaster(str(self.data_dir))
        return (
            status == "ready"
            and guard.server_alive(server)
            and guard.is_postmaster(pid, str(self.data_dir))
        )

    def _launch(self) -> int:
        """Start, and answer where in the log this start begins.

        Pid files go first: PostgreSQL takes a zombie or a reused pid for a rival, and
        `server.lock` has already told that there is none. A shell detaches the server, not
        pg_ctl, which would have the shell interpret the folder's name.
        """
        listen = layout.socket_dir(self.folder, self.account)
        own = {"port": "5432", "unix_socket_directories": str(listen)}
        lines = (f"{name} = {_quoted(value)}\n" for name, value in {**self.settings, **own}.items())
        layout.write(self.folder / layout.CONF, "".join(lines))
        for stale in (self.data_dir / "postmaster.pid", listen / f"{layout.SOCKET_NAME}.lock"):
            stale.unlink(missing_ok=True)
        with self._open_log() as log, self._server_lock() as server:
            begins_at = log.tell()
            detached = ["-c", '"$0" -D "$1" &', str(self.bin_dir / "postgres"), str(self.data_dir)]
            self._spawn("/bin/sh", *detached, stdout=log, stderr=log, pass_fds=[server])
        layout.hand_over(self.folder)
        return begins_at

    def _refuse_strange_server(self) -> None:
        """A live postmaster without our lock was started by hand: its settings are not ours."""
        pid, listening, _ = guard.postmaster(str(self.data_dir))
        if not _runs(pid) or not (
            guard.is_postmaster(pid, str(self.data_dir)) or _accepts(listening)
        ):
            return
        raise EmbeddedError(
            f"{self.data_dir} is already served by a PostgreSQL (pid {pid}) that Sexton did not"
            f" start: stop it ({self.bin_dir / 'pg_ctl'} stop -D {self.data_dir}), or choose"
            " another folder"
        )

    def _init(self, program: str, *args: str, gate: int, text: str = "") -> None:
        """The program inherits the gate: should we be killed, nobody meets it half-done."""
        done = self._spawn(program, *args, input=text, capture_output=True, pass_fds=[gate])
        if done.returncode:
            output = f"{done.stdout}\n{done.stderr}".strip()
            if "No space left on device" in output or "Disk quota exceeded" in output:
                raise layout.disk_full(self.folder, _tail(done.stderr))
            raise EmbeddedError(
                f"PostgreSQL {self.version} could not make its data in {self.folder}"
                f" ({program} ended with {done.returncode}):\n{_tail(output)}"
            )

    def _spawn(self, program: str, *args: str, **more: Any) -> subprocess.CompletedProcess[str]:
        if "input" not in more:
            more["stdin"] = subprocess.DEVNULL
        more |= {"text": True, "timeout": INIT_FOR, "start_new_session": True, "umask": 0o077}
        try:
            command = [str(self.bin_dir / program), *args]
            return subprocess.run(command, **self.account.popen(), **more)
        except subprocess.TimeoutExpired as error:
            raise EmbeddedError(
                f"{program} took longer than {INIT_FOR:.0f} s in {self.folder}: is its disk stuck?"
            ) from error

    @contextmanager
    def _server_lock(self) -> Iterator[int]:
        """A shared `server.lock`, for a server to inherit."""
        with lock_file(self.folder, guard.SERVER) as server:
            fcntl.flock(server, fcntl.LOCK_SH)
            yield server

    def _open_log(self) -> IO[bytes]:
        """Opened by us and inherited, so the server needs no right to write in the folder."""
        path = self.folder / layout.LOG
        if path.exists() and path.stat().st_size > LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        log = os.fdopen(os.open(path, flags, 0o600), "ab")
        log.seek(0, os.SEEK_END)
        return log

    def _failed(self, what: str, log_begins_at: int) -> EmbeddedError:
        path = self.folder / layout.LOG
        with path.open("rb") as log:
            log.seek(log_begins_at)
            said = log.read()[-16384:].decode(errors="replace")
        if "No space left on device" in said or "Disk quota exceeded" in said:
            return layout.disk_full(self.folder, _tail(said))
        return EmbeddedError(
            f"PostgreSQL {self.version} in {self.folder} {what}. Its log, {path}, ends:\n"
            f"{_tail(said)}"
        )

    def _sync_folder(self) -> None:
        fd = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def _tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-12:])


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0) if pid > 0 else None
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid > 0


def _accepts(listening: str) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(f"{listening}/{layout.SOCKET_NAME}")
        except OSError:
            return False
    return True
