"""Who descends from whom: a worker's children live in sessions of their own."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

_PROC = Path("/proc")


def descendants(pid: int) -> list[int]:
    """All processes below this one, parents before their children."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents().items():
        children.setdefault(parent, []).append(child)
    found: list[int] = []
    above = [pid]
    while above:
        below = children.get(above.pop(0), [])
        found += below
        above += below
    return found


def signal_tree(pid: int, number: int) -> list[int]:
    """The process first, then its descendants until there are no new ones; who got the signal."""
    reached: list[int] = []
    while fresh := [each for each in (pid, *descendants(pid)) if each not in reached]:
        for each in fresh:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(each, number)
        reached += fresh
    return reached


def is_stopped(pid: int) -> bool:
    """Whether it stands still by a signal; one that is gone stands still as well."""
    return _state(pid) in ("T", "Z", "X", "")


def marked(mark: str) -> list[int]:
    """Processes that have this in the environment they were started with; not ourselves."""
    found = []
    for entry in _entries():
        with contextlib.suppress(OSError):
            if mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return [pid for pid in found if pid != os.getpid()]


def sweep(mark: str) -> list[int]:
    """Kill what still carries the mark of a run; who that was."""
    swept: list[int] = []
    while left := [pid for pid in marked(mark) if pid not in swept]:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        swept += left
    return swept


def _entries() -> list[Path]:
    if not (_PROC / "self").exists():
        return []
    return [entry for entry in _PROC.iterdir() if entry.name.isdecimal()]


def _state(pid: int) -> str:
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _parents() -> dict[int, int]:
    entries = _entries()
    if not entries:  # not Linux
        listed = subprocess.run(
            ["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=True
        ).stdout
        return {int(pid): int(parent) for pid, parent in map(str.split, listed.splitlines())}
    parents = {}
    for entry in entries:
        # The name before it is in brackets, and may have spaces and brackets of its own.
        with contextlib.suppress(OSError, IndexError):
            stat = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            parents[int(entry.name)] = int(stat[1])
    return parents
