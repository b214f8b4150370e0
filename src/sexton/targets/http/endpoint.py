"""An endpoint as a worker uses it: its secrets open, its URL checked, and but a moment old."""

import asyncio
import logging
import time
from dataclasses import dataclass, field

import msgspec
from aiohttp import ClientTimeout

from sexton.domain.address import Allowed
from sexton.domain.retry import Retry
from sexton.errors import InvalidTarget
from sexton.store import Store
from sexton.store.connection import is_transient
from sexton.store.endpoints import EndpointRow
from sexton.store.pause import Backoff
from sexton.targets.http.headers import Hiding
from sexton.targets.http.seal import CannotOpen, Seal
from sexton.targets.http.sign import secret_bytes
from sexton.targets.http.url import Destination, destination

log = logging.getLogger("sexton.http")

# A change of an endpoint is heeded after this long at most.
FRESH_FOR = 2.0
MOST_KEPT = 10_000
LONGEST_CONNECT = 10.0
# Over about a day; whoever is down for longer has noticed.
WEBHOOKS = Retry(max_attempts=12, base=10, factor=3, cap=21_600)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """All that a delivery needs to know."""

    tenant: int
    name: str
    to: Destination
    timeout: ClientTimeout
    accepted_for: float
    retry: Retry
    headers: dict[str, str] = field(repr=False)
    keys: tuple[bytes, ...] = field(repr=False)
    hiding: Hiding = field(repr=False)


@dataclass(frozen=True, slots=True)
class Unusable:
    """Why nothing can be delivered there; for ever, or until somebody mends this worker."""

    why: str
    for_ever: bool
    retry: Retry = WEBHOOKS


def headers_purpose(name: str) -> str:
    return f"endpoint {name}: headers"


def secret_purpose(name: str) -> str:
    return f"endpoint {name}: secret"


def open_headers(row: EndpointRow, seal: Seal) -> dict[str, str]:
    if row.headers is None:
        return {}
    text = seal.open(row.headers, row.tenant_id, headers_purpose(row.name))
    return msgspec.json.decode(text, type=dict[str, str])


def open_secrets(row: EndpointRow, seal: Seal) -> list[str]:
    purpose = secret_purpose(row.name)
    return [seal.open(each, row.tenant_id, purpose).decode() for each in row.secrets]


def opened(row: EndpointRow, seal: Seal, allowed: Allowed) -> Endpoint | Unusable:
    """Checked again, whoever wrote the row, and whatever is allowed by now."""
    try:
        to = destination(row.url, allowed)
        headers = open_headers(row, seal)
        keys = tuple(secret_bytes(secret) for secret in open_secrets(row, seal))
    except InvalidTarget as error:
        return Unusable(f"endpoint {row.name!r}: {error}", True, row.retry)
    except CannotOpen as error:
        return Unusable(f"endpoint {row.name!r}: {error}", False, row.retry)
    connect = min(LONGEST_CONNECT, row.timeout)
    return Endpoint(
        tenant=row.tenant_id,
        name=row.name,
        to=to,
        timeout=ClientTimeout(total=row.timeout, sock_connect=connect),
        accepted_for=row.accepted_for,
        retry=row.retry,
        headers=headers,
        keys=keys,
        hiding=Hiding(headers),
    )


class Endpoints:
    """Looked up by the id in a task's name, many at once, and remembered for a moment."""

    def __init__(self, store: Store, seal: Seal, allowed: Allowed) -> None:
        self._store = store
        self._seal = seal
        self._allowed = allowed
        self._known: dict[int, tuple[float, int, Endpoint | Unusable]] = {}
        self._wanted: set[int] = set()
        self._loading: asyncio.Task[None] | None = None
        self._all_loading: set[asyncio.Task[None]] = set()

    async def get(self, id: int) -> Endpoint | Unusable:
        until, _, known = self._known.get(id, (0.0, 0, None))
        while known is None or until < time.monotonic():
            self._wanted.add(id)
            if self._loading is None:
                self._loading = asyncio.create_task(self._load())
                self._all_loading.add(self._loading)
                self._loading.add_done_callback(self._all_loading.discard)
            await asyncio.shield(self._loading)
            until, _, known = self._known.get(id, (0.0, 0, None))
        return known

    async def policy(self, id: int) -> Retry:
        """For an attempt that was ended; as it was known then, however long ago that is."""
        _, _, known = self._known.get(id, (0.0, 0, None))
        return (known or await self.get(id)).retry

    async def _load(self) -> None:
        """What several deliveries want is asked for by one statement."""
        await asyncio.sleep(0)
        wanted, self._wanted, self._loading = self._wanted, set(), None
        backoff = Backoff()
        while True:
            try:
                rows = await self._store.endpoints.by_id(sorted(wanted))
                break
            except Exception as error:
                if not is_transient(error):
                    raise
                await asyncio.sleep(backoff.next())
        if len(self._known) > MOST_KEPT:
            self._known.clear()
        until = time.monotonic() + FRESH_FOR
        found = {row.id: row for row in rows}
        for id in wanted:
            self._known[id] = (until, *self._opened(id, found.get(id)))

    def _opened(self, id: int, row: EndpointRow | None) -> tuple[int, Endpoint | Unusable]:
        if row is None:
            return 0, Unusable("its endpoint was deleted", for_ever=True)
        _, version, known = self._known.get(id, (0.0, 0, None))
        if version == row.version and isinstance(known, Endpoint):
            return version, known
        endpoint = opened(row, self._seal, self._allowed)
        if isinstance(endpoint, Unusable):
            log.warning("%s", endpoint.why)
        return row.version, endpoint

    def close(self) -> None:
        for each in list(self._all_loading):
            each.cancel()
