"""One process of ours, as an operator would start it, and what can be done to it."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from sexton.torture.stand import skewed, tree
from sexton.torture.stand.child import Child
from sexton.torture.stand.clocks import Clock
from sexton.torture.stand.errors import StandError
from sexton.torture.stand.events import Events

READY_FOR = 60.0
STOP_FOR = 5.0
_LOOK_EVERY = 0.05
_ANSWER_WITHIN = 2.0

Kind = Literal["node", "worker", "api", "sink", "client"]


class Door(NamedTuple):
    """Where others reach what listens on `leads_to`: a proxy stands between."""

    port: int
    leads_to: int


class End(NamedTuple):
    """How one ended that was asked to."""

    after: float
    code: int | None
    age: float  # when it was asked
    asked: int  # how often it was, by whomever
    ready: bool | None  # when it was asked; None: it does not say


@dataclass(frozen=True, slots=True)
class Role:
    """What to start: a module, its arguments, and where it says whether it is ready.

    `port` is where it answers HTTP, `path` what to ask there; without a path it is ready when it
    lives. Who is not `proxied` gets no database. `doors` have names, as proxies have.
    """

    name: str
    kind: Kind
    module: str
    arguments: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    port: int | None = None
    path: str | None = None
    proxied: bool = True
    doors: Mapping[str, Door] = field(default_factory=dict)


class Process:
    """Dies with the rig; when it dies alone, somebody else decides whether to start it again."""

    def __init__(
        self, role: Role, *, env: Mapping[str, str], log: Path, clock: Clock, events: Events
    ) -> None:
        self.name, self.kind = role.name, role.kind
        self.role = role
        self.log = log
        self._env = {**env, **role.env}
        self._clock = clock
        self._events = events
        self._child: Child | None = None
        self._frozen: list[int] = []
        self._wanted = self._told = False

    @property
    def pid(self) -> int | None:
        """None if it is not running: a signal to process 0 would go to the rig itself."""
        return self._child.pid if self._child is not None and self._child.alive else None

    @property
    def alive(self) -> bool:
        return self.pid is not None

    @property
    def code(self) -> int | None:
        """How it ended the last time; None while it lives."""
        return None if self._child is None else self._child.code

    @property
    def ended_by_itself(self) -> bool:
        """Nobody here has ended it: it fell, or a task of its own has killed it."""
        return self._wanted and not self.alive

    def note_a_fall(self) -> None:
        """If it ended by itself, once: whoever is to end it may come just after that."""
        if self.ended_by_itself and not self._told:
            self._told = True
            self._events.note("fell", self.name, code=self.code)

    @property
    def url(self) -> str:
        assert self.role.port is not None, f"{self.name} does not answer HTTP"
        return f"http://127.0.0.1:{self.role.port}"

    # ── coming ──────────────────────────────────────────────────────────────

    async def start(self) -> None:
        """Returns at once; see `wait_ready`."""
        if self.alive:
            raise StandError(f"{self.name} is running already, as {self.pid}")
        command = [sys.executable, "-P", skewed.__file__, str(self._clock.path), self.role.module]
        with self.log.open("ab") as log:
            self._child = Child(
                [*command, *self.role.arguments],
                output=log,
                env=self._env,
                cwd=self.log.parent,
            )
        self._frozen, self._wanted, self._told = [], True, False
        self._events.note("started", self.name, pid=self._child.pid)

    async def wait_ready(self, timeout: float = READY_FOR, *, kept: bool = False) -> float:
        """Until it says itself that it can do its work; how long that took.

        `kept`: if it ends meanwhile somebody will start it again, so that is no reason to give up.
        """
        began = time.monotonic()
        while not await self.is_ready():
            fell = not self.alive and not kept
            if fell or time.monotonic() - began > timeout:
                what = "has ended" if fell else f"was not ready in {timeout:.0f} s"
                raise StandError(f"{self.name} {what}. {self.log} ends:\n{self.tail()}")
            await asyncio.sleep(_LOOK_EVERY)
        return time.monotonic() - began

    async def _says_ready(self) -> bool | None:
        """None: it says nothing of that, or another has come meanwhile."""
        if self.role.path is None:
            return None
        asked, ready = self._child, await self.is_ready()
        return ready if self._child is asked else None

    async def is_ready(self) -> bool:
        if not self.alive:
            return False
        if self.role.port is None or self.role.path is None:
            return True
        return await _says_ok(self.role.port, self.role.path)

    # ── faults ──────────────────────────────────────────────────────────────

    async def kill9(self) -> None:
        """This process alone: what it has started must go by itself."""
        self._ends()
        if self._child is not None:
            self._child.signal(signal.SIGKILL)
            frozen, self._frozen = self._frozen, []
            for pid in frozen:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await self._child.ended()

    async def stop_signal(self) -> list[int]:
        """SIGSTOP to it and to all below it; who that is. They stand when this returns."""
        if self._child is not None:
            self._frozen = self._child.signal_all(signal.SIGSTOP)
            until = time.monotonic() + STOP_FOR
            while not all(tree.is_stopped(pid) for pid in self._frozen):
                if time.monotonic() > until:
                    raise StandError(f"{self.name} does not stop")
                await asyncio.sleep(0.001)
        return self._frozen

    async def cont(self) -> None:
        """SIGCONT to all who were stopped."""
        for pid in self._frozen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._frozen = []

    async def term(self, timeout: float) -> End:
        """SIGTERM; how it ended. StandError, and kill -9, if it did not in time.

        Somebody else may do the same meanwhile, and start it again: what is told is of the one that
        was asked.
        """
        ready = await self._says_ready()
        began, child = time.monotonic(), self._child
        self._ends()
        if child is None or not child.alive:
            return End(0.0, self.code, 0.0, 0, None)
        child.signal(signal.SIGTERM)
        if not await child.ended(timeout):
            await child.kill()
            raise StandError(f"{self.name} did not end within {timeout:g} s of SIGTERM")
        took, age = time.monotonic() - began, began - child.born
        return End(round(took, 3), child.code, round(age, 3), child.asked_to_end, ready)

    def clock(self, offset_seconds: float) -> None:
        """Its real-time clock is off by so much, from this moment on."""
        self._clock.set(offset_seconds)

    async def clear(self) -> None:
        """It and all below it, however it stands."""
        self._ends()
        self._frozen = []
        if self._child is not None:
            await self._child.kill()

    def _ends(self) -> None:
        """Somebody ends it, so that it has not fallen."""
        self.note_a_fall()
        self._wanted = False

    def tail(self, size: int = 4000) -> str:
        """What it said last."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - size))
            return log.read().decode(errors="replace")


async def _says_ok(port: int, path: str) -> bool:
    """One question over HTTP, without a client's cost."""
    try:
        async with asyncio.timeout(_ANSWER_WITHIN):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                host = f"127.0.0.1:{port}"
                ask = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
                writer.write(ask.encode())
                return (await reader.readline()).split()[1:2] == [b"200"]
            finally:
                writer.transport.abort()
    except (OSError, TimeoutError):
        return False
