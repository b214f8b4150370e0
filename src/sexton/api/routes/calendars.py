"""Calendars: sets of days and times that schedules keep out of or within."""

import sys
from typing import Any

from fastapi import APIRouter, Response

from sexton.api import pages
from sexton.api.call import Answer, Operator, Viewer
from sexton.api.desk import Desk
from sexton.api.models.calendars import CalendarIn, CalendarOut, CalendarPutOut, CalendarUserOut
from sexton.api.models.common import Name
from sexton.api.pages import Cursor, Limit, Page
from sexton.api.paths import segment_of
from sexton.api.problems import Problem, problems
from sexton.api.schedule import IfMatch, IfNoneMatch, demand_version
from sexton.domain.when.calendar import Calendar
from sexton.flow import recalendar
from sexton.store.calendars import CalendarView

router = APIRouter(prefix="/v1/calendars", tags=["calendars"])

_TAG = {"ETag": {"schema": {"type": "string"}, "description": "Its version."}}


@router.get("", responses=problems() | {200: {"model": Page[CalendarOut]}}, response_model=None)
async def list_calendars(call: Viewer, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """By name."""
    after = pages.place(cursor, tuple[str])

    async def work(desk: Desk) -> Answer:
        start = None if after is None else after[0]
        found = await desk.store.calendars.page(desk.tenant_id, start, limit + 1)
        following = pages.cursor(found[limit - 1].name) if len(found) > limit else None
        return Answer(pages.page([*map(_told, found[:limit])], following))

    return await call.read(work)


@router.put(
    "/{name}",
    responses=problems(412)
    | {
        200: {"model": CalendarPutOut, "headers": _TAG},
        201: {"model": CalendarPutOut, "headers": _TAG, "description": "It is new."},
    },
    response_model=None,
)
async def put_calendar(
    name: Name,
    body: CalendarIn,
    call: Operator,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Make it, or change it; with it changes every schedule that goes by it."""
    content = Calendar.of(**body.model_dump())

    async def work(desk: Desk) -> Answer:
        before = await _held(desk, name)
        demand_version(None if before is None else before.version, if_match, if_none_match)
        recomputed = await recalendar.put(desk.store, desk.tenant_id, name, content)
        after = await _found(desk, name)
        shown = _told(after)
        if before is None or before.version != after.version:
            was = None if before is None else _told(before)
            logged = shown | {"recomputed": recomputed}
            desk.log("calendar.put", name, before=was, after=logged)
        headers = _etag(after)
        if before is None:
            headers["Location"] = f"/v1/calendars/{segment_of(name)}"
        return Answer(shown | {"recomputed": recomputed}, 201 if before is None else 200, headers)

    return await call.change(work, steps=sys.maxsize)  # each of its schedules is bounded by itself


@router.get(
    "/{name}",
    responses=problems(404) | {200: {"model": CalendarOut, "headers": _TAG}},
    response_model=None,
)
async def read_calendar(name: Name, call: Viewer) -> Response:
    """Its newest version."""

    async def work(desk: Desk) -> Answer:
        found = await _found(desk, name)
        return Answer(_told(found), headers=_etag(found))

    return await call.look(work)


@router.get(
    "/{name}/users",
    responses=problems(404) | {200: {"model": Page[CalendarUserOut]}},
    response_model=None,
)
async def list_users(
    name: Name, call: Viewer, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """The schedules that go by it, by name."""
    after = pages.place(cursor, tuple[str])

    async def work(desk: Desk) -> Answer:
        rules = await recalendar.rules_of(desk.store, await _found(desk, name))
        start = None if after is None else after[0]
        found = await desk.store.calendars.users_page(desk.tenant_id, rules, start, limit + 1)
        following = pages.cursor(found[limit - 1]) if len(found) > limit else None
        return Answer(pages.page([{"name": each} for each in found[:limit]], following))

    return await call.read(work)


@router.delete("/{name}", status_code=204, responses=problems(404, 409, 412), response_model=None)
async def remove_calendar(name: Name, call: Operator, if_match: IfMatch = None) -> Response:
    """End it; refused while a schedule goes by it."""

    async def work(desk: Desk) -> Answer:
        before = await _held(desk, name)
        if before is None:
            raise await _unknown(desk, name)
        demand_version(before.version, if_match)
        rules = await recalendar.rules_of(desk.store, before)
        users = await desk.store.calendars.users(rules, recalendar.SHOWN)
        if users:
            raise Problem(
                409,
                "conflict",
                f"calendar {name!r} is used by schedules: cancel or change those first",
                users=users,
            )
        await recalendar.remove(desk.store, desk.tenant_id, name)
        desk.log("calendar.remove", name, before=_told(before))
        return Answer(status=204)

    return await call.change(work)


async def _held(desk: Desk, name: str) -> CalendarView | None:
    """As it is, and as it stays unless we change it."""
    await desk.store.calendars.hold(desk.tenant_id, to_change=True)
    return await recalendar.find(desk.store, desk.tenant_id, name)


async def _found(desk: Desk, name: str) -> CalendarView:
    found = await recalendar.find(desk.store, desk.tenant_id, name)
    if found is None:
        raise await _unknown(desk, name)
    return found


async def _unknown(desk: Desk, name: str) -> Problem:
    error = await recalendar.unknown(desk.store, desk.tenant_id, name)
    return Problem(404, "not_found", str(error))


def _etag(view: CalendarView) -> dict[str, str]:
    return {"ETag": f'"{view.version}"'}


def _told(view: CalendarView) -> dict[str, Any]:
    calendar = view.calendar
    return {
        "name": view.name,
        "version": view.version,
        "since": view.since,
        "dates": calendar.dates,
        "ranges": calendar.ranges,
        "windows": calendar.windows,
        "timezone": calendar.timezone,
    }
