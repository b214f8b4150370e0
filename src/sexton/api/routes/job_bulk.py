"""/v1/jobs/bulk: as many jobs as somebody has, one on each line.

A chunk of lines is one transaction: what was answered is there. A line that cannot be right is
answered with what is wrong with it, and stops none of the others.
"""

from typing import Any

import msgspec
from fastapi import APIRouter, Response

from sexton.api import bodies, idempotency
from sexton.api.call import Answer, Call
from sexton.api.desk import Desk
from sexton.api.enqueue import enqueue, new_job
from sexton.api.limits import room_for_jobs
from sexton.api.models.jobs import BulkLineOut
from sexton.api.ndjson import MEDIA_TYPE, Bulk, Line, demand_ndjson
from sexton.api.problems import Problem, problem_of, problems
from sexton.api.roles import JobMaker
from sexton.domain.job import NewJob

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

# What a line may have besides its payload.
BESIDE_PAYLOAD = 65_536


class _Said(msgspec.Struct, forbid_unknown_fields=True):
    """A line, read in one pass: the same fields as of a single job, which is checked after."""

    task: str | None = None
    target: dict[str, Any] | None = None
    payload: dict[str, Any] = {}
    queue: str | None = None
    priority: int | None = None
    at: str | None = None
    delay: int | float | str | None = None
    key: str | None = None
    key_held_for: int | float | str | None = None
    limit_key: str | None = None
    tags: list[str] | None = None
    expires_in: int | float | str | None = None


_decode = msgspec.json.Decoder(_Said).decode


class _Read:
    """What is in a chunk: lines that may become jobs, and what is wrong with the others."""

    __slots__ = ("nth", "said", "text", "wrong")

    def __init__(self, nth: int, lines: list[Line]) -> None:
        self.nth = nth
        self.said: list[tuple[int, _Said]] = []
        self.wrong: dict[int, Problem] = {}
        self.text = b"\n".join(line.text or b"" for line in lines)
        for line in lines:
            try:
                self.said.append((line.number, _said(line.text)))
            except Problem as problem:
                self.wrong[line.number] = problem


def _said(text: bytes | None) -> _Said:
    if text is None:
        raise Problem(413, "too_large", "the line is longer than a job may be")
    if text.count(b"[") + text.count(b"{") > bodies.DEEPEST and bodies._is_deep(text):
        detail = f"the line is nested deeper than {bodies.DEEPEST} levels"
        raise Problem(400, "malformed", detail)
    try:
        return _decode(text)
    except msgspec.ValidationError as error:
        raise _unfit(str(error)) from None
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as error:
        raise Problem(400, "malformed", f"the line is not JSON: {error}") from None


def _unfit(said: str) -> Problem:
    """'Expected `int`, got `str` - at `$.priority`' is about the field priority."""
    what, at, path = said.rpartition(" - at `$")
    if not at:
        return Problem(422, "invalid", said.replace("`", ""))
    field = path.rstrip("`").lstrip(".").partition("[")[0]
    return Problem(422, "invalid", f"{field}: {what.replace('`', '')}", field=field or None)


@router.post(
    "/bulk",
    responses=problems()
    | {
        200: {
            "description": "One line for each, in order, as soon as its chunk is done.",
            "content": {MEDIA_TYPE: {"schema": BulkLineOut.model_json_schema()}},
        }
    },
    response_model=None,
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "A job on each line, with the fields of a single one.",
            "content": {
                MEDIA_TYPE: {
                    "schema": {"type": "string"},
                    "example": '{"task": "send_invoice", "payload": {"invoice_id": 7}}\n',
                }
            },
        }
    },
)
async def add_many(call: JobMaker) -> Response:
    """Enqueue many jobs: one JSON object on each line, in and out.

    With an Idempotency-Key the same body sent again makes nothing new, however far it came.
    """
    demand_ndjson(call.request)
    bulk = Adding(call)
    return Bulk(bulk.read, bulk.work, longest=bulk.longest, at_once=bulk.key is None)


class Adding:
    """One request, chunk by chunk."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.key = call.idempotency_key
        self._chunks = 0

    @property
    def longest(self) -> int:
        """Of a line."""
        quota = self._call.principal.quotas.max_payload_bytes
        return BESIDE_PAYLOAD + (quota or self._call.service.app.max_payload_bytes)

    async def read(self, lines: list[Line]) -> _Read:
        self._chunks += 1
        return _Read(self._chunks, lines)

    async def work(self, read: _Read) -> bytes:
        answers = {number: _error(number, wrong) for number, wrong in read.wrong.items()}
        if read.said:
            answers |= await self._add(read, read.said, str(read.nth))
        return b"".join(msgspec.json.encode(answers[n]) + b"\n" for n in sorted(answers))

    async def _add(
        self, read: _Read, said: list[tuple[int, _Said]], part: str
    ) -> dict[int, dict[str, Any]]:
        async def work(desk: Desk) -> Answer:
            return Answer(await _enqueued(desk, said))

        key = None if self.key is None else f"{self.key} {part}"
        try:
            await self._call.confirm()
            made = await self._call.carry_out(
                work, key=key, fingerprint=idempotency.fingerprint(read.text, part.encode())
            )
        except Exception as error:
            problem = problem_of(error)
            if len(said) > 1 and problem.kind == "invalid":
                # One that no check has seen through: the others need not suffer for it.
                half = len(said) // 2
                first = await self._add(read, said[:half], f"{part}.1")
                return first | await self._add(read, said[half:], f"{part}.2")
            return {number: _error(number, problem) for number, _ in said}
        return {each["line"]: each for each in msgspec.json.decode(made.body)}


async def _enqueued(desk: Desk, said: list[tuple[int, _Said]]) -> list[dict[str, Any]]:
    """In one transaction: an answer for each line, and one line of the log for all."""
    answers: list[dict[str, Any]] = []
    jobs: list[NewJob] = []
    numbers: list[int] = []
    for number, each in said:
        try:
            job = await new_job(desk, msgspec.structs.asdict(each))
        except Exception as error:
            problem = problem_of(error)
            if problem.status >= 500:
                raise
            answers.append(_error(number, problem))
        else:
            jobs.append(job)
            numbers.append(number)
    if jobs:
        await room_for_jobs(desk, len(jobs))
        enqueued = await enqueue(desk, jobs)
        made = [each.id for each in enqueued if not each.duplicate]
        answers += [
            {"line": number, "status": "duplicate" if each.duplicate else "created", "id": each.id}
            for number, each in zip(numbers, enqueued, strict=True)
        ]
        if made:
            after = {"jobs": len(made), "first": min(made), "last": max(made)}
            desk.log("job.enqueue", f"{min(made)} … {max(made)}", after=after)
    return answers


def _error(number: int, problem: Problem) -> dict[str, Any]:
    error: dict[str, Any] = {
        "status": problem.status,
        "type": f"/problems/{problem.kind}",
        "detail": problem.detail,
    }
    if problem.field is not None:
        error["field"] = problem.field
    return {"line": number, "status": "error", "error": error}
