"""The cluster by hand: the test takes each node's every step, by a clock of its own."""

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from sexton.cluster.lead import balance, hand_over
from sexton.domain.partition import EVERY
from sexton.store import Line, Store
from sexton.store.cluster import Beat, Ownership
from sexton.store.connection import Address
from sexton.testing import ManualClock

from .node import FIRE, TABLES

LEASE = 3.0


class HandNode:
    """One registered node, with a connection of its own for each of its two threads."""

    def __init__(self, beating: Store, firing: Line, id: int) -> None:
        self.cluster = beating.cluster
        self._firing = firing
        self.id = id
        self.last: Beat | None = None

    async def beat(self, *, elect: bool = True) -> Beat:
        """As a member does: if nobody leads, it tries to, and asks again."""
        beat = await self.cluster.heartbeat(self.id, None, 0, None)
        assert beat is not None, "declared lost"
        if elect and not beat.leads and beat.leader_for <= 0 and await self.cluster.elect(self.id):
            return await self.beat()
        self.last = beat
        return beat

    async def is_gone(self) -> bool:
        return await self.cluster.heartbeat(self.id, None, 0, None) is None

    async def balance(self, *, judge: bool = True) -> bool:
        assert self.last is not None
        assert self.last.leads, "does not lead"
        return await balance(self.cluster, self.id, self.last.term, judge=judge)

    async def owns(self) -> Ownership:
        ownership = (await self.beat()).ownership
        assert ownership is not None, "owns nothing"
        return ownership

    async def leave(self) -> bool:
        return await hand_over(self.cluster, self.id)

    async def fire(self, epoch: int, partitions: Any = EVERY) -> int:
        """How many of them were fired; 0: refused."""
        return len(await self._firing.fetch(FIRE, self.id, epoch, list(partitions), 0, 0.0))


class Hands:
    """The installation, its clock, and its nodes."""

    def __init__(self, address: Address, stack: contextlib.AsyncExitStack) -> None:
        self.address = address
        self.clock = ManualClock()
        self._stack = stack
        self._numbers = itertools.count(1)
        self.store = self._store()

    def _line(self) -> Line:
        line = Line(self.address)
        self._stack.push_async_callback(line.close)
        return line

    def _store(self) -> Store:
        return Store(self._line(), "sexton", self.clock)

    async def join(self, lease: float = LEASE) -> HandNode:
        store = self._store()
        name = f"hand:{next(self._numbers)}"
        id, _ = await store.cluster.register(name, "host", 1, "test", lease)
        return HandNode(store, self._line(), id)

    async def lead(self, others: int = 0) -> tuple[HandNode, ...]:
        """The leader and so many others, each with its share."""
        nodes = [await self.join() for _ in range(others + 1)]
        await nodes[0].beat()
        assert await nodes[0].balance()
        await asyncio.gather(*(node.beat() for node in nodes))
        return tuple(nodes)

    async def rows(self, query: str, *args: Any) -> list[Any]:
        return await self.store.source.fetch(query, *args)

    async def shares(self) -> dict[int, tuple[int, ...]]:
        """Who owns what; nothing twice, whatever happens."""
        rows = await self.rows("select node_id, partitions from sexton.ownership order by node_id")
        shares = {row["node_id"]: tuple(row["partitions"]) for row in rows}
        owners = Counter(itertools.chain(*shares.values()))
        assert set(owners.values()) <= {1}
        return shares

    async def complete(self) -> dict[int, tuple[int, ...]]:
        """The same, with everything owned, and evenly."""
        shares = await self.shares()
        assert sorted(itertools.chain(*shares.values())) == list(EVERY)
        sizes = [len(share) for share in shares.values()]
        assert max(sizes) - min(sizes) <= 1
        return shares


@contextlib.asynccontextmanager
async def hands(address: Address) -> AsyncIterator[Hands]:
    async with contextlib.AsyncExitStack() as stack:
        held = Hands(address, stack)
        for statement in TABLES.strip().rstrip(";").split(";"):
            await held.store.source.fetch(statement)
        yield held
