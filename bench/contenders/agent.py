"""The contender's side of the protocol: one JSON command per line in, one JSON answer per line out.

Runs in the contender's own process and environment, so it imports nothing but the standard
library. Commands: `setup`, `open`, `single`, `bulk`, `pace`, `work`, `report`, `stop`. The Node
twin of this file is `agent.mjs`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import sys
import time
import traceback
from typing import Any

PAD = "x" * 30  # {"n":12345,"pad":"…"} is 50 bytes of JSON


def arguments(n: int) -> dict[str, Any]:
    return {"n": n, "pad": PAD}


class Tally:
    """What the no-op tasks did: how many ran, when the first did, and, if asked, when each."""

    def __init__(self) -> None:
        self.done = 0
        self.first: float | None = None
        self.starts: dict[int, float] | None = None

    def ran(self, n: int) -> None:
        if self.first is None:
            self.first = time.monotonic()
        if self.starts is not None:
            self.starts[n] = time.monotonic()
        self.done += 1


class Agent:
    """What a contender must be able to do; each method is as its own manual recommends."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.tally = Tally()
        self.paced = False  # a worker is waiting: an enqueue should wake it

    async def setup(self) -> None:
        """Install the schema, once, in the contender's template database."""
        raise NotImplementedError

    async def open(self) -> None:
        """Connect, so that what follows measures work and not start-up."""
        raise NotImplementedError

    async def enqueue_one(self, n: int) -> None:
        raise NotImplementedError

    async def enqueue_many(self, first: int, count: int, style: str, delay: float) -> None:
        raise NotImplementedError

    async def work(self) -> None:
        """Run a worker until cancelled."""
        raise NotImplementedError

    def take_claims(self) -> list[float]:
        """Seconds of each claim that found jobs since last asked; none if it cannot be seen."""
        return []

    async def other(self, do: str, ask: dict[str, Any]) -> dict[str, Any]:
        """A command that not every contender has."""
        raise ValueError(f"unknown command {do!r}")

    async def close(self) -> None:
        """Let go of connections."""


class Served:
    """The loop around an agent."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.worker: asyncio.Task[None] | None = None

    async def answer(self, do: str, ask: dict[str, Any]) -> dict[str, Any]:
        match do:
            case "setup":
                await self.agent.setup()
            case "open":
                await self.agent.open()
            case "single":
                began = time.monotonic()
                for n in range(ask["count"]):
                    await self.agent.enqueue_one(n)
                return {"seconds": time.monotonic() - began}
            case "bulk":
                began = time.monotonic()
                await self.agent.enqueue_many(
                    ask.get("first", 0), ask["count"], ask.get("style", ""), ask.get("delay", 0.0)
                )
                return {"seconds": time.monotonic() - began}
            case "pace":
                return {"sent": await self.pace(ask["count"], ask["gap"], ask.get("batch", 1))}
            case "work":
                self.agent.tally.starts = {} if ask.get("record") else None
                self.worker = asyncio.create_task(self.agent.work())
            case "report":
                return self.report(ask)
            case "stop":
                await self.stop()
            case _:
                return await self.agent.other(do, ask)
        return {}

    async def pace(self, count: int, gap: float, batch: int) -> list[float]:
        """Enqueue one job after jittered gaps, or a batch at a steady beat; say when each began."""
        self.agent.paced = True
        sent: list[float] = []
        began = time.monotonic()
        for i in range(count):
            if batch == 1:
                await asyncio.sleep(gap * random.uniform(0.5, 1.5))
                sent.append(time.monotonic())
                await self.agent.enqueue_one(i)
            else:
                await asyncio.sleep(max(0.0, began + i * gap - time.monotonic()))
                sent.append(time.monotonic())
                await self.agent.enqueue_many(i * batch, batch, "paced", 0.0)
        return sent

    def report(self, ask: dict[str, Any]) -> dict[str, Any]:
        if self.worker is not None and self.worker.done():
            self.worker.result()
            raise RuntimeError("the worker returned by itself")
        tally = self.agent.tally
        answer: dict[str, Any] = {"done": tally.done, "first": tally.first}
        if ask.get("full"):
            answer["starts"] = [list(pair) for pair in (tally.starts or {}).items()]
            answer["claims"] = self.agent.take_claims()
        return answer

    async def stop(self) -> None:
        if self.worker is not None:
            self.worker.cancel()
            await asyncio.wait([self.worker], timeout=10)
        await self.agent.close()


async def serve(agent: Agent, out: int) -> None:
    served = Served(agent)
    reader = asyncio.StreamReader(limit=1 << 26)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        ask = json.loads(line)
        try:
            answer = {"ok": True, **await served.answer(ask["do"], ask)}
        except Exception as error:
            traceback.print_exc()
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        write_all(out, json.dumps(answer).encode() + b"\n")
        if ask["do"] == "stop":
            return


def write_all(out: int, data: bytes) -> None:
    while data:
        data = data[os.write(out, data) :]


def main(kind: type[Agent]) -> None:
    """Speak the protocol on the real stdout; anything printed goes to stderr instead."""
    import uvloop

    out = os.dup(1)
    os.dup2(2, 1)
    # As `sexton worker` does; the floor gets the same.
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    uvloop.run(serve(kind(os.environ["BENCH_URL"]), out))
