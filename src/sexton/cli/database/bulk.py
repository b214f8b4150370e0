"""Many at a time at the database: chunk by chunk, as the service takes them in."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from sexton.cli.database.ground import Ground
from sexton.remote.schedules import plain
from sexton.remote.views import Line

CHUNK = 1000

Part = TypeVar("Part")
Numbered = list[tuple[int, Mapping[str, Any]]]
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Line).decode_lines


def _chunks(said: Iterable[Mapping[str, Any]]) -> Iterable[Numbered]:
    numbered = enumerate(said, 1)
    while chunk := [*itertools.islice(numbered, CHUNK)]:
        yield chunk


async def enqueue_many(ground: Ground, jobs: Iterable[Mapping[str, Any]]) -> AsyncIterator[Line]:
    """An answer for each, in order; each chunk is a transaction."""
    from sexton.api.routes.job_bulk import Adding

    adding = Adding(await ground.call())
    async for line in _answered(jobs, adding.read, adding.work, adding.longest):
        yield line


async def add_many(
    ground: Ground, schedules: Iterable[Mapping[str, Any]], mode: Literal["create", "upsert"]
) -> AsyncIterator[Line]:
    """An answer for each, in order; each chunk is a transaction."""
    from sexton.api.enrolling import Clerk

    clerk = Clerk(await ground.call(), mode)
    async for line in _answered(schedules, clerk.read, clerk.work, clerk.longest):
        yield line


async def _answered(
    said: Iterable[Mapping[str, Any]],
    read: Callable[[list[Any]], Awaitable[Part]],
    work: Callable[[Part], Awaitable[bytes]],
    longest: int,
) -> AsyncIterator[Line]:
    from sexton.api.ndjson import Line as Sent

    for chunk in _chunks(said):
        sent: list[Sent] = []
        told: dict[int, Line] = {}
        for number, each in chunk:
            try:
                text = _encode(plain(each))
                sent.append(Sent(number, text if len(text) <= longest else None))
            except (TypeError, ValueError, OverflowError, RecursionError) as error:
                told[number] = Line(number, "error", error={"status": 400, "detail": str(error)})
        if sent:
            told |= {line.line: line for line in _decode(await work(await read(sent)))}
        for number, _ in chunk:
            yield told[number]
