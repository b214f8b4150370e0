"""A process that the rig has started, on its leash."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from sexton.embedded.account import Account
from sexton.torture.stand import leash, tree

_SHORT, _LONG = 0.001, 0.02


class Child:
    """Started in a session of its own; it dies with the thread that made it, by `dies_by`."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        output: IO[bytes],
        env: Mapping[str, str],
        account: Account | None = None,
        dies_by: int = signal.SIGKILL,
        cwd: Path = Path("/"),
        pass_fds: Sequence[int] = (),
    ) -> None:
        uid, gid = (account.uid, account.gid) if account else (os.geteuid(), os.getegid())
        held = [str(int(dies_by)), str(uid), str(gid), str(os.getpid())]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", leash.__file__, *held, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(env),
            cwd=cwd,
            pass_fds=pass_fds,
            start_new_session=True,
            umask=0o077 if account else -1,
        )
        self.pid = self._process.pid
        self.born = time.monotonic()
        self.asked_to_end = 0  # so many times

    @property
    def code(self) -> int | None:
        """How it ended; None while it lives."""
        return self._process.poll()

    @property
    def alive(self) -> bool:
        return self.code is None

    def signal(self, number: int) -> None:
        """To this process alone; nothing if it has ended."""
        self.asked_to_end += number == signal.SIGTERM and self.alive
        self._process.send_signal(number)

    def signal_all(self, number: int) -> list[int]:
        """To this process and all that descend from it."""
        return tree.signal_tree(self.pid, number) if self.alive else []

    async def ended(self, within: float | None = None) -> bool:
        """Wait until it has ended; whether it did in time."""
        loop = asyncio.get_running_loop()
        until = None if within is None else loop.time() + within
        pause = _SHORT
        while self.alive:
            if until is not None and loop.time() >= until:
                return False
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONG)
        return True

    async def kill(self) -> None:
        """With all that descend from it; returns when it has ended."""
        self.signal_all(signal.SIGKILL)
        await self.ended()
