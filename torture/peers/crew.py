"""The processes of one system, under a supervisor that starts again whatever ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from torture.peers.postgres import die_with_parent

ROOT = Path(__file__).parents[2]
RESTART = 1.0  # seconds after which a supervisor starts a process again


class Member:
    """One process, again and again."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._command = command
        self._environment = environment
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._killed = False
        self.gave_up = 0  # ended by itself

    async def run(self) -> None:
        while True:
            self._process = await self._spawn()
            await self._process.wait()
            if not self._killed:
                self.gave_up += 1
            self._killed = False
            await asyncio.sleep(RESTART)

    async def _spawn(self) -> asyncio.subprocess.Process:
        with self._log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=self._environment,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def kill(self) -> None:
        """With everything it may have started."""
        if self._process is not None and self._process.returncode is None:
            self._killed = True
            os.killpg(self._process.pid, signal.SIGKILL)

    async def gone(self) -> None:
        if self._process is not None:
            await self._process.wait()

    async def freeze(self, seconds: float) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        os.killpg(process.pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGCONT)


class Crew:
    """All processes of one system, from entry to exit."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], count: int, logs: Path
    ) -> None:
        self.members = [
            Member(command, environment, logs / f"process-{n}.log") for n in range(count)
        ]
        self._running: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Crew:
        self._running = [asyncio.create_task(member.run()) for member in self.members]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for member in self.members:
            member.kill()
            await member.gone()

    @property
    def gave_up(self) -> int:
        return sum(member.gave_up for member in self.members)
