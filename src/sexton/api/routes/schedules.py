"""Schedules: made, read, changed and ended."""

from typing import Annotated, get_args

from fastapi import APIRouter, Query, Response

from sexton.api import pages, tellings
from sexton.api.call import Answer, Operator, Viewer
from sexton.api.desk import Desk
from sexton.api.limits import room_for_schedules
from sexton.api.models.common import Name
from sexton.api.models.schedule_out import ScheduleOut
from sexton.api.models.schedules import (
    NewScheduleIn,
    Reason,
    ScheduleChangeIn,
    ScheduleIn,
    State,
)
from sexton.api.pages import Cursor, Limit, Page
from sexton.api.problems import problems, unavailable
from sexton.api.schedule import (
    IfMatch,
    IfNoneMatch,
    become,
    begun,
    begun_again,
    changed_spec,
    demand_match,
    demand_state,
    etag,
    find,
    hold,
    hold_calendars,
    location,
    options_of,
    spec_of,
    standing_of,
    targets,
    told,
    verbs,
)
from sexton.domain.schedule import ScheduleState, ScheduleView

router = APIRouter(prefix="/v1/schedules", tags=["schedules"])

TRIES = 5
STATES: tuple[ScheduleState, ...] = get_args(ScheduleState)
THERE = tuple(state for state in STATES if state != "cancelled")
_TAG = {"ETag": {"schema": {"type": "string"}, "description": "Its version."}}


@router.get("", responses=problems() | {200: {"model": Page[ScheduleOut]}}, response_model=None)
async def list_schedules(
    call: Viewer,
    state: Annotated[
        State | None, Query(description="Without it, all but those that are cancelled.")
    ] = None,
    tag: Annotated[
        str | None, Query(min_length=1, max_length=200, description="One of its tags.")
    ] = None,
    target: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=200,
            description="A task's name, an endpoint's, or http for every endpoint.",
        ),
    ] = None,
    text: Annotated[
        str | None, Query(min_length=1, max_length=200, description="A part of its name.")
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """By name."""
    after = pages.place(cursor, tuple[str])

    async def work(desk: Desk) -> Answer:
        found: list[ScheduleView] = []
        reached = None if after is None else after[0]
        look_at, left = limit + 1, max(pages.LOOKED_AT, limit + 1)
        while look_at and len(found) <= limit:
            more, reached = await desk.store.schedules.page(
                desk.tenant_id,
                states=THERE if state is None else STATES if state == "all" else (state,),
                tag=tag,
                target=target,
                text=text,
                after=reached,
                limit=limit + 1 - len(found),
                look_at=look_at,
            )
            found += more
            left -= look_at
            look_at = 0 if reached is None else left
        shown = found[:limit]
        last = shown[-1].name if len(found) > limit else reached
        known = await targets(desk, {view.task for view in shown})
        items = [tellings.schedule(view, known[view.task]) for view in shown]
        return Answer(pages.page(items, None if last is None else pages.cursor(last)))

    return await call.read(work)


@router.post(
    "",
    status_code=201,
    responses=problems(409) | {201: {"model": ScheduleOut, "headers": _TAG}},
    response_model=None,
)
async def create_schedule(body: NewScheduleIn, call: Operator) -> Response:
    """A new schedule; its name must be free, or that of one that was cancelled."""

    async def work(desk: Desk) -> Answer:
        spec = await spec_of(desk, body.name, body.target, body.payload, options_of(body))
        after = await begun(desk, spec) or await begun_again(desk, spec)
        shown = await told(desk, after)
        desk.log("schedule.create", body.name, after=shown)
        return Answer(shown, 201, etag(after) | location(after))

    return await call.change(work)


@router.put(
    "/{name}",
    responses=problems(409, 412)
    | {
        200: {"model": ScheduleOut, "headers": _TAG},
        201: {"model": ScheduleOut, "headers": _TAG, "description": "It is new."},
    },
    response_model=None,
)
async def put_schedule(
    name: Name,
    body: ScheduleIn,
    call: Operator,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Make it say exactly this; it is made if there is none. No new version if it says so."""

    async def work(desk: Desk) -> Answer:
        spec = await spec_of(desk, name, body.target, body.payload, options_of(body))
        await hold_calendars(desk, body.model_fields_set)
        for _ in range(TRIES):
            before = await desk.store.schedules.hold(desk.tenant_id, name)
            demand_match(before, if_match, if_none_match)
            if before is None:
                after = await begun(desk, spec)
                if after is None:  # somebody else was quicker
                    continue
            elif before.state == "cancelled":
                await room_for_schedules(desk, 1)
                after = await begun_again(desk, spec)
            else:
                after = await become(desk, before, await standing_of(desk, name), spec)
                shown = await told(desk, after)
                if after is not before:
                    was = await told(desk, before)
                    desk.log("schedule.update", name, before=was, after=shown)
                return Answer(shown, 200, etag(after))
            shown = await told(desk, after)
            desk.log("schedule.create", name, after=shown)
            return Answer(shown, 201, etag(after) | location(after))
        raise unavailable("others make and remove it all the time; try again")

    return await call.change(work)


@router.get(
    "/{name}",
    responses=problems(404) | {200: {"model": ScheduleOut, "headers": _TAG}},
    response_model=None,
)
async def read_schedule(name: Name, call: Viewer) -> Response:
    """One that was cancelled is still there to be read."""

    async def work(desk: Desk) -> Answer:
        view = await find(desk, name)
        return Answer(await told(desk, view), headers=etag(view))

    return await call.look(work)


@router.patch(
    "/{name}",
    responses=problems(404, 409, 412) | {200: {"model": ScheduleOut, "headers": _TAG}},
    response_model=None,
    openapi_extra={
        "requestBody": {
            "content": {
                "application/merge-patch+json": {
                    "schema": {"$ref": "#/components/schemas/ScheduleChangeIn"}
                }
            }
        }
    },
)
async def patch_schedule(
    name: Name, body: ScheduleChangeIn, call: Operator, if_match: IfMatch = None
) -> Response:
    """Change some of what it says: a JSON merge patch."""

    async def work(desk: Desk) -> Answer:
        before = await find(desk, name)
        await hold_calendars(desk, before.said.keys() | body.model_fields_set)
        before = await hold(desk, name)
        demand_match(before, if_match)
        demand_state(before, "cancelled")
        standing = await standing_of(desk, name)
        spec = await changed_spec(desk, before, standing, body)
        after = await become(desk, before, standing, spec)
        shown = await told(desk, after)
        if after is not before:
            desk.log("schedule.update", name, before=await told(desk, before), after=shown)
        return Answer(shown, headers=etag(after))

    return await call.change(work)


@router.delete("/{name}", status_code=204, responses=problems(404, 412), response_model=None)
async def cancel_schedule(
    name: Name,
    call: Operator,
    reason: Annotated[Reason | None, Query(description="For whoever looks at it later.")] = None,
    if_match: IfMatch = None,
) -> Response:
    """No more fires. Its jobs go on, its history stays, and its name may be used again."""

    async def work(desk: Desk) -> Answer:
        before = await hold(desk, name)
        demand_match(before, if_match)
        if before.state != "cancelled":
            await verbs(desk).cancel(name, reason)
            after = await find(desk, name)
            shown = await told(desk, before), await told(desk, after)
            desk.log("schedule.cancel", name, before=shown[0], after=shown[1])
        return Answer(status=204)

    return await call.change(work)
