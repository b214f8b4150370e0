"""Endpoints, jobs for them, and a worker that delivers, all in the test's own process."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from sexton import Sexton
from sexton.domain.job import JobView, NewJob
from sexton.domain.retry import Retry
from sexton.flow.worker import Worker
from sexton.store.endpoints import EndpointRow, NewEndpoint
from sexton.targets.http.endpoint import headers_purpose, secret_purpose
from sexton.targets.http.seal import Seal, fresh_key
from sexton.targets.task import Call

KEY = fresh_key()
QUICK = Retry(max_attempts=5, base=0.02, cap=0.05)


class Post:
    """What the tests do with endpoints, without the API."""

    def __init__(self, app: Sexton) -> None:
        self.app = app
        self.seal = Seal(app.settings.secret_keys)

    async def endpoint(
        self,
        url: str,
        name: str = "hook",
        *,
        headers: Mapping[str, str] | None = None,
        secrets: tuple[str, ...] = (),
        timeout: float = 5.0,
        accepted_for: float = 60.0,
        retry: Retry = QUICK,
        tenant: int = 1,
    ) -> EndpointRow:
        sealed = None
        if headers:
            text = msgspec.json.encode(headers)
            sealed = self.seal.close(text, tenant, headers_purpose(name))
        keys = tuple(
            self.seal.close(each.encode(), tenant, secret_purpose(name)) for each in secrets
        )
        store = (await self.app.client()).store
        new = NewEndpoint(name, url, timeout, accepted_for, retry, sealed, keys)
        row = await store.endpoints.add(tenant, new)
        assert row is not None
        return row

    async def enqueue(
        self, endpoint: EndpointRow | int, many: int = 1, **payload: Any
    ) -> list[int]:
        id = endpoint if isinstance(endpoint, int) else endpoint.id
        client = await self.app.client()
        job = NewJob(f"http:{id}", json.dumps(payload), "http")
        if many == 1:
            return [(await client.enqueue(job)).id]
        calls = [Call(self.app, job)] * many
        return [each.id for each in await client.enqueue_many(calls)]

    async def ended(self, id: int, seconds: float = 30.0) -> JobView:
        """The job, once it is not live any more."""
        return await self.when(id, lambda job: job.state in ("succeeded", "dead", "cancelled"))

    async def when(self, id: int, true: Any, seconds: float = 30.0) -> JobView:
        async with asyncio.timeout(seconds):
            while not true(job := await self.app.job(id)):
                await asyncio.sleep(0.02)
        return job

    async def rows(self, query: str, *args: Any) -> list[Any]:
        return await (await self.app.client()).pool.fetch(query, *args)

    async def value(self, query: str, *args: Any) -> Any:
        return (await self.rows(query, *args))[0][0]


@contextlib.asynccontextmanager
async def post(url: str, **settings: Any) -> AsyncIterator[Post]:
    given: dict[str, Any] = {"lease": 3, "poll": 0.2, "grace": 5, "patience": 5, "secret_key": KEY}
    given |= {"http_allow": "127.0.0.1"} | settings
    async with Sexton(url, **given) as app:
        yield Post(app)


@contextlib.asynccontextmanager
async def working(post: Post, slots: int = 50) -> AsyncIterator[Worker]:
    worker = await post.app.worker({"http": slots})
    running = asyncio.create_task(worker.run())
    await worker.started.wait()
    try:
        yield worker
    finally:
        worker.stop()
        worker.stop()
        await running
