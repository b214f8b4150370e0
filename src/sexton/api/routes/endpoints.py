"""Endpoints: where jobs are delivered by HTTP, with which headers and signed with which secrets."""

import re
from typing import Annotated

from fastapi import APIRouter, Query, Response

from sexton.api import endpoint, enqueue, limits, pages
from sexton.api.call import Answer, Operator, Viewer
from sexton.api.desk import Desk
from sexton.api.models.common import Name
from sexton.api.models.endpoints import (
    EndpointChangeIn,
    EndpointIn,
    EndpointMade,
    EndpointOut,
    TestOut,
)
from sexton.api.pages import Cursor, Limit, Page
from sexton.api.paths import segment_of
from sexton.api.problems import Problem, problems
from sexton.api.schedule import IfMatch, IfNoneMatch, demand_version
from sexton.store.endpoints import EndpointRow

router = APIRouter(prefix="/v1/endpoints", tags=["endpoints"])

TRIES = 5
USERS_SHOWN = 5
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LAST = "\x7f"
WrittenOut = Annotated[
    bool, Query(description="Also those that were written out as a target; after the others.")
]


@router.get("", responses=problems() | {200: {"model": Page[EndpointOut]}}, response_model=None)
async def list_endpoints(
    call: Viewer, written_out: WrittenOut = False, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """By name."""
    after = pages.place(cursor, tuple[str])
    before = _LAST if written_out else endpoint.WRITTEN_OUT

    async def work(desk: Desk) -> Answer:
        rows = await desk.store.endpoints.page(
            desk.tenant_id, after[0] if after else "", before, limit + 1
        )
        following = pages.cursor(rows[limit - 1].name) if len(rows) > limit else None
        return Answer(pages.page([endpoint.told(desk, row) for row in rows[:limit]], following))

    return await call.read(work)


@router.get("/{name}", responses=problems(404) | {200: {"model": EndpointOut}}, response_model=None)
async def get_endpoint(name: Name, call: Viewer) -> Response:
    """One endpoint, but for its secrets."""

    async def work(desk: Desk) -> Answer:
        row = endpoint.demand(await _find(desk, name), name)
        return Answer(endpoint.told(desk, row), headers=_etag(row))

    return await call.look(work)


@router.put(
    "/{name}",
    responses=problems(409, 412) | {200: {"model": EndpointMade}, 201: {"model": EndpointMade}},
    response_model=None,
)
async def put_endpoint(
    name: Name,
    body: EndpointIn,
    call: Operator,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Make it so. Jobs that wait are delivered as it says by then."""
    if not _NAME.fullmatch(name):
        detail = "name: letters, digits, dots, underscores and hyphens, at most 100 of them"
        raise Problem(422, "invalid", detail, field="name")

    async def work(desk: Desk) -> Answer:
        for _ in range(TRIES):
            before = await _find(desk, name)
            draft = endpoint.put(desk, body, before)
            version = None if before is None else before.version
            demand_version(version, if_match, if_none_match)
            if before is None:
                await limits.room_for_endpoint(desk)
                after = await desk.store.endpoints.add(
                    desk.tenant_id, draft.sealed(desk, name, None)
                )
            else:
                after = await _changed(desk, before, draft)
            if after is not None:
                return _answer(desk, "endpoint.put", before, after, draft.shown)
        raise _restless(name)

    return await call.change(work)


@router.patch(
    "/{name}",
    responses=problems(404, 409, 412) | {200: {"model": EndpointMade}},
    response_model=None,
)
async def patch_endpoint(
    name: Name, body: EndpointChangeIn, call: Operator, if_match: IfMatch = None
) -> Response:
    """Change some of it. To change a signing secret: add one, then keep only that."""
    if name.startswith(endpoint.WRITTEN_OUT):
        detail = f"endpoint {name!r} was written out as a target: write another target instead"
        raise Problem(409, "conflict", detail)

    async def work(desk: Desk) -> Answer:
        for _ in range(TRIES):
            before = endpoint.demand(await _find(desk, name), name)
            draft = endpoint.patch(desk, body, before)
            demand_version(before.version, if_match)
            after = await _changed(desk, before, draft)
            if after is not None:
                return _answer(desk, "endpoint.patch", before, after, draft.shown)
        raise _restless(name)

    return await call.change(work)


@router.delete("/{name}", status_code=204, responses=problems(404, 409, 412), response_model=None)
async def delete_endpoint(name: Name, call: Operator, if_match: IfMatch = None) -> Response:
    """No more; refused while schedules deliver to it. Jobs that still wait will die, and say so."""

    async def work(desk: Desk) -> Answer:
        row = endpoint.demand(await desk.store.endpoints.locked(desk.tenant_id, name), name)
        demand_version(row.version, if_match)
        users = await desk.store.endpoints.users(desk.tenant_id, row.id, USERS_SHOWN + 1)
        if users:
            said = ", ".join(repr(each) for each in users[:USERS_SHOWN])
            more = " and others" if len(users) > USERS_SHOWN else ""
            raise Problem(409, "conflict", f"schedules deliver to endpoint {name!r}: {said}{more}")
        await desk.store.endpoints.delete(desk.tenant_id, row.id)
        desk.log("endpoint.delete", name, before=endpoint.told(desk, row))
        return Answer(status=204)

    return await call.change(work)


@router.post(
    "/{name}/test",
    status_code=202,
    responses=problems(404, 409) | {202: {"model": TestOut}},
    response_model=None,
)
async def test_endpoint(name: Name, call: Operator) -> Response:
    """Deliver a test event by a worker, signed like any other; read the job to see the answer."""

    async def work(desk: Desk) -> Answer:
        row = endpoint.demand(await _find(desk, name), name)
        await limits.room_for_jobs(desk, 1)
        job = await enqueue.new_job(
            desk,
            {
                "target": {"http": {"endpoint": row.name}},
                "payload": {"type": "sexton.test", "endpoint": row.name},
                "expires_in": "10m",
                "tags": ["test"],
            },
        )
        [made] = await enqueue.enqueue(desk, [job])
        desk.log("endpoint.test", name, after={"job": made.id})
        return Answer({"job": made.id}, 202, {"Location": f"/v1/jobs/{made.id}"})

    return await call.change(work)


async def _find(desk: Desk, name: str) -> EndpointRow | None:
    return next(iter(await desk.store.endpoints.by_name(desk.tenant_id, [name])), None)


async def _changed(desk: Desk, before: EndpointRow, draft: endpoint.Draft) -> EndpointRow | None:
    """As it is now; itself if it said this already; None if somebody else was quicker."""
    if draft.says(desk, before):
        return before
    new = draft.sealed(desk, before.name, before)
    return await desk.store.endpoints.change(desk.tenant_id, before.id, before.version, new)


def _answer(
    desk: Desk, action: str, before: EndpointRow | None, after: EndpointRow, shown: str | None
) -> Answer:
    said = endpoint.told(desk, after)
    if before is not after:
        old = None if before is None else endpoint.told(desk, before)
        desk.log(action, after.name, before=old, after=said)
    answer = Answer({**said, "secret": shown}, headers=_etag(after), kept={**said, "secret": None})
    if before is None:
        answer.status = 201
        answer.headers["Location"] = f"/v1/endpoints/{segment_of(after.name)}"
    return answer


def _etag(row: EndpointRow) -> dict[str, str]:
    return {"ETag": f'"{row.version}"'}


def _restless(name: str) -> Problem:
    return Problem(409, "conflict", f"endpoint {name!r} changes all the time; try again")
