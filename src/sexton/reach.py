"""From an application to the database, for everything about schedules."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import asyncpg

from sexton.domain.spec import checked_name
from sexton.errors import InvalidSchedule
from sexton.flow.verbs import Verbs
from sexton.store import Store

if TYPE_CHECKING:
    from sexton.app import Sexton

T = TypeVar("T")
TRIES = 5
COLLIDED = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)


class Reach:
    """What the parts of `app.schedules` have in common."""

    def __init__(self, app: "Sexton") -> None:
        self._app = app

    async def at(self, tenant: str) -> tuple[Store, int]:
        """The store, and the tenant's id."""
        checked_name(tenant, "tenant")
        store = (await self._app.client()).store
        id = await store.schedules.tenant(tenant)
        if id is None:
            raise InvalidSchedule(f"tenant: there is no {tenant!r}")
        return store, id

    async def _do(self, tenant: str, work: Callable[[Verbs], Awaitable[T]]) -> T:
        return await self.transaction(tenant, lambda store, owner: work(Verbs(store, owner)))

    async def transaction(self, tenant: str, work: Callable[[Store, int], Awaitable[T]]) -> T:
        """In one transaction, which is tried again if it collided with another."""
        _, tenant_id = await self.at(tenant)
        client = await self._app.client()
        for tries in range(1, TRIES + 1):
            try:
                async with client.transaction() as store:
                    return await work(store, tenant_id)
            except COLLIDED:
                if tries == TRIES:
                    raise
        raise AssertionError
