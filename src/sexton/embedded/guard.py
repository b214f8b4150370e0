"""The guard: a tiny process that outlives a server's users and stops it after them.

It runs by path under `python -I -S` and imports almost nothing, to stay small and to work
even when the environment it came from is deleted. Hence the lock primitives live here.
"""

import fcntl
import os
import signal
import sys
import time
from contextlib import suppress

GATE, USERS, ALIVE, SERVER, GUARD = (
    f"{name}.lock" for name in ("gate", "users", "alive", "server", "guard")
)
STOPPING = b"stopping"
FAST_FOR = 120.0
IMMEDIATE_FOR = 60.0


def open_lock(folder: str, name: str) -> int:
    """A fresh descriptor each time: a flock belongs to the descriptor, not to the process."""
    return os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def try_lock(fd: int, kind: int) -> bool:
    """Take the lock if nobody is in the way."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_lock(fd: int, kind: int, seconds: float) -> bool:
    """Take the lock within a deadline, which flock itself does not offer."""
    deadline, pause = time.monotonic() + seconds, 0.001
    while not try_lock(fd, kind):
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    return True


def server_alive(server: int) -> bool:
    """Whether any process of the server is left (rule 4)."""
    if not try_lock(server, fcntl.LOCK_EX):
        return True
    fcntl.flock(server, fcntl.LOCK_UN)
    return False


def postmaster(data_dir: str) -> tuple[int, str, str]:
    """Pid, socket folder and status from postmaster.pid; zero and blanks where there are none."""
    try:
        fd = os.open(f"{data_dir}/postmaster.pid", os.O_RDONLY)
    except FileNotFoundError:
        return 0, "", ""
    try:
        lines = [line.strip() for line in os.read(fd, 8192).decode(errors="replace").split("\n")]
    finally:
        os.close(fd)
    lines += [""] * 8
    return (int(lines[0]) if lines[0].isdigit() else 0), lines[4], lines[7]


def is_postmaster(pid: int, data_dir: str) -> bool:
    """Whether the pid still is this folder's postmaster, and not a zombie or a reused number."""
    if pid <= 0:
        return False
    try:
        fd = os.open(f"/proc/{pid}/cmdline", os.O_RDONLY)
    except OSError:
        if os.access("/proc/self/cmdline", os.R_OK):
            return False
    else:
        try:
            return os.fsencode(data_dir) in os.read(fd, 65536)
        finally:
            os.close(fd)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def stop_server(gate: int, server: int, data_dir: str) -> bool:
    """Stop what runs, under the gate and with no user left; False if it would not go."""
    if not server_alive(server):
        os.ftruncate(gate, 0)
        return True
    with suppress(OSError):  # a full disk must not keep the server running
        os.pwrite(gate, STOPPING, 0)
    _, socket_dir, _ = postmaster(data_dir)
    stopped = _signal_until_gone(server, data_dir, signal.SIGINT, FAST_FOR) or _signal_until_gone(
        server, data_dir, signal.SIGQUIT, IMMEDIATE_FOR
    )
    if stopped:
        os.ftruncate(gate, 0)
        remove_short_socket_dir(socket_dir)
    return stopped


def _signal_until_gone(server: int, data_dir: str, how: int, seconds: float) -> bool:
    """Repeat the signal: a server that is only just starting has no pid to send it to yet."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pid, _, _ = postmaster(data_dir)
        if is_postmaster(pid, data_dir):
            with suppress(ProcessLookupError):
                os.kill(pid, how)
        if wait_lock(server, fcntl.LOCK_EX, 0.5 if pid else 0.01):
            fcntl.flock(server, fcntl.LOCK_UN)
            return True
    return False


def remove_short_socket_dir(socket_dir: str) -> None:
    """Tidy the temp dir; rmdir removes empty folders only, so a wrong name does no harm."""
    if socket_dir.rpartition("/")[2].startswith("sexton-"):
        with suppress(OSError):
            os.rmdir(socket_dir)  # noqa: PTH106 - pathlib would triple the guard's imports


def watch(gate: int, users: int, alive: int, server: int, data_dir: str, guard: int) -> None:
    """Sleep until no user is alive, then stop the server unless a new one came (rule 3)."""
    while True:
        fcntl.flock(alive, fcntl.LOCK_EX)
        fcntl.flock(alive, fcntl.LOCK_UN)
        fcntl.flock(gate, fcntl.LOCK_EX)
        if try_lock(users, fcntl.LOCK_EX):
            stop_server(gate, server, data_dir)
            fcntl.flock(guard, fcntl.LOCK_UN)
            return
        fcntl.flock(gate, fcntl.LOCK_UN)


def main(folder: str, data_dir: str, guard: str) -> None:
    """Detach, so that no user has to reap the guard, and ignore what is meant for its users."""
    gate, users, alive, server = (open_lock(folder, n) for n in (GATE, USERS, ALIVE, SERVER))
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    if os.fork():
        os._exit(0)
    watch(gate, users, alive, server, data_dir, int(guard))


if __name__ == "__main__":
    main(*sys.argv[1:])
