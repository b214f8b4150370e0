"""An application's own connections, over which whoever came before the migrations is told so."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from sexton.store.connection import Address
from sexton.store.migrations import MISSING, check
from sexton.store.pool import Pool
from sexton.store.source import Row


class Migrated(Pool):
    """A pool that tells a missing migration from a wrong statement."""

    def __init__(self, address: Address, size: int, schema: str) -> None:
        super().__init__(address, size)
        self._schema = schema

    async def fetch(self, query: str, *args: Any) -> list[Row]:
        try:
            return await super().fetch(query, *args)
        except MISSING:
            await self._demand_current()
            raise

    @contextlib.asynccontextmanager
    async def demanded(self) -> AsyncIterator[None]:
        """The same for what runs in a transaction, or on a connection of the caller's."""
        try:
            yield
        except MISSING:
            await self._demand_current()
            raise

    async def _demand_current(self) -> None:
        """After a statement missed what migrations make: it is their fault, or nobody's here."""
        (await check(self.address, self._schema)).demand_current()
