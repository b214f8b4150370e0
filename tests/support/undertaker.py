"""Whoever a test process has started goes with it, also if that is killed in the midst of a test.

Fixtures end what they have started, unless nobody runs them any more: then nodes, workers and
clients would go on for ever, without a database. They are known by a word in their environment.
"""

import os
import select
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

WORD = "TESTED_BY"
# To end by themselves, as a server does that nobody uses any more.
WITHIN = 10.0
_LOOK_EVERY = 0.5


def engage(within: float = WITHIN) -> None:
    """For everybody whom this process will have started."""
    if sys.platform != "linux":
        return
    os.environ[WORD] = uuid.uuid4().hex
    me = (os.environ[WORD], f"{os.getpid()}", f"{within}")
    nowhere = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
    command = [sys.executable, "-I", "-S", __file__, *me]
    pid = os.posix_spawn(sys.executable, command, {}, file_actions=nowhere, setsid=True)
    os.waitpid(pid, 0)  # it is nobody's child: tests count theirs


def left(word: str) -> Iterator[int]:
    """Those who have it in their environment."""
    mark = f"{WORD}={word}".encode()
    for each in Path("/proc").iterdir():
        with suppress(OSError):
            if each.name.isdigit() and mark in (each / "environ").read_bytes().split(b"\0"):
                yield int(each.name)


def main(word: str, whose: int, within: float) -> None:
    ended = os.pidfd_open(whose)
    if os.fork() > 0:
        os._exit(0)
    select.select([ended], [], [])
    until = time.monotonic() + within
    while any(left(word)) and time.monotonic() < until:
        time.sleep(_LOOK_EVERY)
    while still := [*left(word)]:
        for pid in still:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_LOOK_EVERY)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
