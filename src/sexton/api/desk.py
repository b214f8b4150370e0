"""A tenant's desk: everything that can be done for it, inside one transaction."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import asyncpg

from sexton.api import audit_log
from sexton.api.origin import Origin
from sexton.api.principal import Principal
from sexton.calendars import Calendars
from sexton.reach import COLLIDED
from sexton.schedules import Schedules
from sexton.store import Held, Store
from sexton.store.service import LogLine

if TYPE_CHECKING:
    from sexton.api.service import Service


class Collided(Exception):
    """This transaction met another that wanted the same; as a whole it may be tried again."""


class Desk:
    """The application as seen from inside a tenant's transaction.

    `schedules` and `calendars` are those of `app`, and take part in this transaction. They want an
    application that has `client()`, and of it a store and a transaction: this is both.
    """

    def __init__(
        self,
        service: "Service",
        principal: Principal,
        connection: asyncpg.Connection,
        origin: Origin,
    ) -> None:
        app = service.app
        self.service = service
        self.principal = principal
        self.origin = origin
        self.tenant = principal.tenant
        self.tenant_id = principal.tenant_id
        self.connection = connection
        self.held = Held(connection, service.patience)
        self.store: Store = service.store.over(self.held)
        self.tasks = app.tasks
        quota = principal.quotas.max_payload_bytes
        self.max_payload_bytes = (
            app.max_payload_bytes if quota is None else min(quota, app.max_payload_bytes)
        )
        self.name = app.name
        self.settings = app.settings
        self.clock = app.clock
        self.changes: list[LogLine] = []
        self.kept: tuple[str, tuple[int, str, bytes]] | None = None
        self.afterwards: list[Callable[[], None]] = []

    # Made when asked for, not kept: a desk that pointed at itself would be left to the collector.

    @property
    def schedules(self) -> Schedules:
        return Schedules(self)  # type: ignore[arg-type]

    @property
    def calendars(self) -> Calendars:
        return Calendars(self)  # type: ignore[arg-type]

    async def client(self) -> "Desk":
        return self

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Store]:
        """The one we are in: what fails in it fails as a whole, and is tried again as a whole."""
        try:
            yield self.store
        except COLLIDED as error:
            raise Collided from error

    def log(
        self,
        action: str,
        subject: str,
        before: Any = None,
        after: Any = None,
        *,
        tenant_id: int | None = None,
    ) -> None:
        """A line of the audit log, written before this transaction is committed.

        It is the tenant's own, unless an operator has changed something of another's.
        """
        owner = self.tenant_id if tenant_id is None else tenant_id
        self.changes.append(audit_log.line(owner, action, subject, before, after))

    def after_commit(self, what: Callable[[], None]) -> None:
        """Something that is only worth doing if this is committed: waking somebody, mostly."""
        self.afterwards.append(what)

    async def finish(self) -> None:
        """The last thing before the commit: the lines of the log, and the answer if it is kept."""
        if not self.changes and self.kept is None:
            return
        key, answer = (None, None) if self.kept is None else self.kept
        who = (
            self.principal.actor,
            self.principal.key_id,
            self.origin.address,
            self.origin.request_id,
        )
        await self.store.requests.end(who, self.changes, self.tenant_id, key, answer)
