"""What a service refuses, as exceptions that are also those of the Python API.

Refused                 any answer that is not a success; `problem` is its document
├── Invalid             also InvalidJob and InvalidSchedule: something said cannot be right
├── NotFound            also UnknownJob and UnknownSchedule
├── Conflict            what is there stands in the way
│   └── Stale           also LeaseLost: the attempt is no longer ours
├── Denied              no key, not a good one, or not one for that
└── Busy                also Unavailable: too much, too soon; or it cannot be answered just now
Unavailable             the service cannot be reached; nothing was acknowledged
"""

from typing import Any

import msgspec

from sexton.errors import (
    InvalidJob,
    InvalidSchedule,
    LeaseLost,
    SextonError,
    Unavailable,
    UnknownJob,
    UnknownSchedule,
)

_LONGEST = 500


class Problem(msgspec.Struct, frozen=True):
    """A problem document (RFC 9457), as far as it is one."""

    status: int
    detail: str = ""
    type: str = ""
    field: str | None = None
    instance: str | None = None
    errors: list[dict[str, Any]] | None = None

    @property
    def kind(self) -> str:
        return self.type.rpartition("/")[2]


class Refused(SextonError):
    """The service answered, and not with what was asked for."""

    def __init__(self, problem: Problem, retry_after: float | None = None) -> None:
        super().__init__(problem.detail or f"the service answered with {problem.status}")
        self.problem = problem
        self.retry_after = retry_after

    @property
    def status(self) -> int:
        return self.problem.status

    @property
    def kind(self) -> str:
        return self.problem.kind


class Invalid(Refused, InvalidJob, InvalidSchedule):
    """Something that was said cannot be right; nothing was changed."""


class NotFound(Refused, UnknownJob, UnknownSchedule):
    """There is no such thing, or it is another tenant's."""


class Conflict(Refused):
    """What is there stands in the way."""


class Stale(Conflict, LeaseLost):
    """The attempt is no longer ours; what was said of it changed nothing."""


class Denied(Refused):
    """No key, not a good one, or not one for that."""


class Busy(Refused, Unavailable):
    """Too much, too soon, or it cannot be answered just now: come back later."""


_BY_STATUS: dict[int, type[Refused]] = {
    400: Invalid,
    401: Denied,
    403: Denied,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: Busy,
}


def kind_of(status: int) -> type[Refused]:
    return _BY_STATUS.get(status, Busy if status >= 500 else Refused)


def error_of(status: int, body: bytes, retry_after: str | None) -> Refused:
    """The exception for an answer; whatever stands between may have made it."""
    try:
        problem = msgspec.json.decode(body, type=Problem)
    except (msgspec.MsgspecError, UnicodeError):
        said = body[:_LONGEST].decode("utf-8", "replace").strip()
        problem = Problem(status, f"the service answered with {status}: {said}")
    kind = kind_of(status)
    if problem.kind == "stale_fence":
        kind = Stale
    wait = None
    if retry_after is not None and retry_after.isdecimal():
        wait = float(retry_after)
    return kind(problem, wait)
