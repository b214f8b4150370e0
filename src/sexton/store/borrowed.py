"""Connections inside a transaction: the caller's own, and one of ours that is held for a while."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

import asyncpg

from sexton.store.connection import is_lost
from sexton.store.source import Row

_CHUNK = 1000
_STIRS_EVERY = 256
_TICKS = 10
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_QUOTES = str.maketrans({"\\": "\\\\", '"': '\\"'})


class Borrowed:
    """The caller's own asyncpg connection, in the caller's own transaction."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection

    async def fetch(self, query: str, *args: Any) -> list[Row]:
        rows: list[Row] = await self.connection.fetch(query, *args)
        return rows

    async def copy(
        self, schema: str, table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]
    ) -> None:
        """As text: a binary COPY would go through codecs that the caller may have set."""
        await self.connection.copy_to_table(
            table, schema_name=schema, columns=columns, source=_as_text(iter(rows))
        )


class Held:
    """A connection of ours, in a transaction of ours: none of its steps outlasts our patience,
    and the time that a statement may wait for a lock."""

    def __init__(
        self, connection: asyncpg.Connection, patience: float, *, locked_for: float = 0.0
    ) -> None:
        self.connection = connection
        self._patience = patience
        self._locked_for = locked_for

    async def fetch(self, query: str, *args: Any) -> list[Row]:
        within = self._patience + self._locked_for
        rows: list[Row] = await self.connection.fetch(query, *args, timeout=within)
        return rows

    @contextlib.asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """What fails in it is undone, and the transaction goes on; unless its server is gone, of
        which nobody asks anything more."""
        # By hand: asyncpg's would wait for ever, and a timeout of asyncio's fires though the answer
        # is there, if the loop was kept busy.
        await self.connection.execute("savepoint held", timeout=self._patience)
        try:
            yield
        except Exception as error:
            if not is_lost(error):
                await self.connection.execute(
                    "rollback to savepoint held; release savepoint held", timeout=self._patience
                )
            raise
        await self.connection.execute("release savepoint held", timeout=self._patience)

    async def copy(
        self, schema: str, table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]
    ) -> None:
        """However long it takes, as long as it goes on: rows are drawn as PostgreSQL takes them."""
        async with _while_it_stirs(self._patience) as stir:
            await self.connection.copy_records_to_table(
                table, schema_name=schema, columns=columns, records=_stirring(iter(rows), stir)
            )


@contextlib.asynccontextmanager
async def _while_it_stirs(patience: float) -> AsyncIterator[Callable[[], None]]:
    """A timeout that begins anew whenever it is told to.

    It counts ticks, not seconds: a loop that was kept busy, by a caller who is slow to say what
    to enqueue, has missed only one.
    """
    loop = asyncio.get_running_loop()
    left = _TICKS
    timer: asyncio.TimerHandle | None = None

    def stir() -> None:
        nonlocal left
        left = _TICKS

    def tick() -> None:
        nonlocal left, timer
        left -= 1
        if left > 0:
            timer = loop.call_later(patience / _TICKS, tick)
        else:
            limit.reschedule(loop.time())

    async with asyncio.timeout(None) as limit:
        timer = loop.call_later(patience / _TICKS, tick)
        try:
            yield stir
        finally:
            if timer is not None:
                timer.cancel()


def _stirring(
    rows: Iterator[tuple[Any, ...]], stir: Callable[[], None]
) -> Iterator[tuple[Any, ...]]:
    while part := list(islice(rows, _STIRS_EVERY)):
        stir()
        yield from part


async def _as_text(rows: Iterator[tuple[Any, ...]]) -> AsyncIterator[bytes]:
    while part := ["\t".join(map(_field, row)) for row in islice(rows, _CHUNK)]:
        yield ("\n".join(part) + "\n").encode()


def _field(value: Any) -> str:
    match value:
        case None:
            return "\\N"
        case str():
            return value.translate(_ESCAPES)
        case bool():
            return "t" if value else "f"
        case datetime():
            return value.isoformat()
        case list() | tuple():
            items = ",".join(f'"{item.translate(_QUOTES)}"' for item in value)
            return f"{{{items}}}".translate(_ESCAPES)
        case _:
            return str(value)
