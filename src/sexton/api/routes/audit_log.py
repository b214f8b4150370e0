"""The audit log: what was changed through the service, by whom, from where."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Response

from sexton.api import pages
from sexton.api.call import Admin, Answer
from sexton.api.desk import Desk
from sexton.api.models.audit_log import LogLineOut
from sexton.api.models.common import Instant
from sexton.api.pages import LOOKED_AT, Cursor, Limit, Page
from sexton.api.problems import problems
from sexton.store.service import LogView

router = APIRouter(prefix="/v1/audit-log", tags=["audit log"])

Filter = Annotated[str | None, Query(min_length=1, max_length=500)]


@router.get("", responses=problems() | {200: {"model": Page[LogLineOut]}}, response_model=None)
async def list_log(
    call: Admin,
    action: Annotated[Filter, Query(description="Exactly this: `schedule.pause`.")] = None,
    actor: Annotated[Filter, Query(description="Exactly this.")] = None,
    subject: Annotated[Filter, Query(description="Exactly this.")] = None,
    request_id: Annotated[Filter, Query(description="Of this request.")] = None,
    from_: Annotated[Instant | None, Query(alias="from", description="Not before.")] = None,
    to: Annotated[Instant | None, Query(description="Before.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Newest first."""
    place = pages.place(cursor, tuple[int])
    before = None if place is None else place[0]

    async def work(desk: Desk) -> Answer:
        found = await desk.store.requests.log(
            desk.tenant_id,
            before=before,
            look_at=max(LOOKED_AT, limit + 1),
            limit=limit,
            action=action,
            actor=actor,
            subject=subject,
            request_id=request_id,
            since=from_,
            until=to,
        )
        following = None if found.before is None else pages.cursor(found.before)
        return Answer(pages.page([log_line_out(each) for each in found.lines], following))

    return await call.read(work)


def log_line_out(view: LogView) -> dict[str, Any]:
    said: dict[str, Any] = msgspec.to_builtins(view)
    for side in ("before", "after"):
        text = said[side]
        said[side] = None if text is None else msgspec.Raw(text.encode())
    return said
