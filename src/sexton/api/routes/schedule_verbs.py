"""What can be done with a schedule besides changing what it says."""

from typing import Annotated

from fastapi import APIRouter, Body, Path, Response

from sexton.api import limits, pages, tellings
from sexton.api.call import Answer, Operator, Viewer
from sexton.api.desk import Desk
from sexton.api.models.common import Name
from sexton.api.models.schedule_out import BackfillMadeOut, BackfillOut, JobMadeOut, ScheduleOut
from sexton.api.models.schedules import BackfillIn, PauseIn, TriggerIn
from sexton.api.pages import Cursor, Limit, Page
from sexton.api.problems import Problem, problems
from sexton.api.schedule import IfMatch, demand_match, demand_state, etag, find, hold, told, verbs
from sexton.domain.given import LARGEST_ID

router = APIRouter(prefix="/v1/schedules", tags=["schedules"])

# Those need no body.
_PAUSE, _TRIGGER = PauseIn.model_validate({}), TriggerIn.model_validate({})
BackfillId = Annotated[int, Path(ge=1, le=LARGEST_ID, description="The backfill's id.")]


@router.post(
    "/{name}/pause",
    responses=problems(404, 409, 412) | {200: {"model": ScheduleOut}},
    response_model=None,
)
async def pause_schedule(
    name: Name,
    call: Operator,
    body: Annotated[PauseIn, Body()] = _PAUSE,
    if_match: IfMatch = None,
) -> Response:
    """No fires until it is resumed, or by itself at `until`."""

    async def work(desk: Desk) -> Answer:
        before = await hold(desk, name)
        demand_match(before, if_match)
        demand_state(before, "cancelled", "ended")
        if not await verbs(desk).pause(name, body.reason, body.until):
            return Answer(await told(desk, before), headers=etag(before))
        after = await find(desk, name)
        shown = await told(desk, after)
        desk.log("schedule.pause", name, before=await told(desk, before), after=shown)
        return Answer(shown, headers=etag(after))

    return await call.change(work)


@router.post(
    "/{name}/resume",
    responses=problems(404, 409, 412) | {200: {"model": ScheduleOut}},
    response_model=None,
)
async def resume_schedule(name: Name, call: Operator, if_match: IfMatch = None) -> Response:
    """Go on, also after a quarantine. What the pause left out is recorded, not made up for."""

    async def work(desk: Desk) -> Answer:
        before = await hold(desk, name)
        demand_match(before, if_match)
        demand_state(before, "cancelled", "ended")
        if not await verbs(desk).resume(name):
            return Answer(await told(desk, before), headers=etag(before))
        after = await find(desk, name)
        shown = await told(desk, after)
        desk.log("schedule.resume", name, before=await told(desk, before), after=shown)
        return Answer(shown, headers=etag(after))

    return await call.change(work)


@router.post(
    "/{name}/trigger",
    status_code=202,
    responses=problems(404, 409) | {202: {"model": JobMadeOut}},
    response_model=None,
)
async def trigger_schedule(
    name: Name,
    call: Operator,
    body: Annotated[TriggerIn, Body()] = _TRIGGER,
) -> Response:
    """A job of it at once, whatever its state and overlap say."""

    async def work(desk: Desk) -> Answer:
        demand_state(await hold(desk, name), "cancelled")
        await limits.room_for_jobs(desk, 1)
        job = await verbs(desk).trigger(name, body.payload, desk.schedules.payload)
        made = {"job": job}
        given = {} if body.payload is None else {"payload": body.payload}
        desk.log("schedule.trigger", name, after=made | given)
        return Answer(made, 202, {"Location": f"/v1/jobs/{job}"})

    return await call.change(work)


@router.post(
    "/{name}/backfill",
    status_code=202,
    responses=problems(404, 409) | {202: {"model": BackfillMadeOut}},
    response_model=None,
)
async def backfill_schedule(name: Name, body: BackfillIn, call: Operator) -> Response:
    """Fire what was not fired in a stretch of the past, oldest first; the nodes do it. Each fire
    goes by what the schedule said at that instant, and what has been fired is not fired again."""

    async def work(desk: Desk) -> Answer:
        demand_state(await hold(desk, name), "cancelled")
        id = await desk.schedules.backfill(
            name, body.from_, body.to, rate=body.rate, tenant=desk.tenant
        )
        said = {"from": body.from_, "to": body.to, "rate": body.rate}
        desk.log("schedule.backfill", name, after={"id": id, **said})
        return Answer({"id": id}, 202)

    return await call.change(work)


@router.get(
    "/{name}/backfills",
    responses=problems(404) | {200: {"model": Page[BackfillOut]}},
    response_model=None,
)
async def list_backfills(
    name: Name, call: Viewer, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """Newest first, with how far each has come."""
    before = pages.place(cursor, tuple[int])

    async def work(desk: Desk) -> Answer:
        view = await find(desk, name)
        start = LARGEST_ID if before is None else before[0]
        found = await desk.store.backfills.page(view.id, start, limit + 1)
        following = pages.cursor(found[limit - 1].id) if len(found) > limit else None
        return Answer(pages.page([*map(tellings.backfill, found[:limit])], following))

    return await call.read(work)


@router.delete(
    "/{name}/backfills/{id}",
    status_code=204,
    responses=problems(404, 409),
    response_model=None,
)
async def cancel_backfill(name: Name, id: BackfillId, call: Operator) -> Response:
    """End it where it is; what it has fired stays fired."""

    async def work(desk: Desk) -> Answer:
        view = await find(desk, name)
        cancelled = await desk.store.backfills.cancel(desk.tenant_id, id)
        found = await desk.store.backfills.list(desk.tenant_id, name=view.name, id=id, limit=1)
        if not found:
            raise Problem(404, "not_found", f"schedule {name!r} has no backfill {id}")
        shown = tellings.backfill(found[0])
        if cancelled:
            desk.log("schedule.cancel_backfill", name, after=shown)
        elif not found[0].cancelled:
            raise Problem(409, "conflict", f"backfill {id} has come to its end already")
        return Answer(status=204)

    return await call.change(work)
