"""Lending an application to a test: another database and clock for a while, then all as before."""

import asyncio
import contextlib
from collections.abc import Iterator

from sexton.app import Sexton
from sexton.client import Client
from sexton.portal import Portal
from sexton.store import Clock
from sexton.store.migrations import migrate
from sexton.testing.databases import SCHEMA
from sexton.testing.engine import QuietWaker
from sexton.testing.harness import Harness
from sexton.testing.ran import HarnessError


@contextlib.contextmanager
def bound(
    app: Sexton,
    database_url: str,
    clock: Clock | None,
    *,
    noise: float | None = 1.0,
) -> Iterator[Harness]:
    """Point `app` at this database and clock, whatever it was made with and has open."""
    if "client" in vars(app):
        raise HarnessError("this application is already lent to a test")
    before = (app.settings, app.clock, app._clients, app._server, app._portal)
    app.settings = app.settings.but(database_url=database_url, listen_url=None, pooler=False)
    app.clock = clock
    app._clients, app._server, app._portal = {}, None, Portal()
    harness = Harness(app, noise=noise)

    async def client() -> Client:
        """As ever, but migrated if need be, quiet, and closed with its loop."""
        if asyncio.get_running_loop() in app._clients:
            return await Sexton.client(app)
        if app.settings.schema != SCHEMA:
            await migrate(await app.address(), app.settings.schema)
        opened = await Sexton.client(app)
        if not isinstance(opened.waker, QuietWaker):  # another coroutine may have been quicker
            opened.waker = QuietWaker(opened.store)
            harness.lifetimes.add(opened.close)
        return opened

    app.client = client  # type: ignore[method-assign]
    try:
        yield harness
    finally:
        try:
            harness.lifetimes.end()
            app._portal.close()
        finally:
            del app.client  # the instance's; the class has its own
            app.settings, app.clock, app._clients, app._server, app._portal = before
