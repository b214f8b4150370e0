"""The program, imported once: a process that forks itself for every command.

To start Python and import everything takes longer than most commands do. Who runs a command here is
a process all the same, with an environment, a folder, streams, an exit and an end of its own.
"""

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

STREAMS = ("stdin", "stdout", "stderr")


class Zygote:
    """Lives as long as whoever started it; ends when that one does, however it does."""

    def __init__(self) -> None:
        # Without bytecode: a module that a test writes anew within a second, as long as before,
        # would be taken for the one that was there.
        self._process = subprocess.Popen(
            [sys.executable, "-B", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def run(
        self, words: Sequence[str], folder: Path, environ: dict[str, str], stdin: str, within: float
    ) -> tuple[int, str, str]:
        """Exit code, stdout and stderr; negative as `subprocess` has it: killed by that signal."""
        with tempfile.TemporaryDirectory(prefix="sextest-") as place:
            streams = [Path(place) / name for name in STREAMS]
            streams[0].write_text(stdin, errors="surrogateescape")
            asked = {"words": list(words), "folder": str(folder), "environ": environ}
            pid = self._ask(asked | {"streams": [str(each) for each in streams]})
            return self._end(pid, words, within), streams[1].read_text(), streams[2].read_text()

    def _ask(self, asked: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _end(self, pid: int, words: Sequence[str], within: float) -> int:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], within)
        if not readable:
            os.kill(pid, 9)
            self._answer()
            raise TimeoutError(f"{words} did not end within {within:g} s")
        return self._answer()

    def _answer(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def _become(asked: dict[str, Any]) -> None:
    """What a process would be that was started with this."""
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environ"])
    opened: list[Any] = []
    for number, (path, mode) in enumerate(zip(asked["streams"], "rww", strict=True)):
        with open(path, mode) as file:
            os.dup2(file.fileno(), number)
        opened.append(open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    sys.stdin, sys.stdout, sys.stderr = opened
    sys.argv = ["sexton", *asked["words"]]
    sys.path[0] = asked["folder"]


def _serve() -> None:
    import sexton.cli.main

    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _become(json.loads(line))
            sexton.cli.main.main()
            return
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
