"""/v1/jobs: make, look at, stop and repeat jobs."""

from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Response

from sexton.api import pages
from sexton.api.call import Answer, Operator
from sexton.api.desk import Desk
from sexton.api.enqueue import enqueue, new_job, wake
from sexton.api.limits import room_for_jobs
from sexton.api.models.common import Instant
from sexton.api.models.jobs import (
    CancelOut,
    EnqueuedOut,
    JobId,
    JobIn,
    JobLineOut,
    JobOut,
    KeyFilter,
    NameFilter,
    ProgressOut,
    RetryOut,
    State,
)
from sexton.api.pages import Cursor, Limit, Page
from sexton.api.problems import Problem, problems
from sexton.api.roles import JobMaker, JobReader
from sexton.api.schedule import targets
from sexton.domain.job import JobView, NewJob
from sexton.errors import UnknownJob
from sexton.store.pages import END_OF_TIME, LAST_ID, PLANNED, JobLine, Wanted
from sexton.store.pages import Page as StorePage

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

# Ids are handed out in the order of time but for what transactions of this length do.
SLACK = timedelta(minutes=1)
# What the target of a job is told as, whose endpoint was deleted.
GONE = {"http": {"endpoint": None}}


# ── making ──────────────────────────────────────────────────────────────────


@router.post(
    "",
    status_code=201,
    responses=problems(404, 409)
    | {
        200: {"model": EnqueuedOut, "description": "A live job has the key: none was made."},
        201: {"model": EnqueuedOut, "description": "Made."},
    },
    response_model=None,
)
async def add(body: JobIn, call: JobMaker) -> Response:
    """Enqueue a job. With a `key` at most one job of the task lives."""

    async def work(desk: Desk) -> Answer:
        job = await new_job(desk, body.__dict__)
        await room_for_jobs(desk, 1)
        [enqueued] = await enqueue(desk, [job])
        made = {"id": enqueued.id, "duplicate": enqueued.duplicate}
        if enqueued.duplicate:
            return Answer(made)
        desk.log("job.enqueue", str(enqueued.id), after=_logged(job))
        return Answer(made, 201, {"Location": f"/v1/jobs/{enqueued.id}"})

    return await call.change(work)


def _logged(job: NewJob) -> dict[str, Any]:
    """Without the payload, which is in the job."""
    return {"task": job.task, "queue": job.queue or None, "key": job.key}


# ── looking ─────────────────────────────────────────────────────────────────


