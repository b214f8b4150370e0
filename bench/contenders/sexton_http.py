"""Sexton's deliveries: workers for the queue http, and a sink that answers them.

The sink has a process of its own and does as little as an HTTP server can: it shares two cores with
everybody else, and is not what is measured.
"""

from __future__ import annotations

import asyncio
import resource
import time
from typing import Any

from bench.contenders.agent import Agent, arguments, main
from sexton import Sexton
from sexton.domain.job import NewJob
from sexton.store.endpoints import NewEndpoint
from sexton.targets.arguments import encode
from sexton.targets.http.endpoint import WEBHOOKS, headers_purpose, secret_purpose
from sexton.targets.http.seal import Seal, fresh_key
from sexton.targets.http.sign import fresh_secret
from sexton.targets.task import Call

CONCURRENCY = 500
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
LENGTH = b"Content-Length: "


class Sink(asyncio.Protocol):
    """Counts requests, and answers each."""

    heard = 0
    first = 0.0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        buffer = self.buffer + data if self.buffer else data
        while (end := buffer.find(b"\r\n\r\n")) >= 0:
            at = buffer.find(LENGTH, 0, end) + len(LENGTH)
            whole = end + 4 + int(buffer[at : buffer.find(b"\r", at)])
            if len(buffer) < whole:
                break
            buffer = buffer[whole:]
            if not Sink.heard:
                Sink.first = time.monotonic()
            Sink.heard += 1
            self.transport.write(ANSWER)
        self.buffer = buffer


class HttpAgent(Agent):
    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.app = Sexton(database_url=url, secret_key=fresh_key(), http_allow="127.0.0.1")
        self.server: asyncio.Server | None = None

    async def setup(self) -> None:
        await self.open()
        await self.app.migrate()

    async def open(self) -> None:
        await self.app.__aenter__()

    async def work(self) -> None:
        worker = await self.app.worker({"http": CONCURRENCY})
        running = asyncio.create_task(worker.run())
        try:
            await asyncio.shield(running)
        finally:
            worker.stop()
            await running

    async def other(self, do: str, ask: dict[str, Any]) -> dict[str, Any]:
        match do:
            case "sink":
                loop = asyncio.get_running_loop()
                self.server = await loop.create_server(Sink, "127.0.0.1", 0, backlog=1000)
                return {"port": self.server.sockets[0].getsockname()[1]}
            case "heard":
                return {"heard": Sink.heard, "first": Sink.first}
            case "key":
                self.app.settings = self.app.settings.but(secret_key=ask["key"])
                return {}
            case "deliveries":
                return await self.deliveries(ask["port"], ask["count"])
            case "cpu":
                used = resource.getrusage(resource.RUSAGE_SELF)
                return {"cpu": used.ru_utime + used.ru_stime}
        return await super().other(do, ask)

    async def deliveries(self, port: int, count: int) -> dict[str, Any]:
        """An endpoint with a header and a secret, and jobs for it."""
        store, seal = (await self.app.client()).store, Seal(self.app.settings.secret_keys)
        headers = seal.close(b'{"Authorization": "Bearer bench"}', 1, headers_purpose("bench"))
        secret = seal.close(fresh_secret().encode(), 1, secret_purpose("bench"))
        url = f"http://127.0.0.1:{port}/hook"
        new = NewEndpoint("bench", url, 30.0, 3600.0, WEBHOOKS, headers, (secret,))
        endpoint = await store.endpoints.add(1, new)
        assert endpoint is not None
        task = f"http:{endpoint.id}"
        await self.app.enqueue_many(
            Call(self.app, NewJob(task, encode(arguments(n), "n", 1000), "http"))
            for n in range(count)
        )
        return {}

    async def close(self) -> None:
        if self.server is not None:
            self.server.close()
        await self.app.__aexit__(None, None, None)


if __name__ == "__main__":
    main(HttpAgent)
