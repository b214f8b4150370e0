"""From a name to addresses that may be connected to; the connection goes to just these.

A name is asked for once and every address of the answer is checked. What is connected to is the
answer that was checked, so whoever answers differently the next time has gained nothing.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from weakref import WeakValueDictionary

from aiohttp.abc import AbstractResolver, ResolveResult

from sexton.domain.address import Allowed, why_refused
from sexton.errors import SextonError

log = logging.getLogger("sexton.http")

# New connections in quick succession need not ask each; a change of address is soon noticed.
KEEP_FOR = 5.0
MOST_KEPT = 10_000
# Names are asked for in threads, and a tenant whose name server does not answer has but some.
AT_ONCE, AT_ONCE_EACH = 64, 8
# For whom a delivery is made; 0: nobody says.
FOR_TENANT: ContextVar[int] = ContextVar("sexton.http.tenant", default=0)

Lookup = Callable[[str], Awaitable[list[str]]]


class Forbidden(SextonError):
    """A host has an address that deliveries may not go to."""


class CheckedResolver(AbstractResolver):
    """What aiohttp asks before it connects to a name."""

    def __init__(self, allowed: Allowed, lookup: Lookup | None = None) -> None:
        self._allowed = allowed
        self._lookup = lookup or self._ask_system
        self._threads: ThreadPoolExecutor | None = None
        self._turns: WeakValueDictionary[int, asyncio.Semaphore] = WeakValueDictionary()
        self._kept: dict[str, tuple[float, list[str]]] = {}
        self._asking: dict[str, asyncio.Task[list[str]]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        until, addresses = self._kept.get(host, (0.0, []))
        if until < time.monotonic():
            addresses = await self._ask_once(host)
        return [
            {
                "hostname": host,
                "host": address,
                "port": port,
                "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
                "proto": 0,
                "flags": socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            }
            for address in addresses
        ]

    async def _ask_once(self, host: str) -> list[str]:
        """Many may want the same at the same time, and each may give up waiting."""
        asking = self._asking.get(host)
        if asking is None:
            asking = self._asking[host] = asyncio.create_task(self._ask(host))
            asking.add_done_callback(lambda done: self._asked(host, done))
        return await asyncio.shield(asking)

    def _asked(self, host: str, done: asyncio.Task[list[str]]) -> None:
        self._asking.pop(host, None)
        if not done.cancelled():
            done.exception()  # looked at, even if everybody has given up waiting

    async def _ask(self, host: str) -> list[str]:
        addresses = list(dict.fromkeys(await self._lookup(host)))
        if not addresses:
            raise OSError(f"{host} has no address")
        if not self._allowed.host(host):
            why = why_refused(addresses, self._allowed)
            if why is not None:
                # Where the names of the network inside lead is the operator's to know.
                log.warning("%s must not be connected to: %s", host, why)
                raise Forbidden(
                    f"{host} must not be connected to: it has an address that is not public"
                )
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[host] = time.monotonic() + KEEP_FOR, addresses
        return addresses

    async def _ask_system(self, host: str) -> list[str]:
        """In threads of its own: a name server that does not answer must hold up nothing else."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(AT_ONCE, "sexton-names")
        loop, tenant = asyncio.get_running_loop(), FOR_TENANT.get()
        turns = self._turns.get(tenant)
        if turns is None:
            turns = self._turns[tenant] = asyncio.Semaphore(AT_ONCE_EACH)
        async with turns:
            return await loop.run_in_executor(self._threads, _addresses, host)

    async def close(self) -> None:
        for asking in list(self._asking.values()):
            asking.cancel()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _addresses(host: str) -> list[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [str(sockaddr[0]) for *_, sockaddr in found]
