"""Wake-ups: a coalesced NOTIFY on one side, a LISTEN that notices its own deafness on the other.

Nothing depends on them: an enqueue never waits for one or fails because of one, and a worker
polls every few seconds anyway.
"""

import asyncio
import logging
import time
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
# With no worker at all nobody is kept waiting: one that starts looks for itself.
QUIET_FOR_NOBODY = 0.25
PING_EVERY = 5.0
ECHO_WITHIN = 3.0
QUEUE, CANCEL, ECHO = "queue:", "cancel:", "echo"
_LOST = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)


class Waker:
    """Tells workers that there is something to do: the first at once, more of them together."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pending: set[str] = set()
        self._sending: asyncio.Task[None] | None = None
        self._quiet_until = 0.0

    def may_carry(self) -> bool:
        """Whether a commit that is about to be made should carry its own notification."""
        now = time.monotonic()
        if now < self._quiet_until:
            return False
        self._quiet_until = now + QUIET_FOR
        return True

    def wake(self, queue: str) -> None:
        """There is something to claim in this queue."""
        self.poke(QUEUE + queue)

    def tell(self, worker: int) -> None:
        """Somebody wants one of this worker's jobs cancelled."""
        self.poke(f"{CANCEL}{worker}")

    def poke(self, payload: str) -> None:
        """Something was committed without a notification: send one, a little later at most."""
        self._pending.add(payload)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        while self._pending:
            delay = self._quiet_until - time.monotonic()
            if delay > 0:
                await asyncio.sleep(delay)
            payloads = list(self._pending)
            self._pending.clear()
            quiet_for = QUIET_FOR
            try:
                if not await self._store.jobs.notify(payloads):
                    quiet_for = QUIET_FOR_NOBODY
            except (SextonError, asyncpg.PostgresError, OSError) as error:
                log.debug("a wake-up was not sent, the poll will do: %s", say(error))
            self._quiet_until = time.monotonic() + quiet_for

    async def close(self) -> None:
        """Send what is still to be sent, if that is quickly done."""
        if self._sending is not None:
            self._quiet_until = 0.0
            await asyncio.wait([self._sending], timeout=1.0)
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)


class Listener:
    """A LISTEN connection that is pinged, so a half-open one is noticed and replaced."""

    def __init__(
        self, address: Address, schema: str, on_wake: Callable[[str | None], None]
    ) -> None:
        self._address = address
        self._patience = min(PING_EVERY, address.patience)
        self._channel = f"{schema}.wake"
        self._on_wake = on_wake
        self._echoed = asyncio.Event()
        self.hears = False

    async def run(self, stop: asyncio.Event) -> None:
        """Listen until told to stop; `on_wake(None)` after every gap, for what was missed in it."""
        backoff = Backoff()
        while not stop.is_set():
            connection = None
            try:
                connection = await connect(self._address, engine=False)
                await self._listen(connection)
                backoff.clear()
                while not await wait(stop, PING_EVERY):
                    async with asyncio.timeout(self._patience):
                        await connection.execute("select 1")
            except Exception as error:
                if connection is not None:
                    log.info("the listening connection was lost (%s); opening another", say(error))
                await wait(stop, backoff.next())
            finally:
                self.hears = False
                if connection is not None:
                    connection.terminate()

    async def _listen(self, connection: asyncpg.Connection) -> None:
        async with asyncio.timeout(self._patience):
            await connection.add_listener(self._channel, self._heard)
        self._on_wake(None)
        self._echoed.clear()
        await self._ask_for_echo()
        self.hears = await wait(self._echoed, ECHO_WITHIN)
        if not self.hears:
            log.warning(
                "notifications do not arrive here (a transaction pooler?): polling instead; "
                "set SEXTON_LISTEN_URL to a direct way to PostgreSQL"
            )

    async def _ask_for_echo(self) -> None:
        """From another connection: a pooler may well bring us what we send in our own."""
        other = await connect(self._address, engine=False)
        try:
            await other.execute(f"notify \"{self._channel}\", '{ECHO}'", timeout=self._patience)
        finally:
            other.terminate()

    def _heard(self, connection: Any, pid: int, channel: str, payload: str) -> None:
        if payload == ECHO:
            self._echoed.set()
        else:
            self._on_wake(payload)
