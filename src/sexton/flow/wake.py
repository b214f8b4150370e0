"""Wake-ups: a coalesced NOTIFY on one side, a LISTEN that notices its own deafness on the other.

Nothing depends on them: an enqueue never waits for one or fails because of one, and a worker
polls every few seconds anyway.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

import asyncpg

from sexton.errors import SextonError
from sexton.flow.keep import Backoff, wait
from sexton.store import Store
from sexton.store.connection import Address, connect, say

log = logging.getLogger("sexton.wake")

# A NOTIFY in every commit more than halves the commit rate; one in this time costs nothing.
QUIET_FOR = 0.005
PING_EVERY = 5.0
ECHO_WITHIN = 3.0
CANCEL = "#"
ECHO = "?"


class Waker:
    """Tells workers that there is something to do, after it was committed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pending: set[str] = set()
        self._sending: asyncio.Task[None] | None = None

    def poke(self, payload: str) -> None:
        """Wake the workers of a queue: the first at once, more of them together a little later."""
        self._pending.add(payload)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        while self._pending:
            payloads = list(self._pending)
            self._pending.clear()
            try:
                await self._store.jobs.notify(payloads)
            except (SextonError, asyncpg.PostgresError, OSError) as error:
                log.debug("a wake-up was not sent, the poll will do: %s", say(error))
            await asyncio.sleep(QUIET_FOR)

    async def close(self) -> None:
        if self._sending is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._sending, 1.0)


class Listener:
    """A LISTEN connection that is pinged, so a half-open one is noticed and replaced."""

    def __init__(
        self, address: Address, schema: str, on_wake: Callable[[str | None], None]
    ) -> None:
        self._address = address
        self._channel = f"{schema}.wake"
        self._on_wake = on_wake
        self._echoed = asyncio.Event()
        self.hears = False

    async def run(self, stop: asyncio.Event) -> None:
        """Listen until told to stop; `on_wake(None)` after every gap, for what was missed in it."""
        backoff = Backoff()
        while not stop.is_set():
            try:
                connection = await connect(self._address, engine=False)
            except SextonError as error:
                log.debug("cannot listen: %s", say(error))
                await wait(stop, backoff.next())
                continue
            try:
                await self._listen(connection, stop)
                backoff.clear()
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
                log.info("the listening connection was lost (%s); opening another", say(error))
                await wait(stop, backoff.next())
            finally:
                self.hears = False
                connection.terminate()

    async def _listen(self, connection: asyncpg.Connection, stop: asyncio.Event) -> None:
        patience = min(PING_EVERY, self._address.patience)
        await connection.add_listener(self._channel, self._heard)
        self._on_wake(None)
        self._echoed.clear()
        await connection.execute("select pg_notify($1, $2)", self._channel, ECHO, timeout=patience)
        self.hears = await wait(self._echoed, ECHO_WITHIN)
        if not self.hears and not stop.is_set():
            log.warning(
                "notifications do not arrive here (a transaction pooler?): polling instead; "
                "set SEXTON_LISTEN_URL to a direct way to PostgreSQL"
            )
        while not await wait(stop, PING_EVERY):
            await connection.fetchval("select 1", timeout=patience)

    def _heard(self, connection: Any, pid: int, channel: str, payload: str) -> None:
        if payload == ECHO:
            self._echoed.set()
        else:
            self._on_wake(payload)
