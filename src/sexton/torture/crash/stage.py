"""The stage of one crash point: its database, its processes, and what they left behind."""

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg

from sexton import Sexton
from sexton.torture.crash import statements
from sexton.torture.crash.client import wishes
from sexton.torture.crash.site import Site
from sexton.torture.crash.tasks import Log, make

VICTIM = "victim"
STANDBY = "standby"
LEASE = 2.0  # of workers and of nodes; not the shortest there is, for the sake of busy machines
SETTINGS = {
    "lease": LEASE,
    "node_lease": LEASE,
    "patience": 1.0,
    "poll": 1.0,
    "grace": 1.0,
    "pool_size": 2,
}
MORE = {"client": {"pool_size": 1}}  # one that knows every statement
WITHIN = 30.0
START_WITHIN = 60.0
LOOK_EVERY = 0.02
QUIET_LOOKS = 3


class TooLate(Exception):
    """Something that should have happened has not."""


@dataclass
class Process:
    """One that the nursery made for this stage."""

    name: str
    role: str
    port: int
    pid: int = 0
    starts: int = 0
    wanted: bool = False  # it shall run; if it does not, that is its own doing


@dataclass
class Stage:
    """What a step can do, and look at."""

    site: Site
    database: str
    folder: Path
    sql: asyncpg.Connection
    app: Sexton
    processes: dict[str, Process] = field(default_factory=dict)

    # ── processes ───────────────────────────────────────────────────────────

    async def start(self, name: str, role: str, *, wait: bool = True) -> None:
        """A process behind a proxy of its own, up to where it is ready."""
        process = await self.expect(name, role)
        await self._spawn(process)
        if wait:
            await self.until(f"{name} is ready", _is(lambda: self.is_ready(name)), START_WITHIN)

    async def expect(self, name: str, role: str) -> Process:
        """Its proxy is there, even if it is not."""
        if name not in self.processes:
            port = await self.site.proxies.open(self.proxy(name), self.site.upstream)
            self.processes[name] = Process(name, role, port)
        return self.processes[name]

    async def _spawn(self, process: Process) -> None:
        process.starts += 1
        process.pid = await self.site.nursery.start(
            *(process.role, self.folder / f"{process.name}.log"),
            name=process.name,
            ready=str(self._ready(process)),
            effects=str(self.effects_file),
            go=str(self.go_file),
            answers=str(self.answers_file),
            settings=SETTINGS | MORE.get(process.role, {}) | self._way(process.port),
        )
        process.wanted = True

    async def _supervise(self) -> None:
        """One that found no server in time when it started, on a busy machine, is started again."""
        for process in self.processes.values():
            if process.wanted and not self.is_alive(process.name):
                if self._ready(process).exists():
                    process.wanted = False
                    raise TooLate(f"{process.name} has ended by itself")
                await self._spawn(process)

    def _ready(self, process: Process) -> Path:
        return self.folder / f"{process.name}.ready"

    async def restart(self, name: str) -> None:
        self._ready(self.processes[name]).unlink(missing_ok=True)
        await self.start(name, self.processes[name].role)

    def kill(self, name: str) -> None:
        self.processes[name].wanted = False
        self._signal(name, signal.SIGKILL)

    def stop(self, name: str) -> None:
        self._signal(name, signal.SIGSTOP)

    def go_on(self, name: str) -> None:
        self._signal(name, signal.SIGCONT)

    def term(self, name: str) -> None:
        self.processes[name].wanted = False
        self._signal(name, signal.SIGTERM)

    def is_ready(self, name: str) -> bool:
        return self._ready(self.processes[name]).exists()

    def is_alive(self, name: str) -> bool:
        return self._signal(name, 0)

    def _signal(self, name: str, number: int) -> bool:
        pid = self.processes[name].pid
        try:
            if pid:
                os.kill(pid, number)
        except ProcessLookupError:
            return False
        return bool(pid)

    def proxy(self, name: str) -> str:
        return f"{self.database}:{name}"

    def _way(self, port: int) -> dict[str, Any]:
        url = f"postgresql://postgres@127.0.0.1:{port}/{self.database}"
        return {"database_url": url, "pooler": self.site.pooler, "listen_url": url}

    # ── doing ───────────────────────────────────────────────────────────────

    async def enqueue(self, *jobs: tuple[str, dict[str, Any], str | None]) -> None:
        """Tasks with their arguments and keys, in one transaction; all of them shall succeed."""
        tasks, payloads, keys = zip(*jobs, strict=True)
        await self.sql.fetch(
            statements.ENQUEUE, tasks, [json.dumps(each) for each in payloads], keys
        )

    def let_clients_go(self) -> None:
        self.go_file.touch()

    async def schedule(self, seconds: float, count: int = 2, **policy: Any) -> None:
        """Schedules that fire once, so many seconds from now; all of them shall."""
        rule = self.app.schedules.spec("s", "quick", every="1h", **policy).terms.text
        await self.sql.fetch(statements.schedules(), count, seconds, rule)

    async def again(self, seconds: float) -> None:
        """They shall once more, so many seconds from now, as if their rule had said so."""
        await self.sql.fetch(statements.AGAIN, seconds)

    async def with_a_past(self) -> None:
        """A schedule of every hour, whose next one is half over."""
        now = await self.sql.fetchval("select clock_timestamp()")
        began = now - timedelta(hours=9.5)
        await self.app.schedules.add("past", "quick", every="1h", anchor=began)

    async def backfill(self, first: int, end: int) -> None:
        """These hours of it; each shall be fired."""
        began = await self.sql.fetchval("select anchor from sexton.schedule where name = 'past'")
        stretch = [began + timedelta(hours=each) for each in (first, end)]
        await self.sql.execute(statements.EXPECT_PAST, *stretch)
        await self.app.schedules.backfill("past", *stretch, rate=8.0)

    async def take_back(self) -> None:
        """The newest schedule, unless it has fired: as an edit would, but nobody is told."""
        await self.sql.execute(statements.TAKE_BACK)

    # ── looking ─────────────────────────────────────────────────────────────

    @property
    def effects_file(self) -> Path:
        return self.folder / "effects.jsonl"

    @property
    def go_file(self) -> Path:
        return self.folder / "go"

    @property
    def answers_file(self) -> Path:
        return self.folder / "answers.jsonl"

    def effects(self) -> list[dict[str, Any]]:
        return _lines(self.effects_file)

    async def answered(self, *names: str) -> bool:
        """Every wish, of one of these clients at least; what they were told is expected."""
        answers = _lines(self.answers_file)
        await self.sql.execute(statements.ACKNOWLEDGED, json.dumps(answers))
        wished = range(len(wishes(self.app)))
        return {each["wish"] for each in answers if each["by"] in names} == {*wished}

    async def so(self, query: str, *args: Any) -> bool:
        return bool(await self.sql.fetchval(query, *args))

    async def until_so(self, what: str, query: str, *args: Any) -> None:
        await self.until(what, lambda: self.so(query, *args))

    async def until_begun(self, before: int = 0) -> None:
        """Until a task has, after so many events."""
        await self.until("a task has begun", _is(lambda: len(self.effects()) > before))

    async def until_idle(self, name: str) -> None:
        await self.until_so(f"{name} sleeps", statements.IDLE, name)

    async def until_owned(self, nodes: int) -> None:
        await self.until_so(f"{nodes} nodes own everything, evenly", statements.OWNED, nodes)

    def overtaken(self, before: int, but: str | None = None) -> bool:
        """After so many events somebody, but not this one, is at a job that had begun before."""
        begun = set()
        for number, each in enumerate(self.effects()):
            if each["event"] == "begin":
                if number >= before and each["job"] in begun and each["by"] != but:
                    return True
                begun.add(each["job"])
        return False

    async def ended(self) -> bool:
        """Every job that is expected has."""
        return await self.so(statements.ENDED)

    async def fired(self) -> bool:
        """Every schedule that is expected has, once it is due."""
        return await self.so(statements.FIRED)

    async def backfilled(self) -> bool:
        """Every backfill has come to its end."""
        return await self.so(statements.BACKFILLED)

    async def replaced(self) -> bool:
        """Of every schedule one job lives, and none that is to be asked to end; whoever was about
        to cross it out, and stands still, holds up nobody."""
        return await self.so(statements.REPLACED)

    async def until_quiet(self) -> None:
        """Until nothing is at work in the database, a few looks in a row."""
        looks = 0
        while looks < QUIET_LOOKS:
            await asyncio.sleep(LOOK_EVERY)
            looks = looks + 1 if await self.so(statements.QUIET) else 0

    async def until_back(self, name: str, since: Any) -> None:
        """Until it has renewed a lease, its old one or a new one; a client, been answered."""
        if self.processes[name].role == "client":
            await self.until(f"{name} is answered", lambda: self.answered(name))
        else:
            await self.until_so(f"{name} is back", statements.BACK, name, since)

    async def until(
        self, what: str, true: Callable[[], Awaitable[bool]], within: float = WITHIN
    ) -> None:
        if not await self.wait(true, within):
            raise TooLate(f"not so within {within:g} s: {what}")

    async def wait(self, true: Callable[[], Awaitable[bool]], within: float) -> bool:
        """Whether it was so in time."""
        deadline = time.monotonic() + within
        while not await true():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(LOOK_EVERY)
            await self._supervise()
        return True

    def said(self) -> str:
        """What the processes wrote, for a report."""
        parts = []
        for file in sorted(self.folder.glob("*.log")):
            parts.append(f"── {file.stem} ──\n{file.read_text(errors='replace')[-6000:]}")
        if self.effects_file.exists():
            parts.append(f"── effects ──\n{self.effects_file.read_text()[-3000:]}")
        return "\n".join(parts)


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _is(true: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return true()

    return look


@contextlib.asynccontextmanager
async def stage(site: Site) -> AsyncIterator[Stage]:
    """A new database, and nothing left of it in the end."""
    database = f"point_{next(site.numbers)}"
    folder = site.folder / database
    folder.mkdir()
    await site.make_database(database)
    url = site.url(database)
    sql = await asyncpg.connect(url)
    app = make(Log(os.devnull), database_url=url)
    made = Stage(site, database, folder, sql, app)
    try:
        yield made
    finally:
        for name in made.processes:
            made.kill(name)
            await site.proxies.close(made.proxy(name))
        sql.terminate()
        await app.close()
        await site.drop_database(database)
