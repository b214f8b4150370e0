"""A named statement, run for one installation."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

import asyncpg

from sexton import sql
from sexton.store.source import Row, Source

DAYS_AHEAD = 7
# Returns None for the database's own clock, which is what everyone but a test wants.
Clock = Callable[[], datetime | None]


class Statements:
    """The bridge from a method to its .sql file."""

    def __init__(self, source: Source, schema: str, clock: Clock | None) -> None:
        self.source = source
        self.schema = schema
        self._clock = clock

    def now(self) -> datetime | None:
        return self._clock() if self._clock else None

    async def rows(self, name: str, *args: Any) -> list[Row]:
        return await self.source.fetch(sql.statement(name, self.schema), *args)

    async def into_history(self, name: str, *args: Any) -> list[Row]:
        """A statement that writes history; a day that has no bucket yet gets one."""
        try:
            return await self.rows(name, *args)
        except asyncpg.CheckViolationError as error:
            if error.constraint_name is not None:  # a row without a bucket violates no named one
                raise
            await self.rows("make_buckets", DAYS_AHEAD, self.now())
            return await self.rows(name, *args)

    async def row(self, name: str, *args: Any) -> Row | None:
        rows = await self.rows(name, *args)
        return rows[0] if rows else None

    async def value(self, name: str, *args: Any) -> Any:
        row = await self.row(name, *args)
        return None if row is None else row[0]

    async def copy(
        self, table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]
    ) -> None:
        await self.source.copy(self.schema, table, columns, rows)
