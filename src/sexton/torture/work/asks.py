"""The acknowledgement log: what was asked for, before; and what was answered, after."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg

from sexton.errors import (
    ConfigurationError,
    InvalidJob,
    InvalidSchedule,
    UnknownJob,
    UnknownSchedule,
)
from sexton.torture.work.api import Answered
from sexton.torture.work.clock import now_us
from sexton.torture.work.journal import Journal

LONGEST_ERROR = 300
# It said no, or nothing could have been meant: it did not happen.
_REFUSED = (
    ConfigurationError,
    InvalidJob,
    InvalidSchedule,
    UnknownJob,
    UnknownSchedule,
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
)
_SERVER_ERROR = 500


class RolledBack(Exception):
    """Asked for and taken back, within one transaction."""


@dataclass(frozen=True, slots=True)
class Request:
    """Something that is asked for; whoever asks again says after which ask that is."""

    verb: str
    via: str
    tenant: str
    subject: str | int | None
    body: dict[str, Any]
    again: int | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """How it went; without an answer it was refused, or nobody knows."""

    n: int
    answer: dict[str, Any] | None
    unsure: bool = False
    error: str = ""


class Asks:
    """Writes both lines of every request of this process, whatever becomes of it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._journal = Journal(folder / "acks", name)
        self._numbers = count(1)

    async def make(self, request: Request, work: Callable[[], Awaitable[dict[str, Any]]]) -> Asked:
        """Ask, do it, and say what was answered; errors of the work end here."""
        n = self.ask(request)
        try:
            answer = await work()
        except Exception as error:
            unsure = is_unsure(error)
            return Asked(n, None, unsure, self.error(n, error, unsure=unsure))
        self.answer(n, answer)
        return Asked(n, answer)

    def ask(self, request: Request) -> int:
        """The first line; its number, for the second."""
        n = next(self._numbers)
        asked = {
            "at": now_us(),
            "event": "ask",
            "n": n,
            "verb": request.verb,
            "via": request.via,
            "tenant": request.tenant,
            "subject": request.subject,
            "body": request.body,
        }
        if request.again is not None:
            asked["again"] = request.again
        self._journal.write(asked)
        return n

    def answer(self, n: int, answer: dict[str, Any]) -> None:
        self._journal.write({"at": now_us(), "event": "ack", "n": n, "answer": answer})

    def error(self, n: int, error: Exception, *, unsure: bool) -> str:
        """What is said of it."""
        said = f"{type(error).__name__}: {error}"[:LONGEST_ERROR]
        line = {"at": now_us(), "event": "error", "n": n, "error": said, "unsure": unsure}
        self._journal.write(line)
        return said


def is_unsure(error: Exception) -> bool:
    """Whether it may have happened all the same: so it is with everything but a plain no."""
    if isinstance(error, Answered):
        return error.status >= _SERVER_ERROR
    return not isinstance(error, (*_REFUSED, RolledBack))
