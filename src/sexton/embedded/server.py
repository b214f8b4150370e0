"""The handle a process holds on an embedded server, and the door it comes and goes through."""

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from sexton.embedded import binaries, guard
from sexton.embedded import folder as layout
from sexton.embedded.account import server_account
from sexton.embedded.cluster import DATABASE, Cluster, lock_file, validated
from sexton.errors import EmbeddedError

ENTER_FOR = 600.0  # longer than another's crash recovery
LEAVE_FOR = 30.0


@dataclass
class _Seat:
    """This process's place among the users of one folder, shared by all its handles."""

    users: int
    alive: int
    handles: int = 0


_seats: dict[tuple[int, int], _Seat] = {}
_door = threading.Lock()
os.register_at_fork(
    before=_door.acquire, after_in_parent=_door.release, after_in_child=_door.release
)


class EmbeddedServer:
    """A PostgreSQL of one folder, started for its first user and stopped after its last."""

    def __init__(self, cluster: Cluster, key: tuple[int, int]) -> None:
        """Use `open`, which takes a seat first."""
        self._cluster = cluster
        self._key = key
        self._closed = False
        self.url = f"postgresql://postgres@/{DATABASE}?host={quote(cluster.socket_dir)}"

    @classmethod
    def open(
        cls,
        folder: Path | None = None,
        *,
        version: int | None = None,
        settings: Mapping[str, str] | None = None,
        bin_dir: Path | None = None,
    ) -> Self:
        """Settings take effect when this call is the one that starts the server."""
        folder = (folder or layout.default_folder(Path.cwd())).absolute()
        with layout.explained(folder), _door:
            folder = folder.resolve()
            wanted = validated(settings or {})
            account = server_account(folder, folder / layout.DATA)
            layout.prepare(folder, account)
            with _gate(folder, ENTER_FOR) as gate:
                existing = layout.data_version(folder / layout.DATA)
                major, programs = binaries.choose(version, existing, bin_dir, account, folder)
                cluster = Cluster(folder, account, major, programs, wanted)
                key = _take_seat(folder)
                try:
                    _ensure_guard(cluster)
                    if existing is None:
                        cluster.create(gate)
                    cluster.ensure_running(gate)
                    return cls(cluster, key)
                except BaseException:
                    _leave_seat(cluster, key, gate)
                    raise

    @property
    def folder(self) -> Path:
        """Where everything of this server is."""
        return self._cluster.folder

    @property
    def data_dir(self) -> Path:
        """PGDATA."""
        return self._cluster.data_dir

    @property
    def bin_dir(self) -> Path:
        """PostgreSQL's programs, in a place its user can reach."""
        return self._cluster.bin_dir

    @property
    def version(self) -> int:
        """The major version."""
        return self._cluster.version

    @property
    def pid(self) -> int:
        """The postmaster's; 0 if there is none."""
        return self._cluster.pid

    def run(self, program: str, *args: str) -> subprocess.CompletedProcess[str]:
        """Run one of PostgreSQL's programs as the server's user; a server so started is ours."""
        return self._cluster.run(program, *args)

    def close(self) -> None:
        """Leave; the last one out stops the server before this returns."""
        with _door:
            if self._closed:
                return
            self._closed = True
            with _gate_or_none(self.folder) as gate:
                stopped = _leave_seat(self._cluster, self._key, gate)
        if not stopped:
            raise EmbeddedError(
                f"PostgreSQL (pid {self.pid}) in {self.folder} does not stop:"
                f" see {self.folder / layout.LOG}"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@contextmanager
def _gate(folder: Path, seconds: float) -> Iterator[int]:
    """Unlocked explicitly: closing is not enough if somebody inherited the descriptor."""
    with lock_file(folder, guard.GATE) as gate:
        if not guard.wait_lock(gate, fcntl.LOCK_EX, seconds):
            raise EmbeddedError(
                f"another process has been starting or stopping the server of {folder} for"
                f" {seconds:.0f} s: see {folder / layout.LOG}, or who holds {folder / guard.GATE}"
            )
        try:
            yield gate
        finally:
            fcntl.flock(gate, fcntl.LOCK_UN)


@contextmanager
def _gate_or_none(folder: Path) -> Iterator[int | None]:
    """To leave, nobody has to wait for long, nor for a folder that was deleted: the guard looks."""
    try:
        entered = _gate(folder, LEAVE_FOR)
        gate = entered.__enter__()
    except (EmbeddedError, OSError):
        yield None
        return
    try:
        yield gate
    finally:
        entered.__exit__(None, None, None)


def _take_seat(folder: Path) -> tuple[int, int]:
    """By inode: a folder deleted and made again is another one."""
    users = guard.open_lock(str(folder), guard.USERS)
    identity = os.fstat(users)
    key = (identity.st_dev, identity.st_ino)
    if key in _seats:
        os.close(users)
    else:
        alive = guard.open_lock(str(folder), guard.ALIVE)
        fcntl.flock(users, fcntl.LOCK_SH)
        fcntl.flock(alive, fcntl.LOCK_SH)
        _seats[key] = _Seat(users, alive)
    _seats[key].handles += 1
    return key


def _leave_seat(cluster: Cluster, key: tuple[int, int], gate: int | None) -> bool:
    """Under the gate, the last one out stops the server; without it, that is left to the guard."""
    seat = _seats[key]
    seat.handles -= 1
    if seat.handles:
        return True
    del _seats[key]
    os.close(seat.users)
    try:
        if gate is None:
            return True
        with lock_file(cluster.folder, guard.USERS) as users:
            return not guard.try_lock(users, fcntl.LOCK_EX) or cluster.stop(gate)
    finally:
        os.close(seat.alive)


def _ensure_guard(cluster: Cluster) -> None:
    """The guard inherits `guard.lock` already taken, so there is never a second one."""
    with lock_file(cluster.folder, guard.GUARD) as held:
        if not guard.try_lock(held, fcntl.LOCK_EX):
            return
        arguments = [str(cluster.folder), str(cluster.data_dir), str(held)]
        try:
            subprocess.run(
                [_python(), "-I", "-S", guard.__file__, *arguments],
                cwd="/",
                check=True,
                pass_fds=[held],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except (OSError, subprocess.CalledProcessError) as error:
            raise EmbeddedError(
                f"could not start the guard that stops the server after a crash: {error}"
            ) from error


def _python() -> str:
    """Inside uWSGI and its like, `sys.executable` is not Python."""
    if Path(sys.executable or "").name.startswith(("python", "pypy")):
        return sys.executable
    return str(Path(sys.exec_prefix, "bin", "python3"))
