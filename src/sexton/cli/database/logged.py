"""Changes at the database: each is one transaction with its lines in the audit log."""

import contextlib
import os
import pwd
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import asyncpg

from sexton.api import audit_log
from sexton.app import Sexton
from sexton.calendars import Calendars
from sexton.errors import Unavailable
from sexton.reach import COLLIDED, TRIES
from sexton.schedules import Schedules
from sexton.store import Store
from sexton.store.service import LogLine

T = TypeVar("T")


def actor() -> str:
    """Whoever sits here, as the system knows them: variables say what somebody has set."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run as anybody
        name = f"user {os.getuid()}"
    return f"{name} at the command line"


def host() -> str:
    """Where that is."""
    return socket.gethostname() or "local"


class _Collided(Exception):
    """This transaction met another that wanted the same; as a whole it may be tried again."""


class Change:
    """The application as seen from inside one transaction, for one tenant.

    What a desk is to the service, without the role of its tenants and without its libraries.
    `schedules` and `calendars` take part in the transaction: they want an application that has
    `client()`, and of it a store and a transaction, and this is both.
    """

    def __init__(self, app: Sexton, store: Store, owner: int) -> None:
        self.store = store
        self.owner = owner
        self.tasks, self.name = app.tasks, app.name
        self.settings, self.clock = app.settings, app.clock
        self.max_payload_bytes = app.max_payload_bytes
        self._lines: list[LogLine] = []
        self._afterwards: list[Callable[[], None]] = []

    @property
    def schedules(self) -> Schedules:
        return Schedules(self)  # type: ignore[arg-type]

    @property
    def calendars(self) -> Calendars:
        return Calendars(self)  # type: ignore[arg-type]

    async def client(self) -> "Change":
        return self

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Store]:
        """The one we are in: what fails in it fails as a whole, and is tried again as a whole."""
        try:
            yield self.store
        except COLLIDED as error:
            raise _Collided from error

    def log(self, action: str, subject: str, before: Any = None, after: Any = None) -> None:
        """A line of the tenant's log, written before this is committed."""
        self._lines.append(audit_log.line(self.owner, action, subject, before, after))

    def after_commit(self, what: Callable[[], None]) -> None:
        self._afterwards.append(what)

    async def finish(self) -> None:
        if self._lines:
            who = actor(), None, host(), "-"
            await self.store.requests.end(who, self._lines, self.owner, None, None)

    def wake(self) -> None:
        for each in self._afterwards:
            each()


async def changed(app: Sexton, owner: int, work: Callable[[Change], Awaitable[T]]) -> T:
    """What `work` does, all or nothing; it is done again if it collided with something else."""
    client = await app.client()
    for _ in range(TRIES):
        try:
            async with client.transaction() as store:
                change = Change(app, store, owner)
                done = await work(change)
                await change.finish()
            change.wake()
            return done
        except (*COLLIDED, _Collided):
            continue
        except (asyncpg.InFailedSQLTransactionError, asyncpg.CheckViolationError) as error:
            # Most likely there is no bucket yet for today's history, and none can be made in a
            # transaction that has failed because of it.
            if getattr(error, "constraint_name", None) is not None:
                raise
            await client.store.history.make_buckets()
    raise Unavailable("others change the same all the time: nothing was done, try again")
