"""A LISTEN that notices its own deafness; nothing depends on it, whoever sleeps polls as well."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import asyncpg

from sexton.store.connection import Address, connect, say
from sexton.store.pause import Backoff, wait

log = logging.getLogger("sexton.wake")

PING_EVERY = 5.0
ECHO_WITHIN = 3.0
ECHO = "echo"


class Listener:
    """A LISTEN connection that is pinged, so a half-open one is noticed and replaced."""

    def __init__(
        self,
        address: Address,
        schema: str,
        on_wake: Callable[[str | None], None],
        others: Address | None = None,
    ) -> None:
        self._address = address
        self._others = others or address  # where those connect whom it wants to hear
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
                "notifications do not arrive here (a transaction pooler, or another database?): "
                "polling instead; set SEXTON_LISTEN_URL to a direct way to the same database"
            )

    async def _ask_for_echo(self) -> None:
        """The way others go: a pooler may well bring us what we send in our own connection."""
        other = await connect(self._others, engine=False)
        try:
            await other.execute(f"notify \"{self._channel}\", '{ECHO}'", timeout=self._patience)
        finally:
            other.terminate()

    def _heard(self, connection: Any, pid: int, channel: str, payload: str) -> None:
        if payload == ECHO:
            self._echoed.set()
        else:
            self._on_wake(payload)
