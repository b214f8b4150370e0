"""Jobs at the database, with the verbs of `sexton.remote.Server`."""

from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from sexton.app import Sexton
from sexton.cli.database.bulk import enqueue_many
from sexton.cli.database.calendars import Calendars
from sexton.cli.database.ground import Ground, refused
from sexton.cli.database.keeping import Endpoints, Keys, Tenants, audit_log
from sexton.cli.database.schedules import Schedules
from sexton.domain.job import Enqueued, JobView, NewJob, State
from sexton.domain.partition import PARTITIONS
from sexton.operations import without_deadlock
from sexton.remote.admin import Cluster, LogLine, Node
from sexton.remote.schedules import Target
from sexton.remote.views import (
    Cancelled,
    Dead,
    DeadLine,
    Job,
    JobLine,
    Line,
    Page,
    Progress,
    Purge,
    Queue,
    Redrive,
    Redriven,
    Retried,
    Worker,
)
from sexton.store.pages import END_OF_TIME, LAST_ID, PLANNED, Wanted, WantedDead
from sexton.targets.arguments import encode
from sexton.targets.task import Call, checked_text

# Ids are handed out in the order of time but for what transactions of this length do.
SLACK = timedelta(minutes=1)


class Database:
    """An open application, as the commands use it: for one tenant, and in pages."""

    def __init__(self, app: Sexton, tenant: str) -> None:
        self.app = app
        self.ground = Ground(app, tenant)
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
        return await (await self.app.client()).enqueue_named(call.job, None)

    def enqueue_many(self, jobs: Iterable[Mapping[str, Any]]) -> AsyncIterator[Line]:
        return enqueue_many(self.ground, jobs)

    async def _view(self, id: int) -> JobView:
        view = await (await self.ground.store()).history.job(id, await self.ground.owner())
        if view is None:
            raise refused(404, f"there is no job {id}, live, dead or in the history that is kept")
        return view

    async def job(self, id: int) -> Job:
        view = await self._view(id)
        fields = {name: getattr(view, name) for name in JobView.__dataclass_fields__}
        fields["target"] = (await self.ground.targets([view.task]))[view.task]
        return msgspec.convert(fields, Job, from_attributes=True)

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
            end = END_OF_TIME if cursor is None else _read(cursor, datetime)
            async with self.ground.listing(PLANNED) as store:
                page = await store.pages.jobs_of_schedule(
                    of.id, owner, wanted, before=end, limit=limit
                )
        else:
            before, down_to = LAST_ID, 0
            async with self.ground.listing(PLANNED) as store:
                if cursor is not None:
                    before, down_to = _read(cursor, tuple[int, int])
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
        return Page(_all(page.lines, JobLine), _cursor(beyond))

    async def progress(self, id: int) -> Progress:
        view = await self._view(id)
        return Progress(id, view.state, view.attempt, view.progress)

    async def cancel(self, id: int) -> Cancelled:
        client, owner = await self.app.client(), await self.ground.owner()
        answers = await without_deadlock(lambda: client.store.jobs.cancel([id], tenant=owner))
        if id not in answers:
            state = (await self._view(id)).state
            if state != "cancelled":
                raise refused(409, f"job {id} has ended already: it is {state}")
            return Cancelled(id, state)
        worker = answers[id]
        if worker is None:
            return Cancelled(id, "cancelled")
        client.waker.tell(worker)
        return Cancelled(id, "running")

    async def retry(self, id: int) -> Retried:
        from sexton.api.routes.jobs import retry

        return await self.ground.asked(retry, id, kind=Retried)

    # ── dead jobs ───────────────────────────────────────────────────────────

    async def dead(
        self,
        *,
        task: str | None = None,
        queue: str | None = None,
        tag: str | None = None,
        key: str | None = None,
        reason: str | None = None,
        error: str | None = None,
        from_: datetime | None = None,
        to: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[DeadLine]:
        wanted = WantedDead(task, queue, tag, key, reason, error, from_, to)
        before = None if cursor is None else _read(cursor, tuple[datetime, int])
        owner = await self.ground.owner()
        async with self.ground.listing(PLANNED) as store:
            page = await store.pages.dead(owner, wanted, before=before, limit=limit)
        return Page(_all(page.lines, DeadLine), _cursor(page.beyond))

    async def dead_job(self, id: int) -> Dead:
        reason = await (await self.ground.store()).pages.why_dead(await self.ground.owner(), id)
        if reason is None:
            raise refused(404, f"there is no dead job {id}")
        job = await self.job(id)
        fields = {name: getattr(job, name) for name in Job.__struct_fields__}
        fields |= {"reason": reason, "died_at": job.finished_at}
        return msgspec.convert(fields, Dead, from_attributes=True)

    async def redrive(self, *ids: int, dry_run: bool = False, **filters: Any) -> Redrive:
        chosen = await (await self.ground.store()).history.redrive(
            **_choice(ids, filters), dry_run=dry_run, tenant=await self.ground.owner()
        )
        waker = (await self.app.client()).waker
        for queue, tenant in {(each.queue, each.tenant) for each in chosen if each.revived}:
            waker.wake(queue, tenant)
        jobs = [Redriven(each.id, each.queue, each.revived) for each in chosen]
        return Redrive(dry_run, len(jobs), sum(each.revived for each in jobs), jobs)

    async def purge(self, *ids: int, dry_run: bool = False, **filters: Any) -> Purge:
        history, owner = (await self.ground.store()).history, await self.ground.owner()
        chosen = await history.redrive(**_choice(ids, filters), dry_run=True, tenant=owner)
        meant = [each.id for each in chosen]
        purged = [] if dry_run else await history.purge(meant, tenant=owner)
        return Purge(dry_run, len(meant), len(purged), meant if dry_run else sorted(purged))

    # ── looking around ──────────────────────────────────────────────────────

    async def queues(self) -> list[Queue]:
        found = await (await self.ground.store()).pages.queues(await self.ground.owner())
        return _all(found, Queue)

    async def workers(self, *, limit: int = 50, cursor: str | None = None) -> Page[Worker]:
        after = 0 if cursor is None else _read(cursor, int)
        store = await self.ground.store()
        lines = await store.remote.workers(await self.ground.owner(), after, limit)
        following = _cursor((lines[-1].id,)) if len(lines) == limit else None
        return Page(_all(lines, Worker), following)

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


def _choice(ids: tuple[int, ...], filters: dict[str, Any]) -> dict[str, Any]:
    return {"limit": 1000, **filters, "ids": [*ids] or None}


def _all(found: Iterable[Any], kind: type[Any]) -> list[Any]:
    return [msgspec.convert(each, kind, from_attributes=True) for each in found]


def _cursor(place: tuple[Any, ...] | None) -> str | None:
    if place is None:
        return None
    return "_".join(each.isoformat() if isinstance(each, datetime) else str(each) for each in place)


def _read(cursor: str, kind: Any) -> Any:
    """What `_cursor` made; anybody may have typed something else."""
    parts: list[str] = cursor.split("_")
    try:
        whole = msgspec.convert(parts, tuple[str, str]) if len(parts) == 2 else parts[0]
        return msgspec.convert(whole, kind, strict=False)
    except msgspec.ValidationError:
        raise refused(422, "cursor: is not one that a page ended with") from None