@router.get("", responses=problems(404) | {200: {"model": Page[JobLineOut]}}, response_model=None)
async def list_jobs(
    call: JobReader,
    state: Annotated[State | None, Query(description="Only in this state.")] = None,
    task: Annotated[NameFilter, Query(description="Only of this task.")] = None,
    queue: Annotated[NameFilter, Query(description="Only of this queue.")] = None,
    tag: Annotated[NameFilter, Query(description="Only with this tag.")] = None,
    key: Annotated[KeyFilter, Query(description="Only with this key.")] = None,
    schedule: Annotated[NameFilter, Query(description="Only made by this one's fires.")] = None,
    from_: Annotated[
        Instant | None, Query(alias="from", description="Only made from this instant on.")
    ] = None,
    to: Annotated[Instant | None, Query(description="Only made before this instant.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Jobs, live and finished, newest first; those of one schedule by their fires.

    Every page costs the same. With filters one may be short, or empty, and still have a `next`.
    """
    wanted = Wanted(state, task, queue, tag, key, from_, to)

    async def work(desk: Desk) -> Answer:
        await desk.connection.execute(PLANNED, timeout=desk.service.patience)
        if schedule is not None:
            page = await _of_schedule(desk, schedule, wanted, limit, cursor)
        else:
            page = await _of_tenant(desk, wanted, limit, cursor)
        following = None if page.beyond is None else pages.cursor(*page.beyond)
        return Answer(pages.page(page.lines, following))

    return await call.read(work)


async def _of_tenant(
    desk: Desk, wanted: Wanted, limit: int, cursor: str | None
) -> StorePage[JobLine]:
    place = pages.place(cursor, tuple[int, int])
    owner = desk.service.owner.pages
    if place is None:
        down_to, before = 0, LAST_ID
        if wanted.created_from is not None:
            down_to = await owner.id_at(wanted.created_from - SLACK)
        if wanted.created_to is not None:
            before = await owner.id_at(wanted.created_to + SLACK, after=True)
    else:
        before, down_to = place
    looks_down_to = 0
    if desk.tenant_id == 1 and not await owner.only_tenant():
        looks_down_to = await owner.floor(before)
    page = await desk.store.pages.jobs(
        desk.tenant_id,
        wanted,
        before=before,
        down_to=down_to,
        looks_down_to=looks_down_to,
        limit=limit,
    )
    return StorePage(page.lines, None if page.beyond is None else (*page.beyond, down_to))


async def _of_schedule(
    desk: Desk, schedule: str, wanted: Wanted, limit: int, cursor: str | None
) -> StorePage[JobLine]:
    place = pages.place(cursor, tuple[datetime])
    standing = await desk.schedules.get(schedule, tenant=desk.tenant)
    before = END_OF_TIME if place is None else place[0]
    return await desk.store.pages.jobs_of_schedule(
        standing.id, desk.tenant_id, wanted, before=before, limit=limit
    )


@router.get("/{id:id}", responses=problems(404) | {200: {"model": JobOut}}, response_model=None)
async def read(id: JobId, call: JobReader) -> Response:
    """One job with its payload, result, and every attempt."""

    async def work(desk: Desk) -> Answer:
        return Answer(await job_out(desk, await demand_job(desk, id)))

    return await call.look(work)


@router.get(
    "/{id:id}/progress",
    responses=problems(404) | {200: {"model": ProgressOut}},
    response_model=None,
)
async def progress(id: JobId, call: JobReader) -> Response:
    """How far a job is, as it said itself."""

    async def work(desk: Desk) -> Answer:
        live = await desk.store.remote.progress(id, desk.tenant_id)
        if live is None:
            job = await demand_job(desk, id)
            return Answer(_progress(id, job.state, job.attempt, None))
        state, attempt, said = live
        return Answer(_progress(id, state, attempt, said))

    return await call.look(work)


def _progress(id: int, state: State, attempt: int, said: str | None) -> dict[str, Any]:
    progress = None if said is None else msgspec.Raw(said.encode())
    return {"id": id, "state": state, "attempt": attempt, "progress": progress}


async def demand_job(desk: Desk, id: int) -> JobView:
    view = await desk.store.history.job(id, tenant=desk.tenant_id)
    if view is None:
        raise UnknownJob(f"there is no job {id}, live, dead or in the history that is kept")
    return view


_TOLD = tuple(name for name in JobView.__dataclass_fields__ if name != "tenant")


async def job_out(desk: Desk, job: JobView) -> dict[str, Any]:
    known = await targets(desk, [job.task])
    return {name: getattr(job, name) for name in _TOLD} | {"target": known[job.task]}


# ── stopping and repeating ──────────────────────────────────────────────────


@router.post(
    "/{id:id}/cancel",
    responses=problems(404, 409)
    | {
        200: {"model": CancelOut, "description": "It has ended."},
        202: {"model": CancelOut, "description": "It runs, and its worker was asked to stop it."},
    },
    response_model=None,
)
async def cancel(id: JobId, call: Operator) -> Response:
    """End a live job: one that waits at once, one that runs through its worker."""

    async def work(desk: Desk) -> Answer:
        answers = await desk.store.jobs.cancel([id], tenant=desk.tenant_id)
        if id not in answers:
            state = (await demand_job(desk, id)).state
            if state == "cancelled":
                return Answer({"id": id, "state": state})
            raise Problem(409, "conflict", f"job {id} has ended already: it is {state}")
        worker = answers[id]
        if worker is None:
            desk.log("job.cancel", str(id), after={"state": "cancelled"})
            return Answer({"id": id, "state": "cancelled"})
        desk.log("job.cancel", str(id), after={"state": "running", "cancel_requested": True})
        waker = (await desk.service.app.client()).waker
        desk.after_commit(lambda: waker.tell(worker))
        return Answer({"id": id, "state": "running"}, 202)

    return await call.change(work)


@router.post(
    "/{id:id}/retry",
    responses=problems(404, 409)
    | {
        200: {"model": RetryOut, "description": "The same job is ready now."},
        201: {"model": RetryOut, "description": "It had ended: a new one does the same again."},
    },
    response_model=None,
)
async def retry(id: JobId, call: Operator) -> Response:
    """Try a job again now: one that waits for its retry, a dead one, or one that has ended.

    A dead one gets a fresh budget of attempts. For one that succeeded or was cancelled a new job
    is made, with the same payload, queue and tags, and without its key.
    """
    return await call.change(lambda desk: _retry(desk, id))


async def _retry(desk: Desk, id: int) -> Answer:
    job = await demand_job(desk, id)
    match job.state:
        case "ready":
            return Answer({"id": id, "state": "ready", "retried": id})
        case "running":
            raise Problem(409, "conflict", f"job {id} runs: it is tried just now")
        case "waiting":
            queue = await desk.store.remote.hurry(id, desk.tenant_id)
            if queue is None:
                waits = f"it waits for job {job.after_job}" if job.after_job else "look again"
                raise Problem(409, "conflict", f"job {id} cannot be hurried: {waits}")
            await wake(desk, {queue})
        case "dead":
            await room_for_jobs(desk, 1)
            redriven = await desk.store.history.redrive(ids=[id], tenant=desk.tenant_id)
            if not any(each.revived for each in redriven):
                raise Problem(409, "conflict", f"job {id} stays dead: a live job holds its key")
            await wake(desk, {job.queue})
        case _:
            return await _again(desk, job)
    desk.log("job.retry", str(id), before={"state": job.state}, after={"state": "ready"})
    return Answer({"id": id, "state": "ready", "retried": id})


async def _again(desk: Desk, job: JobView) -> Answer:
    """Another job like one that has ended; only history knows it, and not all of it."""
    if (await targets(desk, [job.task]))[job.task] == GONE:
        raise Problem(409, "conflict", f"job {job.id}: its endpoint is gone")
    await room_for_jobs(desk, 1)
    tags = list(job.tags) or None
    made = NewJob(job.task, "", job.queue, None, tags=tags, tenant=desk.tenant_id)
    payload = await desk.store.remote.payload(job.id, desk.tenant_id)
    if payload is None:
        raise Problem(409, "conflict", f"job {job.id}: its payload is not kept any more")
    made.payload = payload
    [enqueued] = await enqueue(desk, [made])
    before, after = {"state": job.state}, {"job": enqueued.id}
    desk.log("job.retry", str(job.id), before=before, after=after)
    return Answer(
        {"id": enqueued.id, "state": "ready", "retried": job.id},
        201,
        {"Location": f"/v1/jobs/{enqueued.id}"},
    )
