"""Who calls: a tenant, a role in it, and what the audit log will say."""

from dataclasses import dataclass

from sexton.store.service import Role as Role

# What each role may do besides what nobody is refused. A worker claims and settles, and reads jobs.
ALLOWS: dict[Role, frozenset[Role]] = {
    "viewer": frozenset({"viewer"}),
    "worker": frozenset({"worker"}),
    "operator": frozenset({"viewer", "operator"}),
    "admin": frozenset({"viewer", "worker", "operator", "admin"}),
}


@dataclass(frozen=True, slots=True)
class Quotas:
    """What a tenant may have; None: as much as it likes."""

    max_schedules: int | None = None
    max_live_jobs: int | None = None
    max_payload_bytes: int | None = None
    min_interval: float | None = None
    requests_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of one request."""

    tenant_id: int
    tenant: str
    role: Role
    actor: str  # as the audit log names it
    key_id: int | None = None
    quotas: Quotas = Quotas()

    def may(self, need: Role) -> bool:
        return need in ALLOWS[self.role]

    @property
    def operates_all(self) -> bool:
        """An admin of the first tenant looks after the others: it makes tenants and their keys."""
        return self.tenant_id == 1 and self.role == "admin"
