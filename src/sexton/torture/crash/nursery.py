"""A process that has imported everything and forks: a node or a worker is there in milliseconds."""

import asyncio
import contextlib
import ctypes
import itertools
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn, Self

PR_SET_PDEATHSIG = 1
END_WITHIN = 5.0
SEPARATE = 3  # the first descriptor that a child shall not inherit


class Nursery:
    """Starts the nursery, asks it for processes, and ends it; with it ends whatever it made."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._number = itertools.count(1)
        self._asked: dict[int, asyncio.Future[int]] = {}
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "sexton.torture.crash.nursery"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), END_WITHIN)
        except TimeoutError:
            process.kill()
            await process.wait()
        if self._reading is not None:
            await self._reading

    async def start(self, role: str, output: Path, **told: Any) -> int:
        """The pid of a new process in this role; what it says goes to `output`."""
        assert self._process is not None
        assert self._process.stdin is not None
        number = next(self._number)
        self._asked[number] = asyncio.get_running_loop().create_future()
        wish = {"n": number, "role": role, "output": str(output), "told": told}
        self._process.stdin.write(json.dumps(wish).encode() + b"\n")
        return await self._asked[number]

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            said = json.loads(line)
            self._asked.pop(said["n"]).set_result(said["pid"])
        for asked in self._asked.values():
            asked.set_exception(RuntimeError("the nursery has ended"))


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
