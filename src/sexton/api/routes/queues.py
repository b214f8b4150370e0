"""/v1/queues: how much there is to do, and for how long it has waited."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from fastapi import APIRouter, FastAPI, Response

from sexton.api.call import Answer, Call
from sexton.api.desk import Desk
from sexton.api.models.jobs import QueuesOut
from sexton.api.problems import problems
from sexton.api.roles import JobReader
from sexton.store.pages import QueueCounts

# Counting looks at every live job. Whoever asks more often gets what was counted, and where that
# takes long it is counted so seldom that it takes a twentieth of the time.
LASTS = 1.0
SELDOM = 20.0
MOST_KEPT = 10_000


class Counts:
    """What was counted lately, by tenant; one count at a time for each."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[float, float, Sequence[QueueCounts]]] = {}
        self._turns: dict[int, asyncio.Lock] = {}

    async def answer(self, call: Call) -> Response:
        tenant = call.principal.tenant_id
        # The turn is waited for without a connection.
        async with self._turns.setdefault(tenant, asyncio.Lock()):
            fresh = self._fresh(tenant)
            return await call.read(self._count) if fresh is None else fresh.response()

    def _fresh(self, tenant: int) -> Answer | None:
        counted_at, until, items = self._kept.get(tenant, (0.0, 0.0, ()))
        now = time.monotonic()
        return _answer(items, now - counted_at) if now < until else None

    async def _count(self, desk: Desk) -> Answer:
        began = time.monotonic()
        items = await desk.store.pages.queues(desk.tenant_id)
        ended = time.monotonic()
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        until = ended + max(LASTS, SELDOM * (ended - began))
        self._kept[desk.tenant_id] = ended, until, items
        return _answer(items, 0.0)


def _answer(items: Sequence[QueueCounts], age: float) -> Answer:
    body: dict[str, Any] = {"items": items, "age": round(age, 3)}
    return Answer(body)


@contextlib.asynccontextmanager
async def lifespan(api: FastAPI) -> AsyncIterator[None]:
    api.state.queue_counts = Counts()
    yield


router = APIRouter(prefix="/v1/queues", tags=["jobs"], lifespan=lifespan)


@router.get("", responses=problems() | {200: {"model": QueuesOut}}, response_model=None)
async def list_queues(call: JobReader) -> Response:
    """Every queue that has live jobs, counted by state, at most a second ago if that is quick."""
    counts: Counts = call.request.app.state.queue_counts
    return await counts.answer(call)
