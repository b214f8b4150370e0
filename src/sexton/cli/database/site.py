"""Jobs at the database, with the verbs of `sexton.remote.Server`."""

import functools
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from sexton.app import Sexton
from sexton.cli.database.bulk import enqueue_many
from sexton.cli.database.calendars import Calendars
from sexton.cli.database.dead import DeadJobs
from sexton.cli.database.ground import Ground, refused
from sexton.cli.database.keeping import Endpoints, Keys, Tenants, audit_log
from sexton.cli.database.logged import Change
from sexton.cli.database.paging import as_all, cursor_of, read_cursor
from sexton.cli.database.schedules import Schedules
from sexton.domain.job import Enqueued, NewJob, State
from sexton.domain.partition import PARTITIONS
from sexton.remote.admin import Cluster, LogLine, Node
from sexton.remote.schedules import Target
from sexton.remote.views import (
    Cancelled,
    JobLine,
    Line,
    Page,
    Progress,
    Queue,
    Retried,
    Worker,
)
from sexton.store.pages import END_OF_TIME, LAST_ID, PLANNED, Wanted
from sexton.targets.arguments import encode
from sexton.targets.task import Call, checked_text

# Ids are handed out in the order of time but for what transactions of this length do.
SLACK = timedelta(minutes=1)


class Database(DeadJobs):
    """An open application, as the commands use it: for one tenant, and in pages."""

    def __init__(self, app: Sexton, tenant: str) -> None:
        super().__init__(Ground(app, tenant))
        self.app = app
        self.schedules = Schedules(self.ground)
        self.calendars = Calendars(self.ground)
        self.endpoints = Endpoints(self.ground)
        self.keys = Keys(self.ground)
        self.tenants = Tenants(self.ground)

    async def now(self) -> datetime:
        """By the database's clock, which is the one that counts."""
        return await (await self.ground.store()).history.clock()

    # ── jobs ────────────────────────────────────────────────────────────────

    async def enqueue(
        self, target: Target, arguments: Mapping[str, Any] | None = None, **options: Any
    ) -> Enqueued:
        task = checked_text("a task's name", await self.ground.task(target))
        payload = encode(dict(arguments or {}), f"task {task!r}", self.app.max_payload_bytes)
        given = {name: value for name, value in options.items() if value is not None}
        call = Call(self.app, NewJob(task, payload, "", None)).options(**given)
        call.job.tenant = await self.ground.owner()
        client = await self.app.client()

        async def enqueue(change: Change) -> Enqueued:
            made = await client.enqueue_named(call.job, change.store.source)
            if not made.duplicate:
                said = {"task": task, "queue": call.job.queue or None, "key": call.job.key}
                change.log("job.enqueue", str(made.id), after=said)
            return made

        return await self.ground.changed(enqueue)

    async def declared_without(self, task: str, queue: str | None) -> list[str]:
        """What workers know, if this task is not known to them."""
        workers = (await self.ground.store()).workers
        return await workers.declared_without(task, queue, await self.ground.owner())

    def enqueue_many(self, jobs: Iterable[Mapping[str, Any]]) -> AsyncIterator[Line]:
        return enqueue_many(self.ground, jobs)

    async def jobs(
        self,
        *,
        state: State | None = None,
        task: str | None = None,
        queue: str | None = None,
        tag: str | None = None,
        key: str | None = None,
        schedule: str | None = None,
        from_: datetime | None = None,
        to: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[JobLine]:
        wanted = Wanted(state, task, queue, tag, key, from_, to)
        owner = await self.ground.owner()
        if schedule is not None:
            of = await self.schedules.get(schedule)
            end = END_OF_TIME if cursor is None else read_cursor(cursor, datetime)
            async with self.ground.listing(PLANNED) as store:
                page = await store.pages.jobs_of_schedule(
                    of.id, owner, wanted, before=end, limit=limit
                )
        else:
            before, down_to = LAST_ID, 0
            async with self.ground.listing(PLANNED) as store:
                if cursor is not None:
                    before, down_to = read_cursor(cursor, tuple[int, int])
                else:
                    if from_ is not None:
                        down_to = await store.pages.id_at(from_ - SLACK)
                    if to is not None:
                        before = await store.pages.id_at(to + SLACK, after=True)
                floor = 0
                if owner == 1 and not await store.pages.only_tenant():
                    floor = await store.pages.floor(before)
                page = await store.pages.jobs(
                    *(owner, wanted),
                    before=before,
                    down_to=down_to,
                    looks_down_to=floor,
                    limit=limit,
                )
        beyond = page.beyond
        if beyond is not None and schedule is None:
            beyond = (*beyond, down_to)
        return Page(as_all(page.lines, JobLine), cursor_of(beyond))

    async def progress(self, id: int) -> Progress:
        view = await self._view(id)
        return Progress(id, view.state, view.attempt, view.progress)

    async def cancel(self, id: int) -> Cancelled:
        waker = (await self.app.client()).waker

        async def cancel(change: Change) -> Cancelled | None:
            answers = await change.store.jobs.cancel([id], tenant=change.owner)
            if id not in answers:
                return None
            worker = answers[id]
            if worker is None:
                change.log("job.cancel", str(id), after={"state": "cancelled"})
                return Cancelled(id, "cancelled")
            change.log("job.cancel", str(id), after={"state": "running", "cancel_requested": True})
            change.after_commit(functools.partial(waker.tell, worker))
            return Cancelled(id, "running")

        done = await self.ground.changed(cancel)
        if done is None:
            state = (await self._view(id)).state
            if state != "cancelled":
                raise refused(409, f"job {id} has ended already: it is {state}")
            return Cancelled(id, state)
        return done

    async def retry(self, id: int) -> Retried:
        from sexton.api.routes.jobs import retry

        return await self.ground.asked(retry, id, kind=Retried)

    # ── looking around ──────────────────────────────────────────────────────

    async def queues(self) -> list[Queue]:
        found = await (await self.ground.store()).pages.queues(await self.ground.owner())
        return as_all(found, Queue)

    async def workers(self, *, limit: int = 50, cursor: str | None = None) -> Page[Worker]:
        after = 0 if cursor is None else read_cursor(cursor, int)
        store = await self.ground.store()
        lines = await store.remote.workers(await self.ground.owner(), after, limit)
        following = cursor_of((lines[-1].id,)) if len(lines) == limit else None
        return Page(as_all(lines, Worker), following)

    async def cluster(self) -> Cluster:
        store = await self.ground.store()
        leader, nodes = await store.cluster.leader(), await store.cluster.nodes()
        said = [msgspec.to_builtins(each) for each in nodes]
        return Cluster(
            term=leader.term,
            leader=leader.node if leader.leads else None,
            elected_at=leader.elected_at,
            partitions=PARTITIONS,
            owned=sum(each.partitions for each in nodes),
            nodes=[msgspec.convert({**each, "leader": each["leads"]}, Node) for each in said],
        )

    async def audit_log(
        self, *, limit: int = 50, cursor: str | None = None, **filters: Any
    ) -> Page[LogLine]:
        return await audit_log(self.ground, filters, limit, cursor)
