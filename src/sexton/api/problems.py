"""Errors as RFC 9457 problem documents, in one shape."""

import logging
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import asyncpg
import msgspec
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from sexton import errors
from sexton.api import kinds
from sexton.domain.text import clean
from sexton.store.connection import is_transient, say

log = logging.getLogger("sexton.api")

PROBLEM_JSON = "application/problem+json"
NOTHING_AT = "there is nothing at"
LOCKED = "another change has this locked; nothing was changed, try again"
# What any route may answer besides its own.
ALWAYS = (400, 401, 403, 406, 408, 413, 415, 422, 429, 500, 503)
_LONGEST_DETAIL = 2000
_MOST_FIELDS = 20
# As the service calls what the rest of the application calls otherwise.
_FIELDS = {"arguments": "payload", "from_": "from"}
# How a message names its field: cron: …, calendar: dates: …, cron '0 6 * *': …, no option 'colour'.
_FIELD = re.compile(r"(?:calendar: )?([\w.]+): |(cron|timezone|dst) '|no option '(\w+)'")
# Where the library speaks of its own parsing.
_WORDS = {
    "int_parsing": "not a whole number",
    "int_parsing_size": "too many digits",
    "int_from_float": "not a whole number",
    "bool_parsing": "not true or false",
    "missing": "has to be given",
}
_OF_HTTP = {
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    413: "too_large",
    415: "unsupported_media_type",
}


class Problem(Exception):
    """An answer that is not a success; `kind` is the last part of its type."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.field = field
        self.headers = dict(headers or {})
        self.more = more


class FieldProblem(BaseModel):
    """What is wrong with one field."""

    field: str = Field(description="The path to it, with dots.")
    detail: str = Field(description="What is wrong with it.")


class ProblemOut(BaseModel):
    """A problem document (RFC 9457)."""

    type: str = Field(description="Which kind of problem it is; leads to a page that says more.")
    title: str = Field(description="The kind in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What is wrong, and what to do about it.")
    field: str | None = Field(default=None, description="The field that is wrong, if it is one.")
    errors: list[FieldProblem] | None = Field(
        default=None, description="Every field that is wrong."
    )
    instance: str = Field(description="The id of the request, as in X-Request-Id.")


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For a route's `responses`: these, and those that every route may answer with."""
    schema = {"$ref": "#/components/schemas/ProblemOut"}
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {PROBLEM_JSON: {"schema": schema}},
        }
        for status in sorted({*ALWAYS, *statuses})
    }


def document(problem: Problem, request_id: str) -> dict[str, Any]:
    """The body of the answer."""
    made = {
        "type": f"/problems/{problem.kind}",
        "title": kinds.title(problem.kind),
        "status": problem.status,
        "detail": clean(problem.detail, _LONGEST_DETAIL),
        "instance": request_id,
    }
    if problem.field is not None:
        made["field"] = clean(problem.field, _LONGEST_DETAIL)
    return made | problem.more


def answer(problem: Problem, request_id: str) -> Response:
    body = msgspec.json.encode(document(problem, request_id))
    return Response(body, problem.status, problem.headers, PROBLEM_JSON)


def handlers() -> dict[int | type[Exception], Callable[[Request, Any], Any]]:
    """For FastAPI: what it would answer itself, and what routes raise on purpose.

    Anything else comes out at the door, which asks `problem_of` too.
    """
    return dict.fromkeys(
        (Problem, errors.SextonError, RequestValidationError, HTTPException), _handle
    )


