"""The service, served by uvicorn on a port of its own, and clients for it."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import httpx
import uvicorn
from fastapi import FastAPI

from sexton import Sexton
from sexton.api import keys
from sexton.api.app import create_app
from sexton.api.server import configured, listening_at


class Served:
    """One API process, as far as its clients can tell: a thread with an event loop of its own."""

    def __init__(self, app: Sexton) -> None:
        assert app.settings.database_url is not None
        self.app = app
        self.database_url = app.settings.database_url
        self.asgi: FastAPI = create_app(app)
        self.socket = listening_at("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self._server = uvicorn.Server(configured(self.asgi, app.settings))
        self._thread = threading.Thread(target=self._serve, name="served")

    def _serve(self) -> None:
        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            async with self.asgi.router.lifespan_context(self.asgi):
                await self._server.serve(sockets=[self.socket])

        asyncio.run(serve())

    def start(self) -> None:
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive(), "the service did not start"
            self._thread.join(0.005)

    def stop(self) -> None:
        """Again does no harm."""
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self.asgi.state.service.stopping.set)
        self._server.should_exit = True
        self._thread.join(30)
        self.socket.close()
        assert not self._thread.is_alive(), "the service did not stop"

    # ── clients ─────────────────────────────────────────────────────────────

    def client(self, key: str | None = None, **options: Any) -> httpx.AsyncClient:
        """For `async with`; without a key the service answers as long as there is none."""
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        headers |= options.pop("headers", {})
        return httpx.AsyncClient(
            base_url=self.url, headers=headers, timeout=30, trust_env=False, **options
        )

    @contextlib.asynccontextmanager
    async def caller(
        self, role: str, tenant: str = "default", **quotas: Any
    ) -> AsyncIterator[httpx.AsyncClient]:
        """A client with a new key of this role; the tenant is made if there is none."""
        if tenant != "default":
            await self.tenant(tenant, **quotas)
        async with self.client(await self.key(role, tenant)) as client:
            yield client

    async def rows(self, statement: str, *args: Any) -> list[Any]:
        """What the database says, as its owner."""
        connection = await asyncpg.connect(self.database_url)
        try:
            found: list[Any] = await connection.fetch(statement, *args)
            return found
        finally:
            await connection.close()

    async def tenant(self, name: str, **quotas: Any) -> int:
        """The id of a tenant; its quotas as columns."""
        connection = await asyncpg.connect(self.database_url)
        try:
            id: int = await connection.fetchval(
                "insert into sexton.tenant (name) values ($1) "
                "on conflict (name) do update set name = excluded.name returning id",
                name,
            )
            for column, value in quotas.items():
                await connection.execute(
                    f"update sexton.tenant set {column} = $2 where id = $1", id, value
                )
            return id
        finally:
            await connection.close()

    async def key(self, role: str, tenant: str = "default", **columns: Any) -> str:
        """A new key, made in the database as `sexton key create` does."""
        key = keys.fresh()
        connection = await asyncpg.connect(self.database_url)
        try:
            id = await connection.fetchval(
                "insert into sexton.api_key "
                "(tenant_id, name, role, shown, hash, created_at, created_by) "
                "select id, $2, $3, $4, $5, now(), 'test' from sexton.tenant where name = $1 "
                "returning id",
                *(tenant, f"{tenant}-{role}", role, key[:8], keys.hashed(key)),
            )
            assert id is not None, f"no tenant {tenant!r}"
            for column, value in columns.items():
                await connection.execute(
                    f"update sexton.api_key set {column} = $2 where id = $1", id, value
                )
            await connection.execute("select pg_notify('sexton.wake', 'keys')")
        finally:
            await connection.close()
        return key


@contextlib.contextmanager
def served(app: Sexton) -> Iterator[Served]:
    service = Served(app)
    service.start()
    try:
        yield service
    finally:
        service.stop()
