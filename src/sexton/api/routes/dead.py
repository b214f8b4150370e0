"""/v1/dead: jobs that will not be tried again by themselves."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from sexton.api import pages
from sexton.api.call import Answer, Operator, Viewer
from sexton.api.desk import Desk
from sexton.api.enqueue import wake
from sexton.api.limits import room_for_jobs
from sexton.api.models.common import Instant
from sexton.api.models.dead import (
    LONGEST_PART,
    DeadChoiceIn,
    DeadLineOut,
    DeadOut,
    PurgeOut,
    Reason,
    RedriveOut,
)
from sexton.api.models.jobs import JobId, KeyFilter, NameFilter
from sexton.api.pages import Cursor, Limit, Page
from sexton.api.problems import Problem, problems
from sexton.api.routes.jobs import demand_job, job_out
from sexton.errors import UnknownJob
from sexton.store.history import Redriven
from sexton.store.pages import PLANNED, WantedDead

router = APIRouter(prefix="/v1/dead", tags=["dead"])

_FIELDS = DeadOut.model_fields
_MOST_LOGGED = 100


@router.get("", responses=problems() | {200: {"model": Page[DeadLineOut]}}, response_model=None)
async def list_dead(
    call: Viewer,
    task: Annotated[NameFilter, Query(description="Only of this task.")] = None,
    queue: Annotated[NameFilter, Query(description="Only of this queue.")] = None,
    tag: Annotated[NameFilter, Query(description="Only with this tag.")] = None,
    key: Annotated[KeyFilter, Query(description="Only with this key.")] = None,
    reason: Annotated[Reason | None, Query(description="Only for this reason.")] = None,
    error: Annotated[
        KeyFilter, Query(max_length=LONGEST_PART, description="Only if the error contains this.")
    ] = None,
    from_: Annotated[
        Instant | None, Query(alias="from", description="Only dead from this instant on.")
    ] = None,
    to: Annotated[Instant | None, Query(description="Only dead before this instant.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Dead jobs, the latest death first. With filters a page may be short and have a `next`."""
    wanted = WantedDead(task, queue, tag, key, reason, error, from_, to)
    before = pages.place(cursor, tuple[datetime, int])

    async def work(desk: Desk) -> Answer:
        await desk.connection.execute(PLANNED, timeout=desk.service.patience)
        page = await desk.store.pages.dead(desk.tenant_id, wanted, before=before, limit=limit)
        following = None if page.beyond is None else pages.cursor(*page.beyond)
        return Answer(pages.page(page.lines, following))

    return await call.read(work)


@router.get("/{id:id}", responses=problems(404) | {200: {"model": DeadOut}}, response_model=None)
async def read(id: JobId, call: Viewer) -> Response:
    """One dead job with its payload, its error and every attempt."""

    async def work(desk: Desk) -> Answer:
        reason = await desk.store.pages.why_dead(desk.tenant_id, id)
        if reason is None:
            raise UnknownJob(f"there is no dead job {id}")
        job = await job_out(desk, await demand_job(desk, id))
        job |= {"reason": reason, "died_at": job["finished_at"]}
        return Answer({name: job[name] for name in _FIELDS})

    return await call.read(work)


@router.post("/redrive", responses=problems() | {200: {"model": RedriveOut}}, response_model=None)
async def redrive(body: DeadChoiceIn, call: Operator) -> Response:
    """Give dead jobs another life, with a fresh budget of attempts; `dry_run` only says which.

    A job keeps its id and its history. One whose key a live job holds stays dead.
    """
    choice = _choice(body)

    async def work(desk: Desk) -> Answer:
        chosen = await _chosen(desk, choice, dry_run=True)
        if not body.dry_run and chosen:
            await room_for_jobs(desk, len(chosen))
            these = {"ids": [each.id for each in chosen]}
            chosen = await _chosen(desk, choice | these, dry_run=False)
            revived = [each.id for each in chosen if each.revived]
            await wake(desk, {each.queue for each in chosen if each.revived})
            desk.log("dead.redrive", _subject(revived), after=_logged(body, revived))
        return Answer(
            {
                "dry_run": body.dry_run,
                "chosen": len(chosen),
                "redriven": sum(each.revived for each in chosen),
                "jobs": [
                    {name: getattr(each, name) for name in ("id", "queue", "revived", "held")}
                    for each in chosen
                ],
            }
        )

    return await call.change(work)


@router.post("/purge", responses=problems() | {200: {"model": PurgeOut}}, response_model=None)
async def purge(body: DeadChoiceIn, call: Operator) -> Response:
    """Throw dead jobs away for good; `dry_run` only says which. Their attempts stay in history."""
    choice = _choice(body)

    async def work(desk: Desk) -> Answer:
        ids = [each.id for each in await _chosen(desk, choice, dry_run=True)]
        purged: list[int] = []
        if ids and not body.dry_run:
            purged = sorted(await desk.store.history.purge(ids, tenant=desk.tenant_id))
            desk.log("dead.purge", _subject(purged), before=_logged(body, purged))
        return Answer(
            {
                "dry_run": body.dry_run,
                "chosen": len(ids),
                "purged": len(purged),
                "ids": ids if body.dry_run else purged,
            }
        )

    return await call.change(work)


@router.delete("/{id:id}", status_code=204, responses=problems(404), response_model=None)
async def delete(id: JobId, call: Operator) -> Response:
    """Throw one dead job away for good."""

    async def work(desk: Desk) -> Answer:
        if not await desk.store.history.purge([id], tenant=desk.tenant_id):
            raise UnknownJob(f"there is no dead job {id}")
        desk.log("dead.purge", str(id))
        return Answer(status=204)

    return await call.change(work)


def _choice(body: DeadChoiceIn) -> dict[str, Any]:
    """Nothing is ever meant by saying nothing."""
    filters = {} if body.filter is None else body.filter.model_dump(exclude_none=True)
    if not body.ids and not filters:
        raise Problem(
            422,
            "invalid",
            "filter: which ones? Give ids, or a filter by task, queue, error, since, until",
            field="filter",
        )
    limit = body.limit if body.ids is None else max(body.limit, len(body.ids))
    ids = None if body.ids is None else sorted(set(body.ids))
    return {"ids": ids, "limit": limit, **filters}


async def _chosen(desk: Desk, choice: dict[str, Any], *, dry_run: bool) -> list[Redriven]:
    return await desk.store.history.redrive(**choice, dry_run=dry_run, tenant=desk.tenant_id)


def _subject(ids: list[int]) -> str:
    return ", ".join(map(str, ids[:10])) + (", …" if len(ids) > 10 else "")


def _logged(body: DeadChoiceIn, ids: list[int]) -> dict[str, Any]:
    said = body.model_dump(mode="json", exclude_none=True, exclude={"ids"})
    return {"jobs": len(ids), "ids": ids[:_MOST_LOGGED], **said}