async def _handle(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    if isinstance(error, HTTPException) and problem.status == 404:
        problem.detail = f"{NOTHING_AT} {request.url.path}; what there is: /openapi.json"
    if problem.status == 405:
        problem.headers = {"Allow": ", ".join(sorted(_methods(request)))}
    return answer(problem, request.state.request_id)


def _methods(request: Request) -> set[str]:
    """All that there are at a path; the framework knows those of one route."""
    routes = [each for each in request.app.router.routes if isinstance(each, Route)]
    first = next((r for r in routes if r.matches(request.scope)[0] is not Match.NONE), None)
    path = None if first is None else first.path
    return {method for each in routes if each.path == path for method in each.methods or ()}


def problem_of(error: Exception) -> Problem:
    """What an error is called over HTTP."""
    match error:
        case Problem():
            return error
        case errors.SextonError():
            return _of_ours(error)
        case RequestValidationError():
            return _of_fields(error)
        case HTTPException():
            return _of_http(error)
    return _of_postgresql(error)


def _of_ours(error: errors.SextonError) -> Problem:
    detail = str(error)
    match error:
        case errors.UnknownSchedule() | errors.UnknownJob():
            return Problem(404, "not_found", detail)
        case errors.LeaseLost():
            return Problem(409, "stale_fence", detail)
        case errors.Unavailable() | errors.SchemaError() | errors.EmbeddedError():
            log.warning("a request could not be answered: %s", error)
            return unavailable()
    if (found := _FIELD.match(detail)) is None:
        return Problem(422, "invalid", detail)
    if found[3] is not None:
        return Problem(422, "invalid", detail, field=found[3])
    name = found[1] or found[2]
    field = _FIELDS.get(name, name)
    if detail.startswith(name):
        detail = field + detail.removeprefix(name)
    if field == "name" and detail.startswith("name: there is ") and " already" in detail:
        return Problem(409, "exists", detail, field=field)
    return Problem(422, "invalid", detail, field=field)


def unavailable(detail: str = "the database does not answer as it should; try again") -> Problem:
    return Problem(503, "unavailable", detail, headers={"Retry-After": "1"})


def _of_fields(error: RequestValidationError) -> Problem:
    """Without what was sent: it may be a secret, or a megabyte."""
    found = [
        {"field": _path(each["loc"]), "detail": in_words(each)}
        for each in error.errors()[:_MOST_FIELDS]
    ]
    first = found[0]
    return Problem(
        422,
        "invalid",
        f"{first['field']}: {first['detail']}" if first["field"] else first["detail"],
        field=first["field"] or None,
        errors=[
            {name: clean(text, _LONGEST_DETAIL) for name, text in each.items()} for each in found
        ],
    )


def in_words(each: Mapping[str, Any]) -> str:
    """What is wrong with a field."""
    return _WORDS.get(each["type"]) or str(each["msg"]).removeprefix("Value error, ")


def _path(place: tuple[int | str, ...]) -> str:
    """('body', 'target', 'http', 'url') is target.http.url; the body as a whole is `body`."""
    return ".".join(map(str, place[1:])) if len(place) > 1 else str(place[0])


def _of_http(error: HTTPException) -> Problem:
    status = error.status_code
    detail = str(error.detail)
    if status == 404:
        detail = f"{NOTHING_AT} this path"
    elif status == 405:
        detail = "this path knows other methods"
    kind = _OF_HTTP.get(status, "malformed" if status < 500 else "unavailable")
    return Problem(status, kind, detail, headers=error.headers)


def _of_postgresql(error: Exception) -> Problem:
    """The last line: what no check before it has seen must not become a 500."""
    match error:
        case asyncpg.UniqueViolationError() | asyncpg.ExclusionViolationError():
            return Problem(409, "conflict", "somebody has made the same just now; look again")
        case asyncpg.ForeignKeyViolationError():
            return Problem(409, "conflict", "what it belongs to is gone, or still used; look again")
        case (
            asyncpg.DataError()
            | asyncpg.IntegrityConstraintViolationError()
            | asyncpg.ProgramLimitExceededError()
            | OverflowError()
            | UnicodeError()
        ):
            log.warning("PostgreSQL refused what no check had refused: %s", say(error))
            return Problem(422, "invalid", "a value is not one that PostgreSQL can keep")
        case asyncpg.LockNotAvailableError():
            log.warning("a request waited for a lock in vain: %s", say(error))
            return unavailable(LOCKED)
        case RecursionError():
            return Problem(400, "malformed", "the body is nested too deeply")
    if is_transient(error):
        log.warning("a request could not be answered: %s", say(error))
        return unavailable()
    log.error("a request failed", exc_info=error)
    return Problem(500, "internal", "something is wrong here; the log says more")
