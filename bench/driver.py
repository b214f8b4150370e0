"""The harness's side of the protocol: a contender's process, asked one thing at a time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, ClassVar

from bench.contenders import Contender

HERE = Path(__file__).parent
CACHE = HERE / ".cache"
LOGS = CACHE / "logs"


class ContenderFailed(Exception):
    """The contender answered with an error, or not at all."""


def command(contender: Contender) -> list[str]:
    match contender.runtime:
        case "node":
            program = HERE / "contenders" / contender.program
            return [str(CACHE / "node" / "node_modules" / ".bin" / "node"), str(program)]
        case "peers":
            python = CACHE / "venv" / "bin" / "python"
            return [str(python), "-m", f"bench.contenders.{contender.program}"]
        case _:
            return [sys.executable, "-m", f"bench.contenders.{contender.program}"]


class Process:
    """One contender process. It ends when its stdin closes, so none outlives the harness."""

    live: ClassVar[set[Process]] = set()

    def __init__(self, contender: Contender, process: asyncio.subprocess.Process) -> None:
        self.contender = contender
        self.process = process
        self.live.add(self)

    @classmethod
    async def start(cls, contender: Contender, url: str) -> Process:
        LOGS.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "BENCH_URL": url,
            "BENCH_NODE": str(CACHE / "node") + "/",
            "NODE_ENV": "production",
        }
        with (LOGS / f"{contender.name}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *command(contender),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                cwd=HERE.parent,
                env=environment,
                limit=1 << 28,
                start_new_session=True,  # Ctrl-C is the harness's to handle
            )
        return cls(contender, process)

    @property
    def pid(self) -> int:
        return self.process.pid

    async def ask(self, do: str, timeout: float = 300, **more: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps({"do": do, **more}).encode() + b"\n")
            await self.process.stdin.drain()
            line = await asyncio.wait_for(self.process.stdout.readline(), timeout)
        except TimeoutError:
            raise ContenderFailed(f"no answer to {do!r} within {timeout:.0f} s") from None
        except ConnectionError:
            line = b""
        if not line:
            raise ContenderFailed(f"ended at {do!r}: {self.last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if not answer.pop("ok"):
            raise ContenderFailed(f"{do}: {answer['error']}")
        return answer

    def last_words(self) -> str:
        lines = (LOGS / f"{self.contender.name}.log").read_text(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "no words")

    async def stop(self) -> None:
        """Ask it to end, then insist."""
        with contextlib.suppress(ContenderFailed):
            await self.ask("stop", timeout=15)
        await self.end()

    async def end(self) -> None:
        self.live.discard(self)
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), 5)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            await self.process.wait()

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        await self.end()

    @classmethod
    async def end_all(cls) -> None:
        """After a failure or Ctrl-C: nothing stays behind."""
        for process in list(cls.live):
            await process.kill()
