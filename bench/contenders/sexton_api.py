"""Sexton's service, and the clients that press it; each in a process of its own."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import msgspec

from bench.contenders.agent import Agent, arguments, main
from sexton import Sexton
from sexton.api.app import create_app
from sexton.api.server import Server, configured, listening_at

NDJSON = {"Content-Type": "application/x-ndjson"}
PART = 64 * 1024
BATCH = 100


class ApiAgent(Agent):
    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.app = Sexton(database_url=url)
        self.serving: asyncio.Task[None] | None = None

    async def setup(self) -> None:
        await self.open()
        await self.app.migrate()

    async def open(self) -> None:
        await self.app.__aenter__()

    async def other(self, do: str, ask: dict[str, Any]) -> dict[str, Any]:
        if do == "serve":
            return await self.serve()
        press = {
            "register": self.register,
            "create": self.create,
            "read": self.read,
            "fill": self.fill,
            "work_remotely": self.work_remotely,
            "leaf": self.leaf,
        }.get(do)
        if press is None:
            return await super().other(do, ask)
        async with aiohttp.ClientSession(f"http://127.0.0.1:{ask['port']}") as session:
            return await press(session, ask)

    async def serve(self) -> dict[str, Any]:
        """As `sexton api` does, without a key: on loopback only."""
        listening = listening_at("127.0.0.1", 0)
        api = create_app(self.app)
        server = Server(configured(api, self.app.settings), api)
        self.serving = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started:
            if self.serving.done():
                await self.serving  # it says why
            await asyncio.sleep(0.01)
        self.stop_serving = server.stop
        return {"port": listening.getsockname()[1]}

    async def register(self, session: aiohttp.ClientSession, ask: dict[str, Any]) -> dict[str, Any]:
        """Schedules in bulk; every answer is read."""
        lines = (
            f'{{"name":"s{n}","cron":"{n % 60} {n % 24} * * *","target":{{"task":"noop"}},'
            f'"payload":{{"n":{n}}}}}\n'
            for n in range(ask["count"])
        )
        return await bulk(session, "/v1/schedules/bulk", lines, "created")

    async def fill(self, session: aiohttp.ClientSession, ask: dict[str, Any]) -> dict[str, Any]:
        encoded = (msgspec.json.encode(arguments(n)).decode() for n in range(ask["count"]))
        lines = (f'{{"task":"noop","payload":{each}}}\n' for each in encoded)
        return await bulk(session, "/v1/jobs/bulk", lines, "created")

    async def create(self, session: aiohttp.ClientSession, ask: dict[str, Any]) -> dict[str, Any]:
        async def one(n: int) -> None:
            body = {"name": f"one{n}", "cron": "0 6 * * *", "target": {"task": "noop"}}
            async with session.post("/v1/schedules", json=body) as answer:
                assert answer.status == 201, await answer.text()

        return await pressed(ask, one)

    async def read(self, session: aiohttp.ClientSession, ask: dict[str, Any]) -> dict[str, Any]:
        async def one(n: int) -> None:
            async with session.get(f"/v1/schedules/one{n}") as answer:
                assert answer.status == 200, await answer.text()
                await answer.read()

        return await pressed(ask, one)

    async def work_remotely(
        self, session: aiohttp.ClientSession, ask: dict[str, Any]
    ) -> dict[str, Any]:
        """Claim and settle, a hundred a call, until nothing is left."""
        async with session.post(
            "/v1/workers", json={"name": "bench", "queues": ["default"]}
        ) as answer:
            worker = (await answer.json())["id"]
        done, began = 0, time.monotonic()
        while True:
            async with session.post(f"/v1/workers/{worker}/claim", json={"limit": BATCH}) as answer:
                jobs = msgspec.json.decode(await answer.read())["jobs"]
            if not jobs:
                return {"done": done, "began": began, "ended": time.monotonic()}
            results = [
                {"id": job["id"], "fence": job["fence"], "outcome": "succeeded"} for job in jobs
            ]
            async with session.post(
                f"/v1/workers/{worker}/settle", json={"results": results}
            ) as answer:
                told = msgspec.json.decode(await answer.read())["results"]
            done += sum(each["status"] == "accepted" for each in told)

    async def leaf(self, session: aiohttp.ClientSession, ask: dict[str, Any]) -> dict[str, Any]:
        """The median of a page of fifty, at the beginning and far behind it."""
        first: list[float] = []
        later: list[float] = []
        cursor = ""
        for page in range(ask["pages"] + ask["times"]):
            for taken in ([first] if page < ask["times"] else []) + (
                [later] if page >= ask["pages"] else []
            ):
                where = "" if taken is first else f"&cursor={cursor}"
                began = time.monotonic()
                async with session.get(f"/v1/jobs?limit=50{where}") as answer:
                    await answer.read()
                taken.append(time.monotonic() - began)
            async with session.get(
                "/v1/jobs?limit=50" + (f"&cursor={cursor}" if cursor else "")
            ) as answer:
                cursor = msgspec.json.decode(await answer.read())["next"]
        return {"first": statistics.median(first), "later": statistics.median(later)}

    async def close(self) -> None:
        if self.serving is not None:
            self.stop_serving()
            await self.serving
        await self.app.__aexit__(None, None, None)


async def pressed(ask: dict[str, Any], one: Callable[[int], Awaitable[None]]) -> dict[str, Any]:
    """So many requests by so many clients at once."""
    left = iter(range(ask["count"]))

    async def client() -> None:
        for n in left:
            await one(n)

    began = time.monotonic()
    await asyncio.gather(*(client() for _ in range(ask["clients"])))
    return {"seconds": time.monotonic() - began}


async def bulk(
    session: aiohttp.ClientSession, path: str, lines: Any, wanted: str
) -> dict[str, Any]:
    async def body() -> AsyncIterator[bytes]:
        part: list[str] = []
        size = 0
        for line in lines:
            part.append(line)
            size += len(line)
            if size > PART:
                yield "".join(part).encode()
                part, size = [], 0
        yield "".join(part).encode()

    began = time.monotonic()
    made = 0
    async with session.post(path, data=body(), headers=NDJSON) as answer:
        async for line in answer.content:
            made += msgspec.json.decode(line)["status"] == wanted
    return {"seconds": time.monotonic() - began, "made": made}


if __name__ == "__main__":
    main(ApiAgent)
