"""The stand: PostgreSQL, proxies, processes and their clocks; put up, tended, and taken down."""

import asyncio
import atexit
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Self

import asyncpg

from sexton.torture.proxy import Proxies
from sexton.torture.stand import hog, tree
from sexton.torture.stand.child import Child
from sexton.torture.stand.clocks import Clock, realtime_minus_monotonic_us
from sexton.torture.stand.errors import StandError
from sexton.torture.stand.events import Events
from sexton.torture.stand.pair import Pair
from sexton.torture.stand.processes import READY_FOR, Kind, Process, Role
from sexton.torture.stand.scratch import scratch
from sexton.torture.stand.server import NAME
from sexton.torture.stand.sessions import Sessions
from sexton.torture.stand.way import address_of, through

# Who is ended first at an orderly end: nobody is to miss somebody it needs.
ORDER: tuple[Kind, ...] = ("client", "api", "node", "worker", "sink")
_ORDERLY, _HASTY = 30.0, 2.0  # seconds for each kind
_LOOK_EVERY = 0.2
# A supervisor does not start at once what has just fallen.
RESTART_AFTER = 0.5


class Stand:
    """On a pair of its own, or on the server of a URL, whose processes are not touched then.

    `folder` is the run's: logs and clocks go there, and every process is told about it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        url: str | None = None,
        env: Mapping[str, str] | None = None,
        server: Mapping[str, str] | None = None,
        scratch: Path | None = None,
        version: int | None = None,
    ) -> None:
        """`env` is for every process, `server` for PostgreSQL, whose data goes below `scratch`."""
        self.folder = folder.absolute()
        self.events = Events()
        self.processes: dict[str, Process] = {}
        self.proxies = Proxies()
        self.pair: Pair | None = None
        self.sessions = Sessions(lambda: self.url)
        self.clock_us = realtime_minus_monotonic_us()
        self._url = url
        self._env = dict(env or {})
        self._server, self._scratch, self._version = server, scratch, version
        self._mark = f"TORTURE_RUN={secrets.token_hex(8)}"
        self._hogs: list[Child] = []
        self._parts = AsyncExitStack()

    @property
    def url(self) -> str:
        """The database, without a proxy on the way."""
        if self.pair is not None:
            return self.pair.url()
        assert self._url is not None, "the stand is not put up yet"
        return self._url

    def of(self, *kinds: Kind) -> list[Process]:
        return [each for each in self.processes.values() if each.kind in kinds]

    # ── up and down ─────────────────────────────────────────────────────────

    async def __aenter__(self) -> Self:
        """PostgreSQL and the proxies; processes come with `add` and `start`."""
        try:
            await self._put_up()
        except BaseException:
            await self.stop(_HASTY)
            raise
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        """Whoever gives up does not wait for an orderly end."""
        await self.stop(_ORDERLY if kind is None else _HASTY)

    async def _put_up(self) -> None:
        atexit.register(self._sweep)
        self._parts.callback(atexit.unregister, self._sweep)
        for name in ("logs", "clocks"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        await self._parts.enter_async_context(self.proxies)
        if self._url is not None:
            address_of(self._url)  # refuses what no proxy can do
        else:
            root = self._parts.enter_context(scratch(self._scratch))
            self.pair = await Pair.make(
                root,
                settings=self._server,
                logs=self.folder / "logs",
                version=self._version,
                events=self.events,
            )
            self.pair.on_move = self.proxies.retarget
            self._parts.push_async_callback(self.pair.stop)
            await self.pair.start()

    async def stop(self, within: float = _ORDERLY) -> None:
        """In order: those who use others first. Nothing of the stand is left when this returns."""
        try:
            for kind in ORDER:
                ending = (self._ended(each, within) for each in self.of(kind) if each.alive)
                await asyncio.gather(*ending)
        finally:
            for child in self._hogs:
                await child.kill()
            for process in self.processes.values():
                await process.clear()
            await self._parts.aclose()
            if left := tree.sweep(self._mark):
                self.events.note("swept", "stand", pids=left)

    async def _ended(self, process: Process, within: float) -> None:
        await process.cont()
        try:
            end = await process.term(within)
            self.events.note("ended", process.name, **end._asdict())
        except StandError as error:
            self.events.note("killed", process.name, why=str(error))

    def _sweep(self) -> None:
        """What an exit without a `stop` leaves, where the leash does not work."""
        for process in self.processes.values():
            if process.pid is not None:
                tree.signal_tree(process.pid, signal.SIGKILL)
        tree.sweep(self._mark)

    # ── processes ───────────────────────────────────────────────────────────

    async def add(self, *roles: Role) -> list[Process]:
        """A proxy, a clock and a log for each; nobody is started yet."""
        return [await self._add(role) for role in roles]

    async def _add(self, role: Role) -> Process:
        if role.name in self.processes:
            raise StandError(f"there is a {role.name} already")
        clock = Clock(self.folder / "clocks" / role.name)
        self._parts.callback(clock.close)
        own = {"TORTURE_NAME": role.name}
        if role.proxied:
            port = await self.proxies.open(role.name, address_of(self.url))
            own["SEXTON_DATABASE_URL"] = through(self.url, port)
        for name, door in role.doors.items():
            to = ("127.0.0.1", door.leads_to)
            await self.proxies.open(name, to, raw=True, port=door.port)
        process = Process(
            role,
            env=self._environ() | own,
            log=self.folder / "logs" / f"{role.name}.log",
            clock=clock,
            events=self.events,
        )
        self.processes[role.name] = process
        return process

    def _environ(self) -> dict[str, str]:
        """The rig's own, without what would lead a process elsewhere."""
        astray = ("SEXTON_", "TORTURE_", *(("PG",) if self._url is None else ()))
        ours = {name: text for name, text in os.environ.items() if not name.startswith(astray)}
        mark, _, run = self._mark.partition("=")
        about = {"TORTURE_FOLDER": str(self.folder), "TORTURE_CLOCK_US": str(self.clock_us)}
        return ours | {"PYTHONUNBUFFERED": "1", mark: run} | about | self._env

    async def start(self, names: Iterable[str] | None = None, timeout: float = READY_FOR) -> None:
        """These, or all who are not running; until every one of them is ready."""
        chosen = [self.processes[name] for name in names or self.processes]
        for process in chosen:
            if not process.alive:
                await process.start()
        await asyncio.gather(*(process.wait_ready(timeout) for process in chosen))

    async def keep(self) -> None:
        """Start again, a moment later, whoever has ended by itself; until this is cancelled."""
        fallen: dict[str, float] = {}
        loop = asyncio.get_running_loop()
        while True:
            for name, process in list(self.processes.items()):
                if not process.ended_by_itself:
                    fallen.pop(name, None)
                elif name not in fallen:
                    fallen[name] = loop.time()
                    process.note_a_fall()
                elif loop.time() - fallen[name] >= RESTART_AFTER:
                    del fallen[name]
                    await process.start()
            await asyncio.sleep(_LOOK_EVERY)

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """While this lasts, those who fall are started again."""
        keeping = asyncio.create_task(self.keep())
        try:
            yield
        finally:
            keeping.cancel()
            with suppress(asyncio.CancelledError):
                await keeping

    # ── the host ────────────────────────────────────────────────────────────

    def burn(self, seconds: float, processes: int) -> list[Child]:
        """So many processes that do nothing but compute, for so long."""
        with Path(os.devnull).open("wb") as nowhere:
            hogs = [
                Child(
                    [sys.executable, "-I", "-S", hog.__file__, str(seconds)],
                    output=nowhere,
                    env=self._environ(),
                )
                for _ in range(processes)
            ]
        self._hogs = [each for each in self._hogs if each.alive] + hogs
        return hogs

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[asyncpg.Connection]:
        """To the database, past the proxies, for the rig itself."""
        connection = await asyncpg.connect(
            self.url, timeout=30, server_settings={"application_name": NAME}
        )
        try:
            yield connection
        finally:
            connection.terminate()
