"""What the service keeps for itself: keys, tenants, answered requests and the audit log."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sexton.store.statements import Statements

Role = Literal["viewer", "worker", "operator", "admin"]
KeyState = Literal["active", "expired", "revoked"]


@dataclass(frozen=True, slots=True)
class KeyFound:
    """A key that opens something, and what its tenant may have."""

    id: int
    name: str
    role: Role
    shown: str
    tenant_id: int
    tenant: str
    expires_in: float | None
    max_schedules: int | None
    max_live_jobs: int | None
    max_payload_bytes: int | None
    min_interval: float | None
    requests_per_second: float | None


@dataclass(frozen=True, slots=True)
class KeyView:
    """A key as anyone may look at it: never the key itself."""

    id: int
    tenant: str
    name: str
    role: str
    shown: str
    state: KeyState
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    replaced_by: int | None


@dataclass(frozen=True, slots=True)
class TenantView:
    """A tenant and its quotas; None: as much as it likes."""

    id: int
    name: str
    created_at: datetime
    max_schedules: int | None
    max_live_jobs: int | None
    max_payload_bytes: int | None
    min_interval: float | None
    requests_per_second: float | None
    over_quota: bool


@dataclass(frozen=True, slots=True)
class Contents:
    """What a tenant still has."""

    id: int
    schedules: bool
    jobs: bool
    dead: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a request that was sent before; no status: its transaction is not over."""

    fingerprint: bytes
    status: int | None
    headers: str | None
    body: bytes | None


@dataclass(frozen=True, slots=True)
class LogLine:
    """A change, as it is written into the log; `before` and `after` are JSON."""

    tenant_id: int
    action: str
    subject: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class LogView:
    """A change that was made."""

    id: int
    at: datetime
    actor: str
    key_id: int | None
    address: str
    request_id: str
    action: str
    subject: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class LogPage:
    """Some lines of the log, and where it goes on; None: nowhere."""

    lines: list[LogView]
    before: int | None


class Keys:
    """Statements about keys."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements

    async def find(self, hash: bytes) -> KeyFound | None:
        """None: it opens nothing."""
        row = await self._run.row("key_find", hash, self._run.now())
        return None if row is None else KeyFound(**row)

    async def exist(self) -> bool:
        exist: bool = await self._run.value("keys_exist")
        return exist

    async def add(
        self,
        tenant: int,
        name: str,
        role: str,
        shown: str,
        hash: bytes,
        by: str,
        expires_in: float | None,
    ) -> int:
        id: int = await self._run.value(
            "key_add", tenant, name, role, shown, hash, by, expires_in, self._run.now()
        )
        return id

    async def list(
        self, tenant: int, *, id: int | None = None, after: int | None = None, limit: int = 1
    ) -> list[KeyView]:
        rows = await self._run.rows("keys", tenant, id, after, limit, self._run.now())
        return [KeyView(**row) for row in rows]

    async def get(self, tenant: int, id: int) -> KeyView | None:
        found = await self.list(tenant, id=id)
        return found[0] if found else None

    async def last(self, tenant: int, id: int) -> KeyView | None:
        """What stands in its place, after however many rotations."""
        last = await self._run.value("key_last", tenant, id)
        return None if last is None else await self.get(tenant, last)

    async def revoke(self, tenant: int, id: int) -> bool:
        return bool(await self._run.rows("key_revoke", tenant, id, self._run.now()))

    async def rotate(
        self,
        tenant: int,
        id: int,
        overlap: float,
        shown: str,
        hash: bytes,
        by: str,
        expires_in: float | None,
    ) -> int | None:
        """The id of the new one; None: the old one opens nothing any more, or never was."""
        made: int | None = await self._run.value(
            "key_rotate", tenant, id, overlap, shown, hash, by, expires_in, self._run.now()
        )
        return made

    async def used(self, ids: Sequence[int]) -> None:
        await self._run.rows("keys_used", ids, self._run.now())


class Tenants:
    """Statements about tenants."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements

    async def list(
        self, *, name: str | None = None, after: str | None = None, limit: int = 1
    ) -> list[TenantView]:
        rows = await self._run.rows("tenants_page", name, after, limit)
        return [TenantView(**row) for row in rows]

    async def get(self, name: str) -> TenantView | None:
        found = await self.list(name=name)
        return found[0] if found else None

    async def put(self, name: str, quotas: Sequence[float | None]) -> bool:
        """Whether it was made; the quotas in the order of TenantView."""
        row = await self._run.row("tenant_put", name, *quotas)
        assert row is not None, "an upsert returns its row"
        made: bool = row["made"]
        return made

    async def contents(self, name: str) -> Contents | None:
        """None: there is no such tenant."""
        row = await self._run.row("tenant_contents", name)
        return None if row is None else Contents(**row)

    async def remove(self, id: int) -> None:
        await self._run.rows("tenant_remove", id)

    async def role(self, role: str) -> tuple[bool, bool] | None:
        """Whether it sees all rows, and whether it was granted anything; None: there is none."""
        row = await self._run.row("tenants_role", role)
        return None if row is None else (row["sees_all"], row["granted"])

    async def grant(self) -> None:
        """What the role of the tenants may do; only the owner of the tables can say so."""
        await self._run.rows("grant_to_tenants")

    async def schedules_in(self, tenant: int, at_most: int) -> int:
        """How many schedules a tenant has, counted no further than that."""
        counted: int = await self._run.value("live_schedules", tenant, at_most)
        return counted

    async def hold_room(self, tenant: int, what: str) -> None:
        """One at a time counts and then adds, until the end of its transaction."""
        await self._run.rows("hold", f"room:{what}:{tenant}", True)

    async def notify(self, what: str) -> None:
        """Tell everybody who listens, when this is committed."""
        await self._run.rows("notify", [what])


