"""What everything at the database has in common: a store, a tenant, and a desk to work at."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg
import msgspec

from sexton.app import Sexton
from sexton.cli.database import logged
from sexton.cli.database.logged import Change
from sexton.errors import ConfigurationError, Unavailable
from sexton.remote.errors import Problem, Refused, kind_of
from sexton.store import Held, Store
from sexton.store.schedules import DEFAULT_TENANT

if TYPE_CHECKING:
    from fastapi import Response

    from sexton.api.call import Call
    from sexton.api.desk import Desk
    from sexton.api.service import Service

T = TypeVar("T")
ENDPOINT = "http:"


class Ground:
    """One tenant of one installation."""

    def __init__(self, app: Sexton, tenant: str = DEFAULT_TENANT) -> None:
        self.app = app
        self.tenant = tenant
        self._owner: int | None = None
        self._service: Service | None = None

    async def store(self) -> Store:
        return (await self.app.client()).store

    async def owner(self) -> int:
        """The tenant's id."""
        if self._owner is None:
            self._owner = await (await self.store()).schedules.tenant(self.tenant)
        if self._owner is None:
            raise ConfigurationError(
                f"there is no tenant {self.tenant!r}: see `sexton tenant ls`, or make it with "
                "`sexton tenant put`"
            )
        return self._owner

    @contextlib.asynccontextmanager
    async def listing(self, settings: str = "") -> AsyncIterator[Store]:
        """A transaction in the name of the tenant, as lists are read in."""
        client, owner = await self.app.client(), await self.owner()
        async with client.transaction() as store:
            assert isinstance(store.source, Held)
            await store.source.connection.execute(
                f"set local {client.store.schema}.tenant = {owner:d}; {settings}",
                timeout=client.address.patience,
            )
            yield store

    async def targets(
        self, tasks: Iterable[str], store: Store | None = None
    ) -> dict[str, dict[str, Any]]:
        """As the API says them; within a transaction, looked up in it."""
        wanted = set(tasks)
        if not any(each.startswith(ENDPOINT) for each in wanted):
            return {task: {"task": task} for task in wanted}
        from sexton.api.targets import target_of

        numbers = [each.removeprefix(ENDPOINT) for each in wanted]
        ids = [int(each) for each in numbers if each.isdecimal()]
        endpoints = (store or await self.store()).endpoints
        rows = await endpoints.by_id(ids, await self.owner())
        return {task: target_of(task, {row.id: row for row in rows}) for task in wanted}

    async def task(self, target: Any) -> str:
        """The task that a target is; that of an endpoint is looked up, or made."""
        if isinstance(target, str):
            return target
        if isinstance(name := target.get("task"), str):
            return name
        from sexton.api.targets import task_of

        async with self.desk() as desk:
            return await task_of(desk, target)

    async def changed(self, work: Callable[[Change], Awaitable[T]]) -> T:
        """What `work` does, in one transaction with its lines in the audit log."""
        return await logged.changed(self.app, await self.owner(), work)

    @contextlib.asynccontextmanager
    async def desk(self, *, operating: bool = False) -> "AsyncIterator[Desk]":
        """A transaction as the service has them, with its lines in the audit log. `operating`: at
        what is no tenant's own, such as keys.

        It costs a third of a second to begin with, so what is done often goes without.
        """
        from sexton.api.origin import Origin
        from sexton.api.principal import Principal

        service = await self._served(operating)
        who = Principal(1, DEFAULT_TENANT, "admin", logged.actor())
        if not operating:
            who = Principal(await self.owner(), self.tenant, "admin", logged.actor())
        origin = Origin(logged.host())
        with _told():
            async with service.transaction(who, origin=origin, operating=operating) as desk:
                yield desk

    async def _served(self, operating: bool = False) -> "Service":
        """The state that an API process would have; tenants need a role, operators do not."""
        from sexton.api.role import demand_role
        from sexton.api.service import Service

        client = await self.app.client()
        if operating:
            return Service(self.app, client.pool, client.store)
        if self._service is None:
            await demand_role(client.store, client.pool)
            self._service = Service(self.app, client.pool, client.store)
        return self._service

    async def call(self) -> "Call":
        """A request to the service that nobody has sent, by whoever sits here."""
        from sexton.api.principal import Principal
        from sexton.cli.database.called import local_call

        service = await self._served()
        who = Principal(await self.owner(), self.tenant, "admin", logged.actor())
        return local_call(service, who, logged.host())

    async def asked(
        self, route: "Callable[..., Awaitable[Response]]", *given: Any, kind: type[T]
    ) -> T:
        """What a route of the service answers, without any request."""
        with _told():
            response = await route(*given, call=await self.call())
        if not response.body:
            return None  # type: ignore[return-value]
        return msgspec.json.decode(response.body, type=kind)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """What the service refuses, and what it waited for in vain, as commands know it."""
    from sexton.api.problems import LOCKED
    from sexton.api.problems import Problem as Refusal

    try:
        yield
    except Refusal as refusal:
        raise refused(refusal.status, refusal.detail, refusal.kind) from None
    except asyncpg.LockNotAvailableError as error:
        raise Unavailable(LOCKED) from error


def said_of(kind: Any, said: dict[str, Any]) -> Any:
    """A body as the service would read it."""
    from pydantic import ValidationError

    from sexton.api.problems import in_words

    try:
        return kind.model_validate(said)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise refused(422, f"{'.'.join(map(str, first['loc']))}: {in_words(first)}") from None


def refused(status: int, detail: str, kind: str = "") -> Refused:
    """What the service would have answered."""
    return kind_of(status)(Problem(status, detail, kind))
