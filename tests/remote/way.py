"""A way to the service that can be cut: before a request, or after it and before its answer."""

import asyncio
import contextlib
from typing import Self
from urllib.parse import urlsplit


class Way:
    """Forwards bytes to a service on this host."""

    def __init__(self, url: str) -> None:
        self._port = urlsplit(url).port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.swallow = 0  # so many answers from now on are lost, with their connection
        self.swallowed = 0

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def open(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def leads_to(self, url: str) -> None:
        """From now on, to another."""
        self._port = urlsplit(url).port

    async def shut(self) -> None:
        """Nothing goes through, nobody is let in; `open(way.port)` ends that."""
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def __aexit__(self, *_: object) -> None:
        await self.shut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, there}
        for source, target, back in ((reader, there, False), (there_reader, writer, True)):
            task = asyncio.create_task(self._pump(source, target, back))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, back: bool
    ) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while data := await source.read(65536):
                if back and self.swallow:
                    self.swallow -= 1
                    self.swallowed += 1
                    target.transport.abort()
                    return
                target.write(data)
                await target.drain()
        target.close()
