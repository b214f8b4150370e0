"""Connections are shared between tenants: one whose requests take long leaves some to others."""

import asyncio
from types import TracebackType
from weakref import WeakValueDictionary

from sexton.errors import Unavailable


class Turns:
    """Of every four connections of a process a tenant has three at most; its requests wait for
    each other, and not those of others for them.
    """

    def __init__(self, connections: int, patience: float) -> None:
        self._most = max(1, connections - max(1, connections // 4))
        self._patience = patience
        self._of: WeakValueDictionary[int, Turn] = WeakValueDictionary()

    def of(self, tenant: int) -> "Turn":
        """To be held while a transaction of this tenant has a connection."""
        turn = self._of.get(tenant)
        if turn is None:
            turn = self._of[tenant] = Turn(self._most, self._patience)
        return turn


class Turn(asyncio.Semaphore):
    """One tenant's; forgotten when nobody holds it or waits for it."""

    def __init__(self, most: int, patience: float) -> None:
        super().__init__(most)
        self._patience = patience

    async def __aenter__(self) -> None:
        if not self.locked():
            await self.acquire()
            return
        try:
            async with asyncio.timeout(self._patience):
                await self.acquire()
        except TimeoutError:
            raise Unavailable("other requests of this tenant take all of its connections") from None

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
