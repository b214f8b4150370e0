"""The side of a contender that fires schedules: more commands, beside those of `agent.py`.

`register` adds schedules, `fire` runs a node until told to stop, `fired` says what was committed
and when. Instants are seconds since 1970 by the database's clock.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import asyncpg

from bench.contenders.agent import Agent

PROBES = 20


async def clock_offset(connection: asyncpg.Connection) -> float:
    """The database's clock minus ours, by the quickest of a few answers."""
    answers: list[tuple[float, float]] = []
    for _ in range(PROBES):
        began = time.time()
        told = await connection.fetchval("select extract(epoch from clock_timestamp())::float8")
        ended = time.time()
        answers.append((ended - began, told - (began + ended) / 2))
    return min(answers)[1]


class FiringAgent(Agent):
    """A contender with schedules."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.offset = 0.0
        self.committed: list[tuple[float, float, int]] = []  # fire_at, committed at, how many
        self.node: asyncio.Task[None] | None = None

    def now(self) -> float:
        return time.time() + self.offset

    def fired(self, fires_at: Iterable[float]) -> None:
        """These have been committed just now."""
        now = self.now()
        self.committed += [(at, now, many) for at, many in Counter(fires_at).items()]

    async def crowd(self, count: int, at: float) -> None:
        """Add schedules that are all due at this instant, and then a day later."""
        raise NotImplementedError

    async def fire(self) -> None:
        """Be a node until cancelled."""
        raise NotImplementedError

    async def ready(self) -> None:
        """Until the node would fire."""

    async def other(self, do: str, ask: dict[str, Any]) -> dict[str, Any]:
        match do:
            case "crowd":
                await self.crowd(ask["count"], ask["at"])
            case "fire":
                self.node = asyncio.create_task(self.fire())
                ready = asyncio.create_task(self.ready())
                await asyncio.wait([self.node, ready], return_when=asyncio.FIRST_COMPLETED)
                self.demand_node()
            case "fired":
                self.demand_node()
                return self.told(full=ask.get("full", False))
            case _:
                return await super().other(do, ask)
        return {}

    def demand_node(self) -> None:
        if self.node is not None and self.node.done():
            self.node.result()
            raise RuntimeError("the node returned by itself")

    def told(self, *, full: bool) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "count": sum(many for _, _, many in self.committed),
            "last": max((at for _, at, _ in self.committed), default=None),
        }
        return {**answer, "committed": self.committed} if full else answer

    async def close(self) -> None:
        if self.node is not None:
            self.node.cancel()
            await asyncio.wait([self.node], timeout=10)
