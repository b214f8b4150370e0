"""What admins and operators of a service look after: keys, tenants, its nodes and its log."""

import builtins
from datetime import datetime
from typing import Any

import msgspec

from sexton.domain.duration import Duration
from sexton.remote.views import Page
from sexton.remote.wire import Wire, segment


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A key, but for the key itself."""

    id: int
    tenant: str
    name: str
    role: str
    shown: str
    state: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    replaced_by: int | None = None


class MadeKey(Key, frozen=True, kw_only=True):
    """A new key; `key` is shown this once."""

    key: str | None


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant and its quotas; None: as much as it likes."""

    name: str
    created_at: datetime
    max_schedules: int | None
    max_live_jobs: int | None
    max_payload_bytes: int | None
    min_interval: float | None
    requests_per_second: float | None
    over_quota: bool


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """A change that was made through the service."""

    id: int
    at: datetime
    actor: str
    key_id: int | None
    address: str
    request_id: str
    action: str
    subject: str
    before: Any
    after: Any


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A process that fires schedules."""

    id: int
    pid: int
    name: str
    host: str
    leader: bool
    partitions: int
    version: str
    started_at: datetime
    renewed_at: datetime
    lease_until: datetime
    lease_left: float
    epoch: int | None
    skew: float | None
    fired: int
    last_fire_at: datetime | None
    zones: str | None


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """Who fires schedules; `owned` of the `partitions` have a node that lives."""

    term: int
    leader: int | None
    elected_at: datetime | None
    partitions: int
    owned: int
    nodes: list[Node]


class Keys:
    """A tenant's keys; those of another for admins of the tenant `default`."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def list(
        self, *, tenant: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[Key]:
        """By age."""
        query = {"tenant": tenant, "limit": limit, "cursor": cursor}
        return await self._wire.ask("GET", "/v1/keys", kind=Page[Key], query=query)

    async def get(self, id: int, *, tenant: str | None = None) -> Key:
        return await self._wire.ask("GET", f"/v1/keys/{id:d}", kind=Key, query={"tenant": tenant})

    async def create(
        self,
        name: str,
        role: str,
        *,
        expires_in: Duration | None = None,
        tenant: str | None = None,
    ) -> MadeKey:
        """A new one, which can be seen this once."""
        said = {"name": name, "role": role, "expires_in": expires_in}
        query = {"tenant": tenant}
        return await self._wire.ask("POST", "/v1/keys", said, kind=MadeKey, query=query)

    async def rotate(
        self,
        id: int,
        *,
        overlap: Duration = 3600.0,
        expires_in: Duration | None = None,
        tenant: str | None = None,
    ) -> MadeKey:
        """Another in the place of one, which still opens until the overlap is over."""
        said = {"overlap": overlap, "expires_in": expires_in}
        path, query = f"/v1/keys/{id:d}/rotate", {"tenant": tenant}
        return await self._wire.ask("POST", path, said, kind=MadeKey, query=query)

    async def revoke(self, id: int, *, tenant: str | None = None) -> None:
        """From now on it opens nothing."""
        query = {"tenant": tenant}
        await self._wire.ask("DELETE", f"/v1/keys/{id:d}", kind=type(None), query=query)


class Tenants:
    """Tenants, for admins of the tenant `default`; each may look at its own."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def list(self, *, limit: int = 50, cursor: str | None = None) -> Page[Tenant]:
        """By name."""
        query = {"limit": limit, "cursor": cursor}
        return await self._wire.ask("GET", "/v1/tenants", kind=Page[Tenant], query=query)

    async def get(self, name: str) -> Tenant:
        return await self._wire.ask("GET", f"/v1/tenants/{segment(name)}", kind=Tenant)

    async def put(self, name: str, **quotas: Any) -> Tenant:
        """Make it, or give it these quotas; what is left out has its usual value."""
        return await self._wire.ask("PUT", f"/v1/tenants/{segment(name)}", quotas, kind=Tenant)

    async def remove(self, name: str) -> None:
        """Refused while it has schedules or jobs."""
        await self._wire.ask("DELETE", f"/v1/tenants/{segment(name)}", kind=type(None))


class Endpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where jobs are delivered by HTTP, but for its secrets."""

    name: str
    url: str
    headers: dict[str, Any]
    secrets: dict[str, Any]
    timeout: float
    accepted_for: float
    retry: dict[str, Any]
    task: str
    version: int
    created_at: datetime
    changed_at: datetime
    secret: str | None = None  # one that was made just now, and is shown this once


class _Made(msgspec.Struct):
    job: int


class Endpoints:
    """Put, change, test and remove endpoints."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def list(
        self, *, written_out: bool = False, limit: int = 50, cursor: str | None = None
    ) -> Page[Endpoint]:
        """By name; also those that were written out as a target."""
        query = {"written_out": written_out, "limit": limit, "cursor": cursor}
        return await self._wire.ask("GET", "/v1/endpoints", kind=Page[Endpoint], query=query)

    async def get(self, name: str) -> Endpoint:
        return await self._wire.ask("GET", f"/v1/endpoints/{segment(name)}", kind=Endpoint)

    async def put(self, name: str, url: str, **said: Any) -> Endpoint:
        """Make it so; headers and secrets that are left out stay as they are."""
        path = f"/v1/endpoints/{segment(name)}"
        return await self._wire.ask("PUT", path, {"url": url, **said}, kind=Endpoint)

    async def update(self, name: str, **changes: Any) -> Endpoint:
        """Change some of it; to change a signing secret, add one, then keep only that."""
        path = f"/v1/endpoints/{segment(name)}"
        return await self._wire.ask("PATCH", path, changes, kind=Endpoint)

    async def remove(self, name: str) -> None:
        """Refused while schedules deliver to it."""
        await self._wire.ask("DELETE", f"/v1/endpoints/{segment(name)}", kind=type(None))

    async def test(self, name: str) -> int:
        """Deliver a test event by a worker; returns the job that carries it."""
        path = f"/v1/endpoints/{segment(name)}/test"
        return (await self._wire.ask("POST", path, kind=_Made)).job


async def audit_log(
    wire: Wire, filters: dict[str, Any], limit: int, cursor: str | None
) -> Page[LogLine]:
    """Newest first."""
    query: builtins.dict[str, Any] = {**filters, "limit": limit, "cursor": cursor}
    return await wire.ask("GET", "/v1/audit-log", kind=Page[LogLine], query=query)
