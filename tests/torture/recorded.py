"""A small real run, recorded: nodes and workers in this process, with all that a checker looks at.

Two tenants; every misfire and overlap policy; jobs that fail, die, are redriven, limited, keyed,
cancelled; a worker that freezes and is reaped; a node that falls silent; a pause, an edit, a
backfill, a trigger, a cancel, a calendar that is changed; and an outage of all nodes, long enough
for misfires.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from importlib import resources
from pathlib import Path
from typing import Any

import asyncpg

from sexton.domain.job import PRIORITIES
from sexton.domain.transitions import RELEASED
from sexton.flow.scheduler import Scheduler
from sexton.store.jobs import BEGINNING
from sexton.targets.job import idempotency_key
from sexton.torture.capture import dump, install

from .diary import SECOND, Diary, Line, described, iso, make_app, now_us
from .planted import ACME, DEFAULT, Plants

LONGEST = 60.0


class Recording:
    """The scenes of the run, one after the other."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.diary = Diary(folder)
        self.app = make_app(url, self.diary)
        self.tenants = {DEFAULT: 1}
        self.stopped_at = 0
        self.connection: asyncpg.Connection
        self._one_at_a_time = asyncio.Lock()

    async def run(self) -> None:
        self.connection = await asyncpg.connect(self.url)
        try:
            await self._prepare()
            began = now_us()
            await self._play()
            self.write_run(began)
            await dump(self.connection, self.folder)
        finally:
            await self.connection.close()
            await self.app.close()

    def write_run(self, began: int) -> None:
        run = {
            "seed": 7,
            "seconds": 20,
            "commit": "recorded",
            "command": ["sexton", "torture", "--seed", "7", "--seconds", "20"],
            "calm_at": began,
            "stopped_at": self.stopped_at,
        }
        (self.folder / "run.json").write_text(json.dumps(run))

    async def until(self, what: str, query: str, *given: Any) -> None:
        """Until PostgreSQL says yes."""
        async with asyncio.timeout(LONGEST):
            while not await self._ask(query, *given):
                await asyncio.sleep(0.02)

    async def _ask(self, query: str, *given: Any) -> Any:
        async with self._one_at_a_time:
            return await self.connection.fetchval(query, *given)

    # ── before ──────────────────────────────────────────────────────────────

    async def _prepare(self) -> None:
        await install(self.connection)
        table = resources.files("sexton.torture.work").joinpath("effect_table.sql").read_text()
        await self.connection.execute(table)
        self.tenants[ACME] = await self.connection.fetchval(
            "insert into sexton.tenant (name) values ($1) returning id", ACME
        )
        await self.app.declare()
        begins = now_us() // SECOND * SECOND
        ranges = _every_fourth_second(begins)
        await self.app.calendars.put("freezes", ranges=_told(ranges), tenant=ACME)
        calendar = {"tenant": ACME, "name": "freezes", "ranges_us": ranges}
        self._dump("calendars", [calendar])
        self._dump("ledger", [])
        self._dump("tasks", described(self.app))
        plants = Plants(self.app, begins)
        await plants.all()
        self._dump("population", plants.lines)

    def _dump(self, name: str, lines: list[Line]) -> None:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (self.folder / "dump" / f"{name}.jsonl").write_text(text)

    # ── the play ────────────────────────────────────────────────────────────

    async def _play(self) -> None:
        frozen = await self._claim("frozen", 1.0)  # and is not heard of again, for a while
        await self._let_go()
        worker = await self.app.worker(["default", "cold"], concurrency=50, name="worker-1")
        working = asyncio.create_task(worker.run())
        one, two = [await self._node(f"node-{n}") for n in (1, 2)]
        await self.until(
            "both have their share",
            "select count(*) = 2 from sexton.ownership where cardinality(partitions) = 128",
        )
        await asyncio.gather(self._enqueue(), self._operate(), self._thaw(frozen))
        self.diary.fault("begin", 1, "kill", "node-2")
        await two[0].member.stop()
        await self.until(
            "the other has it all",
            "select exists (select from sexton.ownership where cardinality(partitions) = 256)",
        )
        self.diary.fault("begin", 2, "outage", "nodes")
        await self._stop(*one)
        await self._stop(*two)
        await self.until(
            "everything is late",
            "select max(next_fire_at) < clock_timestamp() - interval '10.5 s' from sexton.due "
            "where next_fire_at < clock_timestamp() + interval '1 min'",
        )
        three = await self._node("node-3")
        self.diary.fault("end", 2, "outage", "nodes")
        await self.until(
            "all is caught up",
            "select not exists (select from sexton.due "
            "where late or next_fire_at < clock_timestamp() - interval '1 s') "
            "and exists (select from sexton.fire where kind = 'catch_up')",
        )
        await self._late(DEFAULT)
        self.stopped_at = now_us()
        await self._stop(*three)
        worker.stop()
        await working

    async def _node(self, name: str) -> tuple[Scheduler, "asyncio.Task[None]"]:
        node = await self.app.scheduler(name=name)
        running = asyncio.create_task(node.run())
        await node.started.wait()
        return node, running

    async def _stop(self, node: Scheduler, running: "asyncio.Task[None]") -> None:
        node.stop()
        await running

    async def _claim(self, name: str, lease: float) -> Line:
        """A job, claimed by a worker that is nothing but a row; what its effects have in common."""
        made = await self._one(DEFAULT, "cold", name)
        store = (await self.app.client()).store
        worker = await store.workers.register(name, ["cold"], "test", lease)
        lanes = [*PRIORITIES]
        [claim] = await store.jobs.claim("cold", 1, worker, lanes, [BEGINNING] * len(lanes))
        payload: Line = {"id": name, "tenant": DEFAULT, "rev": 0}
        more: Line = {"task": "cold", "tenant": DEFAULT, "worker_pid": 1, "payload": payload}
        more |= dict.fromkeys(("key", "schedule", "fire_at"))
        more["idempotency_key"] = idempotency_key(claim, await store.workers.installation())
        found = {"job": made, "attempt": claim.attempt, "fence": claim.fence, **more}
        self.diary.effect("begin", **found)
        return found

    async def _let_go(self) -> None:
        """By a worker that puts it back at once, and stays."""
        hasty = await self._claim("hasty", 600.0)
        self.diary.effect("fail", **hasty)
        store = (await self.app.client()).store
        await store.jobs.settle([(hasty["job"], hasty["fence"], RELEASED)])

    async def _thaw(self, frozen: Line) -> None:
        """It goes on when another has the job; its effect comes too late, and is allowed to."""
        await self.until("it runs again", _RUNS_AGAIN, frozen["job"], frozen["fence"])
        self.diary.effect("effect", **frozen)
        await self.until(
            "it is over", "select not exists (select from sexton.job where id = $1)", frozen["job"]
        )

    async def _one(self, tenant: str, task: str, id: str, via: str = "python", **more: Any) -> int:
        """Enqueue one job, and write down what was told."""
        named = [name for name in ("key", "limit_key", "delay") if name in more]
        options: Line = {name: more.pop(name) for name in named}
        payload: Line = {"id": id, "tenant": tenant, "rev": 0, **more}
        call = self.app.tasks[task].call(**payload).options(**options)
        call.job.tenant = self.tenants[tenant]

        async def work() -> Line:
            made = await self.app.enqueue_call(call)
            told = {"payload_id": id, "id": made.id, "duplicate": made.duplicate}
            return {"jobs": [told]}

        body = {"jobs": [{"task": task, "payload": payload, **options}]}
        answer = await self.diary.ask("enqueue", tenant, None, body, work(), via)
        id_: int = answer["jobs"][0]["id"]
        return id_

    async def _enqueue(self) -> None:
        for nth in range(60):
            tenant = (DEFAULT, ACME)[nth % 2]
            await self._one(tenant, "fails", f"fails-{nth}", times=1 + nth % 3)
        for nth in range(8):
            await self._one(DEFAULT, "limited", f"limited-{nth}", limit_key=f"l{nth % 3}")
            await self._one(ACME, "transactional", f"transactional-{nth}")
            await self._one(ACME, "quick", f"quick-{nth}")
        for nth in range(4):
            await self._one(ACME, "slow", f"keyed-{nth}", key=f"k{nth % 2}", seconds=0.3)
        await self._one(DEFAULT, "snoozes", "snoozes")
        await self._one(DEFAULT, "quick", "someday", delay=3600)
        dead = await self._one(ACME, "dies", "dies")
        await self.until(
            "it is dead", "select exists (select from sexton.dead where job_id = $1)", dead
        )

        async def redrive() -> Line:
            done = await self.app.redrive(dead)
            return {"jobs": [{"id": each.id, "revived": each.revived} for each in done]}

        await self.diary.ask("redrive", ACME, None, {"ids": [dead]}, redrive())
        waits = await self._one(DEFAULT, "quick", "waits", delay=600)

        async def cancel() -> Line:
            return {"ended": (await self.app.cancel(waits)).get(waits)}

        await self.diary.ask("cancel_job", DEFAULT, waits, {}, cancel())

        async def never() -> Line:
            raise ValueError("refused")

        body = {"jobs": [{"task": "quick", "payload": {"id": "refused", "tenant": DEFAULT}}]}
        await self.diary.ask("enqueue", DEFAULT, None, body, never())

    async def _operate(self) -> None:
        """An operator's day; each verb when the schedule has fired a few times."""
        ask, schedules = self.diary.ask, self.app.schedules
        await self._fired("paused", 2)
        paused_at = now_us()
        pause = _seen(lambda: schedules.pause("paused", "torture 1"))
        await ask("pause", DEFAULT, "paused", {"reason": "torture 1", "until_us": None}, pause)
        pause = _seen(lambda: schedules.pause("rested", "torture 2"))
        await ask("pause", DEFAULT, "rested", {"reason": "torture 2", "until_us": None}, pause)
        payload = {"id": "default/edited", "tenant": DEFAULT, "rev": now_us()}
        anchor = now_us() // SECOND * SECOND - 30 * SECOND + 123_000
        told: Line = {"every": 1, "anchor": iso(anchor), "misfire": "latest"}
        await self._fired("edited", 3)
        update = _seen(lambda: schedules.update("edited", arguments=payload, **told))
        when = [{"every_us": SECOND, "anchor_us": anchor}]
        body = {"payload": payload, "options": told, "when": when, "timezone": "UTC"}
        await ask("update", DEFAULT, "edited", body, update)

        async def trigger() -> Line:
            return {"job": await schedules.trigger("paused")}

        await ask("trigger", DEFAULT, "paused", {"payload": None}, trigger())
        await self._fired("cancelled", 2)
        cancel = _seen(lambda: schedules.cancel("cancelled", "torture", tenant=ACME))
        await ask("cancel_schedule", ACME, "cancelled", {}, cancel)
        await self._fired("open", 3)
        ranges = _every_fourth_second(now_us() // SECOND * SECOND)

        async def put() -> Line:
            many = await self.app.calendars.put("freezes", ranges=_told(ranges), tenant=ACME)
            return {"recomputed": many}

        await ask("put_calendar", ACME, "freezes", {"ranges_us": ranges}, put())
        await self._fired("open", 6)
        await self.until("it missed some", _LATER_THAN, paused_at + 2 * SECOND)
        await ask("resume", DEFAULT, "paused", {}, _seen(lambda: schedules.resume("paused")))
        await ask("resume", DEFAULT, "rested", {}, _seen(lambda: schedules.resume("rested")))
        first, end = paused_at, now_us()

        async def backfill() -> Line:
            given = (iso(first), iso(end))
            return {"id": await schedules.backfill("paused", *given, rate=20)}

        span = {"from_us": first, "to_us": end, "rate": 20.0}
        await ask("backfill", DEFAULT, "paused", span, backfill())
        await self.until("it is done", "select count(finished_at) = 1 from sexton.backfill")

    async def _late(self, tenant: str) -> None:
        """Something after the outage, of the same lanes as before it."""
        last = [await self._one(tenant, "quick", f"last-{nth}") for nth in range(5)]
        query = "select not exists (select from sexton.job where id = any ($1::bigint[]))"
        await self.until("they are done", query, last)

    async def _fired(self, name: str, times: int) -> None:
        await self.until(f"{name} has fired", _FIRED, name, times)


_FIRED = """
select count(*) >= $2 from sexton.fire
join sexton.schedule on schedule.id = fire.schedule_id and schedule.name = $1
"""
_LATER_THAN = "select torture.us(clock_timestamp()) > $1"
_RUNS_AGAIN = (
    "select exists (select from sexton.job where id = $1 and fence > $2 and claimed_by is not null)"
)


def _every_fourth_second(begins: int) -> list[list[int]]:
    return [[begins + n * SECOND, begins + (n + 1) * SECOND] for n in range(1, 120, 4)]


def _told(ranges: list[list[int]]) -> list[str]:
    """As a calendar is told them."""
    return [f"{iso(first)}/{iso(last)}" for first, last in ranges]


async def _seen(work: Callable[[], Awaitable[Any]]) -> Line:
    view = await work()
    since = round(view.since.timestamp() * SECOND)
    return {"version": view.version, "state": view.state, "since_us": since}


def record(url: str, folder: Path) -> Path:
    """Play it, and leave its folder."""

    async def play() -> None:
        async with asyncio.timeout(90):
            await Recording(url, folder).run()

    asyncio.run(play())
    return folder
