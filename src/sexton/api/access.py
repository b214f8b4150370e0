"""Who calls: from a request's key to its tenant and role, without asking the database each time.

What is known of a key is believed for a few seconds. A notification ends that at once where it
arrives, so that a key that is revoked opens nothing any more; where none does, the seconds do.
"""

import time
from collections.abc import Mapping

from starlette.types import Scope

from sexton.api import keys
from sexton.api.origin import demand_local
from sexton.api.principal import Principal, Quotas
from sexton.api.problems import Problem
from sexton.store import Keys
from sexton.store.service import KeyFound

# Together, and with the time that asking takes, less than the 5 seconds that are promised.
BELIEVED_FOR = 3.0
ASKED_WITHIN = 1.0
NONE_FOR = 1.0
MOST_KNOWN = 10_000
# The notifications of changes to keys, and to tenants with their quotas.
KEYS, TENANTS = "keys", "tenants"
LOCAL = Principal(1, "default", "admin", "local")


class Access:
    """Answers who calls."""

    def __init__(self, store: Keys, host: str) -> None:
        self._store = store
        self._host = host
        self._known: dict[bytes, tuple[Principal | None, float]] = {}
        self._asking: set[bytes] = set()
        self._changes = 0
        self._closed = False  # there are keys, and never again will nobody need one
        self._open_until = 0.0
        self._used: set[int] = set()
        self._noted: dict[int, float] = {}

    async def principal(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Principal:
        """Who sends this; a Problem if it is nobody we know."""
        given = headers.get(b"authorization")
        if given is None:
            if await self._is_open():
                demand_local(scope, headers, self._host)
                return LOCAL
            raise _unknown("send a key: Authorization: Bearer sxn_…")
        scheme, _, key = given.decode("latin-1").partition(" ")
        key = key.strip()
        if scheme.lower() != "bearer" or not keys.is_whole(key):
            raise _unknown("that is not a key of ours: Authorization: Bearer sxn_…")
        found = await self._find(keys.hashed(key))
        if found is None or found.key_id is None:
            raise _unknown("there is no such key, or it has expired or is revoked")
        self._used.add(found.key_id)
        return found

    def forget(self) -> None:
        """Something about keys or tenants has changed: believe nothing that was known."""
        self._changes += 1
        self._known.clear()
        self._open_until = 0.0

    def used(self) -> list[int]:
        """The keys that were used and not noted within the last minute; from now on they are."""
        now = time.monotonic()
        fresh = [id for id in self._used if now - self._noted.get(id, -60.0) >= 60.0]
        self._noted = {id: at for id, at in self._noted.items() if now - at < 60.0}
        self._noted |= dict.fromkeys(fresh, now)
        self._used.clear()
        return fresh

    async def _find(self, hash: bytes) -> Principal | None:
        now = time.monotonic()
        known = self._known.get(hash)
        if known is not None:
            until = known[1] + (ASKED_WITHIN if hash in self._asking else 0.0)
            if now < until:
                return known[0]
        changes = self._changes
        self._asking.add(hash)
        try:
            row = await self._store.find(hash)
        finally:
            self._asking.discard(hash)
        found = None if row is None else _principal(row)
        if changes == self._changes:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            left = BELIEVED_FOR if row is None or row.expires_in is None else row.expires_in
            self._known[hash] = found, now + min(left, BELIEVED_FOR)
        return found

    async def _is_open(self) -> bool:
        if self._closed:
            return False
        now = time.monotonic()
        if now >= self._open_until:
            changes = self._changes
            self._closed = await self._store.exist()
            if changes == self._changes:
                self._open_until = now + NONE_FOR
        return not self._closed


def _principal(key: KeyFound) -> Principal:
    return Principal(
        key.tenant_id,
        key.tenant,
        key.role,
        f"{key.name} ({key.shown}…)",
        key.id,
        Quotas(
            key.max_schedules,
            key.max_live_jobs,
            key.max_payload_bytes,
            key.min_interval,
            key.requests_per_second,
        ),
    )


def _unknown(detail: str) -> Problem:
    return Problem(401, "unauthenticated", detail, headers={"WWW-Authenticate": "Bearer"})