class Requests:
    """Statements about requests that were answered, and their lines of the log."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements

    async def begin(self, tenant: int, key: str, fingerprint: bytes) -> bool:
        """Whether the key is ours; who has it at this moment is waited for."""
        return bool(
            await self._run.rows("request_begin", tenant, key, fingerprint, self._run.now())
        )

    async def find(self, tenant: int, key: str) -> Answered | None:
        row = await self._run.row("request_find", tenant, key)
        return None if row is None else Answered(**row)

    async def end(
        self,
        who: tuple[str, int | None, str, str],
        lines: Sequence[LogLine],
        tenant: int,
        key: str | None,
        answer: tuple[int, str, bytes] | None,
    ) -> None:
        """`who` is actor, key's id, address and request's id; the answer is kept under the key."""
        await self._run.rows(
            "request_end",
            *who,
            [line.tenant_id for line in lines],
            [line.action for line in lines],
            [line.subject for line in lines],
            [line.before for line in lines],
            [line.after for line in lines],
            *(tenant, key, *(answer or (None, None, None)), self._run.now()),
        )

    async def forget(self, older_than: float, limit: int) -> int:
        """How many were forgotten."""
        many: int = await self._run.value("requests_forget", older_than, limit, self._run.now())
        return many

    async def forget_log(self, older_than: float, limit: int) -> int:
        many: int = await self._run.value("audit_log_forget", older_than, limit, self._run.now())
        return many

    async def log(
        self, tenant: int, *, before: int | None, look_at: int, limit: int, **wanted: Any
    ) -> LogPage:
        """Newest first; looks at so many lines at most, and may find fewer than there are."""
        subject, since = wanted.get("subject"), wanted.get("since")
        rows = await self._run.rows(
            "audit_log" if subject is None else "audit_log_subject",
            *(tenant, before, look_at, wanted.get("action"), wanted.get("actor"), since),
            *(wanted.get("until"), wanted.get("request_id")),
            *(() if subject is None else (subject,)),
        )
        found = [row for row in rows if row["wanted"]]
        lines = [
            LogView(**{name: row[name] for name in LogView.__slots__}) for row in found[:limit]
        ]
        if len(found) > limit:
            return LogPage(lines, lines[-1].id)
        over = not rows or rows[0]["looked_at"] < look_at
        over = over or (since is not None and rows[-1]["at"] < since)
        return LogPage(lines, None if over else rows[-1]["id"])
