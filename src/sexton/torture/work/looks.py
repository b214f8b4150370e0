"""What an operator is shown: whoever asks for a tenant is told of what is its own, and notes it."""

import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any

from sexton.torture.work.access import Access, Tenant
from sexton.torture.work.asks import Asks, Request
from sexton.torture.work.hands import ApiHand, Hand


class Looks:
    """In Python a look is for all tenants, and no request that anybody has to remember."""

    def __init__(self, hand: Hand, access: Access, asks: Asks, random: Random) -> None:
        self._hand = hand
        self._tenants = access.tenants
        self._asks = asks
        self._random = random

    async def jobs(self, of: str) -> list[tuple[Tenant, int]]:
        """Some that are `live` or `dead`, and whose they are; none in an outage."""
        tenant, found = self._tenant(), list[tuple[Tenant, int]]()

        async def work() -> dict[str, Any]:
            found[:] = await (self._hand.live if of == "live" else self._hand.dead)(tenant)
            return {"jobs": [{"id": id} for _, id in found]}

        if self._hand.via == "api":
            await self._ask(tenant, of, work)
        else:
            with contextlib.suppress(Exception):  # the next turn may find it over
                await work()
        return found

    async def schedules(self) -> None:
        if isinstance(self._hand, ApiHand):
            tenant = self._tenant()
            await self._ask(tenant, "schedules", partial(self._hand.schedules, tenant))

    def _tenant(self) -> Tenant:
        return self._tenants[self._random.choice(sorted(self._tenants))]

    async def _ask(
        self, tenant: Tenant, of: str, work: Callable[[], Awaitable[dict[str, Any]]]
    ) -> None:
        await self._asks.make(Request("list", self._hand.via, tenant.name, None, {"of": of}), work)
