"""A TCP way to the server's socket that can go silent without closing."""

import asyncio
import contextlib
from pathlib import Path


class Proxy:
    """Forwards bytes; `freeze` makes every connection half-open: nothing moves, nothing closes."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self.accepted = 0

    async def __aenter__(self) -> "Proxy":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._server.wait_closed(), 1)

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def freeze(self) -> None:
        """The connections there are go silent for ever; new ones work."""
        self._flowing.clear()
        self._flowing = asyncio.Event()
        self._flowing.set()

    def silence(self) -> None:
        """Everything goes silent, new connections too, until it is allowed to `speak`."""
        self._flowing.clear()

    def speak(self) -> None:
        self._flowing.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        server_reader, server_writer = await asyncio.open_unix_connection(str(self._target))
        self._writers += [writer, server_writer]
        flowing = self._flowing
        for source, target in ((reader, server_writer), (server_reader, writer)):
            task = asyncio.create_task(self._pump(source, target, flowing))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, flowing: asyncio.Event
    ) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while data := await source.read(65536):
                await flowing.wait()
                target.write(data)
                await target.drain()
        target.close()
