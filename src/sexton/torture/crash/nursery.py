"""A process that has imported everything and forks: a node or a worker is there in milliseconds."""

import contextlib
import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from sexton.torture.answering import Answering

PR_SET_PDEATHSIG = 1
SEPARATE = 3  # the first descriptor that a child shall not inherit


class Nursery(Answering):
    """Starts the nursery, asks it for processes, and ends it; with it ends whatever it made."""

    def __init__(self) -> None:
        super().__init__("sexton.torture.crash.nursery")

    async def start(self, role: str, output: Path, **told: Any) -> int:
        """The pid of a new process in this role; what it says goes to `output`."""
        said = await self._ask(role=role, output=str(output), told=told)
        return int(said["pid"])


def main() -> None:
    """No loop and no thread in here, or a fork would inherit half of it."""
    from sexton.torture.crash import process

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, _bury)
    for line in sys.stdin.buffer:
        wish = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _child(process.run, wish)
        os.write(1, json.dumps({"n": wish["n"], "pid": pid}).encode() + b"\n")


def _child(run: Any, wish: dict[str, Any]) -> NoReturn:
    status = 1
    try:
        _die_with_parent()
        for each in (signal.SIGCHLD, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)
        output = os.open(wish["output"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.closerange(SEPARATE, 256)
        run(wish["role"], wish["told"])
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _bury(*_: object) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    main()
