"""Bodies of many lines (NDJSON): read, worked on and answered chunk by chunk.

A chunk is as many lines as one transaction takes. Never more than a few of them are in memory,
whoever sends how much: what the client does not read in time holds up what it sends.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from fastapi import Request, Response
from pydantic import BaseModel
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from sexton.api.problems import Problem

MEDIA_TYPE = "application/x-ndjson"
TAKEN = (MEDIA_TYPE, "application/ndjson", "application/jsonl", "application/jsonlines")
CHUNK_LINES = 2000
CHUNK_BYTES = 4 * 2**20
# Answers that the client has not read yet. Many clients send everything before they read anything.
UNREAD_CHUNKS = 64
# Who sends a few lines and waits for the answers gets them.
IDLE = 0.05
# Who does not read, or does not send, for so long will not any more.
STALLED = 300.0

Part = TypeVar("Part")


class Line(NamedTuple):
    """A line of the body, counted from 1; None: it was longer than it may be."""

    number: int
    text: bytes | None


def demand_ndjson(request: Request) -> None:
    """A body of lines says that it is one, and is not compressed."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in TAKEN:
        raise Problem(
            415, "unsupported_media_type", f"send {MEDIA_TYPE}: one JSON object on each line"
        )
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem(415, "unsupported_media_type", "send it uncompressed")


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Of a line, for the description: whole, because nothing that it could point to is there."""
    schema = model.model_json_schema()
    parts = schema.pop("$defs", {})

    def resolved(value: Any) -> Any:
        if isinstance(value, list):
            return [*map(resolved, value)]
        if not isinstance(value, dict):
            return value
        if (ref := value.get("$ref")) is not None:
            return resolved(parts[ref.rpartition("/")[2]])
        return {name: resolved(each) for name, each in value.items()}

    found: dict[str, Any] = resolved(schema)
    return found


class Bulk(Response, Generic[Part]):
    """The answer to a body of lines: `read` makes something of a chunk, `work` does it.

    While PostgreSQL takes in one chunk the next is read. A chunk that has begun is finished also
    if the client goes away; what follows is not begun.
    """

    media_type = MEDIA_TYPE

    def __init__(
        self,
        read: Callable[[list[Line]], Awaitable[Part]],
        work: Callable[[Part], Awaitable[bytes]],
        *,
        longest: int,
        at_once: bool = True,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`longest` is that of a line. `at_once`: a chunk also ends where nothing follows for a
        moment; without, where it ends depends on the body alone.
        """
        self.status_code = 200
        self.background = None
        self.init_headers(headers)  # without a length: it ends when everything is done
        self._read = read
        self._work = work
        self._longest = longest
        self._at_once = at_once

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        done: asyncio.Queue[bytes | None] = asyncio.Queue(UNREAD_CHUNKS)
        reading = asyncio.Event()

        async def receive_more() -> Message:
            reading.set()
            return await receive()

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._produce(receive_more, done))
                # Our reading tells who sends Expect: 100-continue to go on; after this it cannot.
                await reading.wait()
                start = {"status": self.status_code, "headers": self.raw_headers}
                await send({"type": "http.response.start", **start})
                while (part := await done.get()) is not None:
                    await _sent(send, part, more=True)
                await _sent(send, b"", more=False)
        except* (ClientDisconnect, TimeoutError):
            pass

    async def _produce(self, receive: Receive, done: asyncio.Queue[bytes | None]) -> None:
        running: asyncio.Task[None] | None = None

        async def run(part: Part) -> None:
            await done.put(await self._work(part))

        try:
            chunks = Chunks(receive, self._longest, IDLE if self._at_once else None)
            async for chunk in chunks.read():
                part = await self._read(chunk)
                if running is not None:
                    await running
                running = asyncio.create_task(run(part))
                await asyncio.sleep(0)  # it sends its first statement before we read on
        finally:
            if running is not None:
                await running
        await done.put(None)


async def _sent(send: Send, body: bytes, *, more: bool) -> None:
    async with asyncio.timeout(STALLED):
        await send({"type": "http.response.body", "body": body, "more_body": more})


class Chunks:
    """The lines of a body in chunks; blank ones are counted, and left out."""

    def __init__(
        self,
        receive: Receive,
        longest: int,
        idle: float | None,
        lines: int = CHUNK_LINES,
        size: int = CHUNK_BYTES,
    ) -> None:
        self._receive = receive
        self._longest = longest
        self._idle = idle
        self._lines = lines
        self._size = size
        self._receiving: asyncio.Future[Message] | None = None

    async def read(self) -> AsyncIterator[list[Line]]:
        found: list[Line] = []
        size = number = 0
        rest, cut, more = b"", False, True  # cut: within a line that is too long
        try:
            while more:
                message = await self._next(self._idle if found else None)
                if message is None:
                    yield found
                    found, size = [], 0
                    continue
                more = message.get("more_body", False)
                rest += message.get("body", b"")
                if not more and (rest or cut):
                    rest += b"\n"
                *whole, rest = rest.split(b"\n")
                for text in whole:
                    number += 1
                    if cut or len(text) > self._longest:
                        found.append(Line(number, None))
                        cut = False
                    elif text and not text.isspace():
                        found.append(Line(number, text))
                        size += len(text)
                    if len(found) >= self._lines or size >= self._size:
                        yield found
                        found, size = [], 0
                if len(rest) > self._longest:
                    rest, cut = b"", True
            if found:
                yield found
        finally:
            if self._receiving is not None:
                self._receiving.cancel()

    async def _next(self, soon: float | None) -> Message | None:
        """What comes next of the body; None: nothing came soon."""
        if self._receiving is None:
            self._receiving = asyncio.ensure_future(self._receive())
        await asyncio.wait({self._receiving}, timeout=STALLED if soon is None else soon)
        if not self._receiving.done():
            if soon is None:
                raise TimeoutError
            return None
        message = self._receiving.result()
        self._receiving = None
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        return message
