"""Wake-ups: a coalesced NOTIFY on this side, on the other the LISTEN of `store/listen.py`.

Nothing depends on them: an enqueue never waits for one or fails because of one, and a worker
polls every few seconds anyway.
"""

import asyncio
import logging
import time

import asyncpg

from sexton.errors import SextonError
from sexton.store import Store
from sexton.store.connection import say
from sexton.store.listen import Listener

__all__ = ["CANCEL", "QUEUE", "TENANT", "TENANTS", "Listener", "Waker", "call_for", "named"]

log = logging.getLogger("sexton.wake")

# A NOTIFY in every commit more than halves the commit rate; one in this time costs nothing.
QUIET_FOR = 0.005
# With no worker at all nobody is kept waiting: one that starts looks for itself.
QUIET_FOR_NOBODY = 0.25
QUEUE, CANCEL = "queue:", "cancel:"
TENANT = "tenant:"
TENANTS = "tenants"  # there are others than there were
_LOST = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)


def call_for(queue: str, tenant: int = 1) -> str:
    """What a notification says of a queue in which a tenant has something, as `sexton.wake_for`."""
    return QUEUE + queue if tenant == 1 else f"{TENANT}{tenant}:{queue}"


def named(payload: str) -> tuple[str, int] | None:
    """The queue and the tenant that a notification names; None: it says something else."""
    if payload.startswith(QUEUE):
        return payload.removeprefix(QUEUE), 1
    if payload.startswith(TENANT):
        tenant, colon, queue = payload.removeprefix(TENANT).partition(":")
        if colon and tenant.isdecimal():
            return queue, int(tenant)
    return None


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

    def wake(self, queue: str, tenant: int = 1) -> None:
        """A tenant has something to claim in this queue."""
        self.poke(call_for(queue, tenant))

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
