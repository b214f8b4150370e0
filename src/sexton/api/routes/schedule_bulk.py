"""Schedules by the thousand: a line in, a line out."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from sexton.api.call import Operator
from sexton.api.enrolling import Clerk, Mode
from sexton.api.models.schedule_out import BulkLineOut
from sexton.api.ndjson import MEDIA_TYPE, Bulk, demand_ndjson, schema_of
from sexton.api.problems import problems

router = APIRouter(prefix="/v1/schedules", tags=["schedules"])


@router.post(
    "/bulk",
    responses=problems(415)
    | {
        200: {
            "description": "One line for each line that is not blank, in their order.",
            "content": {MEDIA_TYPE: {"schema": schema_of(BulkLineOut)}},
        }
    },
    response_model=None,
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "A schedule on each line, with its name, as for POST /v1/schedules.",
            "content": {
                MEDIA_TYPE: {
                    "schema": {"type": "string"},
                    "example": '{"name": "beat", "every": "1m", "target": {"task": "ring"}}\n',
                }
            },
        }
    },
)
async def enrol_schedules(
    call: Operator,
    mode: Annotated[
        Mode,
        Query(description="What becomes of one whose name is taken: it stays, or says this."),
    ] = "create",
) -> Response:
    """Many schedules, sent and answered line by line.

    About two thousand lines are one transaction: what was answered is there. A bad line stops none
    of the others. With an Idempotency-Key each of the transactions is known by it, so all of it may
    be sent again after a lost connection.
    """
    demand_ndjson(call.request)
    clerk = Clerk(call, mode)
    return Bulk(clerk.read, clerk.work, longest=clerk.longest, at_once=clerk.key is None)
