"""What a running job, or who runs it, says of it: one job at a time, by its fence.

A remote worker that has several settles them together, at /v1/workers; this is for those who have
one, and for targets that answered 202 and took their time.
"""

from fastapi import APIRouter, Response

from sexton.api.call import Answer, Call, Worker
from sexton.api.desk import Desk
from sexton.api.models.jobs import (
    FailIn,
    JobId,
    ProgressIn,
    ProgressOut,
    SettledOut,
    SnoozeIn,
    SucceedIn,
)
from sexton.api.problems import Problem, problems
from sexton.api.remote import PLANNED
from sexton.api.settling import Said, settle_all, stale
from sexton.domain.duration import Duration, seconds
from sexton.errors import InvalidJob
from sexton.targets.arguments import encode

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

_ANSWERS = problems(404, 409) | {200: {"model": SettledOut}}


@router.post("/{id:id}/succeed", responses=_ANSWERS, response_model=None)
async def succeed(id: JobId, body: SucceedIn, call: Worker) -> Response:
    """The job is done. 409 with the kind `stale_fence` if the attempt is not its running one."""
    return await _settle(call, Said(id, body.fence, "succeeded", result=body.result))


@router.post("/{id:id}/fail", responses=_ANSWERS, response_model=None)
async def fail(id: JobId, body: FailIn, call: Worker) -> Response:
    """The attempt failed: it is tried again as its task says, or dead."""
    after = None if body.retry_after is None else length(body.retry_after, "retry_after")
    said = Said(
        id, body.fence, "failed", error=body.error, retry_after=after, permanent=body.permanent
    )
    return await _settle(call, said)


@router.post("/{id:id}/snooze", responses=_ANSWERS, response_model=None)
async def snooze(id: JobId, body: SnoozeIn, call: Worker) -> Response:
    """Not now: again after `delay`, which uses up no attempt."""
    delay = length(body.delay, "delay")
    return await _settle(
        call, Said(id, body.fence, "snoozed", error=body.reason, retry_after=delay)
    )


@router.post(
    "/{id:id}/progress",
    responses=problems(404, 409) | {200: {"model": ProgressOut}},
    response_model=None,
)
async def say_progress(id: JobId, body: ProgressIn, call: Worker) -> Response:
    """Say how far it is; the last value is kept while the job runs."""

    async def work(desk: Desk) -> Answer:
        text = _json(desk, body)
        attempt = await desk.store.remote.say_progress(id, desk.tenant_id, body.fence, text)
        if attempt is None:
            raise await stale(desk, id, body.fence)
        said = {"id": id, "state": "running", "attempt": attempt, "progress": body.value}
        return Answer(said)

    return await call.change(work)


def _json(desk: Desk, body: ProgressIn) -> str:
    try:
        return encode(body.value, "value", desk.settings.max_result_bytes)
    except InvalidJob as error:
        raise Problem(422, "invalid", str(error), field="value") from None


async def _settle(call: Call, said: Said) -> Response:
    async def work(desk: Desk) -> Answer:
        await desk.connection.execute(PLANNED, timeout=desk.service.patience)
        [verdict] = await settle_all(desk, [said], None)
        if not verdict.accepted:
            raise await stale(desk, said.id, said.fence)
        return Answer({"id": said.id, "status": "accepted", "note": verdict.note})

    return await call.change(work)


def length(given: Duration, field: str) -> float:
    try:
        return seconds(given)
    except ValueError as error:
        raise Problem(422, "invalid", f"{field}: {error}", field=field) from None
