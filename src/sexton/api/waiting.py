"""Long polls: who waits in this process for something to claim, and what wakes them.

The process listens once for all of them. A notification wakes the one of its tenant that has
waited longest; who then finds more than it can carry wakes the next. Nothing depends on any of it:
everybody who waits looks again after a second anyway.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

from starlette.requests import Request

from sexton.flow.wake import CANCEL, named

POLL = 1.0
# However many wait, together they look no more often than this.
LOOKS_PER_SECOND = 200.0


class Sleeper:
    """One long poll that has found nothing yet."""

    __slots__ = ("asked_to_cancel", "queues", "tenant", "turn", "worker")

    def __init__(self, tenant: int, worker: int, queues: Iterable[str]) -> None:
        self.tenant = tenant
        self.worker = worker
        self.queues = tuple(queues)
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.asked_to_cancel = False  # somebody wants one of its jobs cancelled

    def wake(self) -> None:
        if not self.turn.done():
            self.turn.set_result(None)


class Waiting:
    """Everybody who waits in this process."""

    def __init__(self, stopping: asyncio.Event) -> None:
        self._stopping = stopping
        self._of_queue: dict[str, dict[int, dict[Sleeper, None]]] = {}
        self._of_worker: dict[int, dict[Sleeper, None]] = {}
        self._sleepers: dict[Sleeper, None] = {}

    async def send_home(self) -> None:
        """When the server ends it does not wait for those who wait."""
        await self._stopping.wait()
        self._wake_all()

    @property
    def over(self) -> bool:
        """No use in waiting: the server ends."""
        return self._stopping.is_set()

    @contextlib.contextmanager
    def place(self, tenant: int, worker: int, queues: Iterable[str]) -> Iterator[Sleeper]:
        """To be taken before one looks, so that nothing is missed between looking and sleeping."""
        sleeper = Sleeper(tenant, worker, queues)
        self._sleepers[sleeper] = None
        self._of_worker.setdefault(worker, {})[sleeper] = None
        for queue in sleeper.queues:
            self._of_queue.setdefault(queue, {}).setdefault(tenant, {})[sleeper] = None
        try:
            yield sleeper
        finally:
            del self._sleepers[sleeper]
            _remove(self._of_worker, worker, sleeper)
            for queue in sleeper.queues:
                tenants = self._of_queue[queue]
                _remove(tenants, tenant, sleeper)
                if not tenants:
                    del self._of_queue[queue]

    async def sleep(self, sleeper: Sleeper, seconds: float, gone: "asyncio.Future[Any]") -> None:
        """Until there may be something, the time is over, or the client has gone."""
        pause = POLL * (0.9 + 0.2 * random.random())
        pause = max(pause, len(self._sleepers) / LOOKS_PER_SECOND)
        if not self.over:
            await asyncio.wait(
                {sleeper.turn, gone},
                timeout=max(0.0, min(seconds, pause)),
                return_when=asyncio.FIRST_COMPLETED,
            )
        if sleeper.turn.done():
            sleeper.turn = asyncio.get_running_loop().create_future()

    # ── what wakes them ─────────────────────────────────────────────────────

    def heard(self, payload: str | None) -> None:
        """A notification; None: some may have been missed."""
        if payload is None:
            self._wake_all()
        elif (call := named(payload)) is not None:
            queue, tenant = call
            self.there_is_more(tenant, queue)
        elif payload.startswith(CANCEL):
            worker = payload.removeprefix(CANCEL)
            for sleeper in self._of_worker.get(int(worker) if worker.isdecimal() else 0, {}):
                sleeper.asked_to_cancel = True
                sleeper.wake()

    def there_is_more(self, tenant: int, queue: str) -> None:
        """The one that has waited longest, and is not about to look, gets its turn."""
        for sleeper in self._of_queue.get(queue, {}).get(tenant, {}):
            if not sleeper.turn.done():
                sleeper.wake()
                return

    def _wake_all(self) -> None:
        for sleeper in self._sleepers:
            sleeper.wake()


def _remove(places: dict[Any, dict[Sleeper, None]], key: Any, sleeper: Sleeper) -> None:
    del places[key][sleeper]
    if not places[key]:
        del places[key]


@contextlib.asynccontextmanager
async def client_gone(request: Request) -> "AsyncIterator[asyncio.Future[None]]":
    """A future that is done when the client hangs up; its body must have been read."""

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    watching = asyncio.ensure_future(watch())
    try:
        yield watching
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
