"""The stage of one crash point: its database, its processes, and what they left behind."""

import asyncio
import contextlib
import functools
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import asyncpg

from sexton import Sexton
from sexton.torture.crash.client import wishes
from sexton.torture.crash.site import Site
from sexton.torture.crash.tasks import Log, make

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

ENQUEUE = """
insert into crash.expected_job (job_id, transactional)
select made.id, wanted.task in ('writes', 'carries')
from unnest($1::text[], $2::text[], $3::text[]) as wanted (task, payload, key)
cross join lateral sexton.enqueue(wanted.task, wanted.payload::jsonb, key => wanted.key) as made
returning job_id
"""
ACKNOWLEDGED = """
with told as (
    select distinct answer ->> 'key' as key, job_id::bigint as job_id
    from jsonb_array_elements($1::jsonb) as answer
    cross join jsonb_array_elements_text(answer -> 'jobs') as job_id
),
acknowledged as (
    insert into crash.acknowledged (key, job_id)
    select * from told
    except select key, job_id from crash.acknowledged
    returning job_id
)
insert into crash.expected_job (job_id, transactional)
select job_id, false from acknowledged
except select job_id, false from crash.expected_job
"""
IDLE = """
select exists (
    select from sexton.worker where name = $1 and gone_at is null and cardinality(idle) = 2)
"""
OWNED = """
select count(*) = $1 and coalesce(sum(cardinality(o.partitions)), 0) = 256
    and max(cardinality(o.partitions)) - min(cardinality(o.partitions)) <= 1
from sexton.ownership as o
join sexton.node as n on n.id = o.node_id and n.gone_at is null
"""
ENDED = """
select not exists (
    select from crash.expected_job as expected
    where not exists (
        select from sexton.attempt
        where attempt.job_id = expected.job_id and attempt.next <> 'waiting'))
"""
FIRED = """
select not exists (
    select from crash.expected_fire as expected
    where not exists (
        select from sexton.fire
        where fire.schedule_id = expected.schedule_id and fire.fire_at = expected.fire_at))
"""
TAKE_BACK = """
with taken as (
    update sexton.due
    set next_fire_at = 'infinity', stamp = stamp + 1
    where schedule_id = (select max(schedule_id) from sexton.due) and next_fire_at = anchor
    returning schedule_id
)
delete from crash.expected_fire using taken where expected_fire.schedule_id = taken.schedule_id
"""
AGAIN = """
with moved as (
    update sexton.due
    set next_fire_at = clock_timestamp() + make_interval(secs => $1), stamp = stamp + 1
    returning schedule_id, next_fire_at
),
expected as (
    insert into crash.expected_fire (schedule_id, fire_at)
    select schedule_id, next_fire_at from moved
)
select pg_notify('sexton.wake', 'schedule')::text
"""
REPLACED = """
select not exists (select from sexton.replaced join sexton.job on job.id = replaced.job_id)
    and (select count(*) = count(distinct schedule_id) from sexton.job)
"""
QUIET = """
select not exists (
    select from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and state = 'active')
"""
BACK = """
select exists (select from sexton.worker where name = $1 and gone_at is null and renewed_at > $2)
    or exists (select from sexton.node where name = $1 and gone_at is null and renewed_at > $2)
"""


@functools.cache
def _schedules() -> str:
    file = resources.files("sexton.torture.crash").joinpath("schedule.sql")
    return file.read_text(encoding="utf-8")


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
        await self.sql.fetch(ENQUEUE, tasks, [json.dumps(each) for each in payloads], keys)

    def let_clients_go(self) -> None:
        self.go_file.touch()

    async def schedule(self, seconds: float, count: int = 2, **policy: Any) -> None:
        """Schedules that fire once, so many seconds from now; all of them shall."""
        rule = self.app.schedules.spec("s", "quick", every="1h", **policy).terms.text
        await self.sql.fetch(_schedules(), count, seconds, rule)

    async def again(self, seconds: float) -> None:
        """They shall once more, so many seconds from now, as if their rule had said so."""
        await self.sql.fetch(AGAIN, seconds)

    async def take_back(self) -> None:
        """The newest schedule, unless it has fired: as an edit would, but nobody is told."""
        await self.sql.execute(TAKE_BACK)

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
        await self.sql.execute(ACKNOWLEDGED, json.dumps(answers))
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
        await self.until_so(f"{name} sleeps", IDLE, name)

    async def until_owned(self, nodes: int) -> None:
        await self.until_so(f"{nodes} nodes own everything, evenly", OWNED, nodes)

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
        return await self.so(ENDED)

    async def fired(self) -> bool:
        """Every schedule that is expected has, once it is due."""
        return await self.so(FIRED)

    async def replaced(self) -> bool:
        """Of every schedule one job lives, and none that is to be asked to end; whoever was about
        to cross it out, and stands still, holds up nobody."""
        return await self.so(REPLACED)

    async def until_quiet(self) -> None:
        """Until nothing is at work in the database, a few looks in a row."""
        looks = 0
        while looks < QUIET_LOOKS:
            await asyncio.sleep(LOOK_EVERY)
            looks = looks + 1 if await self.so(QUIET) else 0

    async def until_back(self, name: str, since: Any) -> None:
        """Until it has renewed a lease, its old one or a new one; a client, been answered."""
        if self.processes[name].role == "client":
            await self.until(f"{name} is answered", lambda: self.answered(name))
        else:
            await self.until_so(f"{name} is back", BACK, name, since)

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
