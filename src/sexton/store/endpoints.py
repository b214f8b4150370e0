"""Endpoints, and claims that one of them has taken over."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sexton.domain.duration import seconds
from sexton.domain.retry import Retry
from sexton.store.source import Row
from sexton.store.statements import Statements

# The worker in whose name a job runs that an endpoint has accepted.
HOLDER = "202 accepted"


@dataclass(frozen=True, slots=True)
class EndpointRow:
    """An endpoint as it is kept: its secrets sealed."""

    id: int
    tenant_id: int
    name: str
    url: str
    timeout: float
    accepted_for: float
    retry: Retry
    version: int
    created_at: datetime
    changed_at: datetime
    headers: bytes | None = field(repr=False)
    secrets: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class NewEndpoint:
    """What an endpoint is to be; every field already checked, every secret sealed."""

    name: str
    url: str
    timeout: float
    accepted_for: float
    retry: Retry
    headers: bytes | None = field(repr=False)
    secrets: tuple[bytes, ...] = field(repr=False)


class Endpoints:
    """Statements about endpoints."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements

    async def by_id(self, ids: Sequence[int], tenant: int | None = None) -> list[EndpointRow]:
        rows = await self._run.rows("endpoints_by_id", ids, tenant)
        return [_endpoint(row) for row in rows]

    async def by_name(self, tenant: int, names: Sequence[str]) -> list[EndpointRow]:
        rows = await self._run.rows("endpoints_by_name", tenant, names)
        return [_endpoint(row) for row in rows]

    async def held(self, tenant: int, name: str) -> EndpointRow | None:
        """One that cannot be deleted before the end of this transaction."""
        row = await self._run.row("endpoint_hold", tenant, name)
        return None if row is None else _endpoint(row)

    async def locked(self, tenant: int, name: str) -> EndpointRow | None:
        """One that nobody can begin to use before the end of this transaction."""
        row = await self._run.row("endpoint_lock", tenant, name)
        return None if row is None else _endpoint(row)

    async def page(self, tenant: int, after: str, before: str, limit: int) -> list[EndpointRow]:
        rows = await self._run.rows("endpoints", tenant, after, before, limit)
        return [_endpoint(row) for row in rows]

    async def add(self, tenant: int, new: NewEndpoint) -> EndpointRow | None:
        """None if there is one of this name already."""
        row = await self._run.row("endpoint_add", tenant, *_written(new), self._run.now())
        return None if row is None else _endpoint(row)

    async def change(
        self, tenant: int, id: int, version: int, new: NewEndpoint
    ) -> EndpointRow | None:
        """None if it has become another version meanwhile."""
        written = _written(new)[1:]
        row = await self._run.row("endpoint_change", tenant, id, version, *written, self._run.now())
        return None if row is None else _endpoint(row)

    async def count(self, tenant: int, at_most: int) -> int:
        """How many a tenant has, counted no further than that."""
        counted: int = await self._run.value("endpoints_count", tenant, at_most)
        return counted

    async def used(self, tenant: int, names: Sequence[str]) -> list[EndpointRow]:
        """Those that were written out, held; they go when nobody has written them for long."""
        rows = await self._run.rows("endpoints_use", tenant, names, self._run.now())
        return [_endpoint(row) for row in rows]

    async def users(self, tenant: int, id: int, limit: int) -> list[str]:
        """The schedules that deliver to it."""
        return [row["name"] for row in await self._run.rows("endpoint_users", tenant, id, limit)]

    async def delete(self, tenant: int, id: int) -> bool:
        return await self._run.value("endpoint_delete", tenant, id) is not None

    async def prune(self, unused_for: float, limit: int) -> int:
        rows = await self._run.rows("endpoints_prune", unused_for, limit, self._run.now())
        return len(rows)

    async def after(self, id: int, limit: int) -> list[EndpointRow]:
        """Those of every tenant, in the order of their ids."""
        return [_endpoint(row) for row in await self._run.rows("endpoints_after", id, limit)]

    async def hand_over(self, claims: Sequence[tuple[int, int, float]]) -> set[int]:
        """Claims (id, fence, seconds) that somebody else is to settle; returns those still ours."""
        claims = sorted(claims)
        ours: set[int] = set()
        while claims:
            # As in `Jobs.settle`: a row that was changed meanwhile is where it was not found.
            ids, fences, lengths = zip(*claims, strict=True)
            rows = await self._run.rows("hand_over", ids, fences, lengths, HOLDER, self._run.now())
            ours |= {row["id"] for row in rows if row["handed_over"]}
            changed = {row["id"] for row in rows if not row["handed_over"]}
            claims = [each for each in claims if each[0] in changed]
        return ours


def _written(new: NewEndpoint) -> tuple[object, ...]:
    retry = new.retry
    return (
        *(new.name, new.url, new.headers, list(new.secrets), new.timeout, new.accepted_for),
        *(retry.max_attempts, seconds(retry.base), retry.factor, seconds(retry.cap)),
        None if retry.max_age is None else seconds(retry.max_age),
    )


def _endpoint(row: Row) -> EndpointRow:
    return EndpointRow(
        id=row["id"],
        tenant_id=row["tenant_id"],
        name=row["name"],
        url=row["url"],
        timeout=row["timeout"].total_seconds(),
        accepted_for=row["accepted_for"].total_seconds(),
        retry=Retry(
            row["max_attempts"],
            row["retry_base"],
            row["retry_cap"],
            row["retry_factor"],
            None if row["max_age"] is None else row["max_age"].total_seconds(),
        ),
        version=row["version"],
        created_at=row["created_at"],
        changed_at=row["changed_at"],
        headers=row["headers"],
        secrets=tuple(row["secrets"]),
    )
