"""An endpoint of the tests' own: hears every byte, and answers whatever it is told to."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Heard:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]  # names in small letters
    names: list[str]  # as they came, those that came twice too
    body: bytes
    connection: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Reply = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]] | None
Answer = Callable[[Heard], Reply | Awaitable[Reply]]


def reply(status: int = 200, body: bytes = b"", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def reply_json(value: Any, status: int = 200) -> bytes:
    return reply(status, json.dumps(value).encode(), Content_Type="application/json")


@dataclass
class Sink:
    """Answers 200 unless told otherwise; None: closes the connection without a word."""

    answer: Answer = lambda heard: reply()
    heard: list[Heard] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    host: str = "127.0.0.1"
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}/hook"

    async def until(self, enough: Callable[["Sink"], bool], seconds: float = 30.0) -> None:
        async with asyncio.timeout(seconds), self.changed:
            await self.changed.wait_for(lambda: enough(self))

    async def until_heard(self, many: int, seconds: float = 30.0) -> None:
        await self.until(lambda sink: len(sink.heard) >= many, seconds)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = self.connections
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self._one(reader, writer, connection):
                pass
        writer.close()

    async def _one(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int
    ) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *lines = head.rstrip().split("\r\n")
        method, path, _ = line.split(" ")
        fields = [each.partition(": ") for each in lines]
        headers = {name.lower(): value for name, _, value in fields}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        names = [name.lower() for name, _, _ in fields]
        heard = Heard(method, path, headers, names, body, connection)
        said = self.answer(heard)
        if isinstance(said, Awaitable):
            said = await said
        async with self.changed:
            self.heard.append(heard)
            self.changed.notify_all()
        if said is None:
            return False
        if not isinstance(said, bytes):
            await said(writer)
            return False
        writer.write(said)
        await writer.drain()
        return True


@contextlib.asynccontextmanager
async def listening(
    answer: Answer | None = None, host: str = "127.0.0.1", port: int = 0, **kind: Any
) -> AsyncIterator[Sink]:
    """A sink that hears; what still hangs on it at the end is cut off."""
    sink = Sink(host=host)
    if answer is not None:
        sink.answer = answer
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        try:
            await sink.serve(reader, writer)
        except asyncio.CancelledError:
            writer.close()
        finally:
            serving.discard(task)

    server = await asyncio.start_server(serve, host, port, **kind)
    sink.port = server.sockets[0].getsockname()[1]
    try:
        yield sink
    finally:
        server.close()
        for task in list(serving):
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
