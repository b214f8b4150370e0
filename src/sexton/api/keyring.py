"""Making, rotating and revoking keys, and the tenants that they belong to; for the service and for
the command line alike: in a transaction, with a line in the audit log, told to every process.
"""

import getpass
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from sexton.api import keys
from sexton.api.access import KEYS, TENANTS
from sexton.api.desk import Desk
from sexton.api.models.tenants import TENANT_NAME
from sexton.api.origin import Origin
from sexton.api.principal import Principal
from sexton.api.problems import Problem
from sexton.api.service import Service
from sexton.app import Sexton
from sexton.domain.duration import Duration, seconds
from sexton.store.service import KeyView, TenantView

FIRST = "default"


@asynccontextmanager
async def at_the_database(app: Sexton) -> AsyncIterator[Desk]:
    """A desk for whoever has the database itself: the first key is made there."""
    client = await app.client()
    service = Service(app, client.pool, client.store)
    who = Principal(1, FIRST, "admin", f"{getpass.getuser()} at the command line")
    async with service.transaction(who, origin=Origin("local"), operating=True) as desk:
        yield desk


# ── keys ────────────────────────────────────────────────────────────────────


async def make(
    desk: Desk, tenant: int, name: str, role: str, expires_in: float | None
) -> tuple[KeyView, str]:
    """A new key, and the only chance to see it."""
    key = keys.fresh()
    id = await desk.store.keys.add(
        *(tenant, name, role, keys.shown(key), keys.hashed(key)),
        *(desk.principal.actor, expires_in),
    )
    made = await demand_key(desk, tenant, id)
    await _tell(desk, KEYS)
    desk.log("key.create", called(made), after=key_out(made), tenant_id=tenant)
    return made, key


async def rotate(
    desk: Desk, tenant: int, id: int, overlap: float, expires_in: float | None
) -> tuple[KeyView, str]:
    """Another key in the place of one that still opens."""
    before = await demand_key(desk, tenant, id)
    key = keys.fresh()
    new = await desk.store.keys.rotate(
        *(tenant, id, overlap, keys.shown(key), keys.hashed(key)),
        *(desk.principal.actor, expires_in),
    )
    if new is None:
        raise Problem(409, "conflict", f"key {id} {await _no_longer(desk, tenant, id)}")
    made = await demand_key(desk, tenant, new)
    await _tell(desk, KEYS)
    said = key_out(before), key_out(made)
    desk.log("key.rotate", called(before), *said, tenant_id=tenant)
    return made, key


async def revoke(desk: Desk, tenant: int, id: int) -> KeyView:
    """From now on it opens nothing; again changes nothing."""
    before = await demand_key(desk, tenant, id)
    if before.revoked_at is not None:
        return before
    await desk.store.keys.revoke(tenant, id)
    after = await demand_key(desk, tenant, id)
    await _tell(desk, KEYS)
    desk.log("key.revoke", called(before), key_out(before), key_out(after), tenant_id=tenant)
    return after


async def demand_key(desk: Desk, tenant: int, id: int) -> KeyView:
    found = await desk.store.keys.get(tenant, id)
    if found is None:
        raise Problem(404, "not_found", f"there is no key {id}")
    return found


async def _no_longer(desk: Desk, tenant: int, id: int) -> str:
    """Why it cannot be rotated, as it stands now; and what can be done."""
    key = await demand_key(desk, tenant, id)
    if key.replaced_by is None:
        return f"is {key.state}: make a new one"
    last = await desk.store.keys.last(tenant, id)
    if last is None or last.state != "active":
        gone = key.replaced_by if last is None else last.id
        return f"was rotated before, and key {gone} in its place is gone: make a new one"
    return f"was rotated before: rotate key {last.id}, which took its place"


def called(key: KeyView) -> str:
    """As the log has it: names need not be different."""
    return f"{key.name} ({key.id})"


def key_out(view: KeyView) -> dict[str, Any]:
    said: dict[str, Any] = msgspec.to_builtins(view)
    return said


# ── tenants ─────────────────────────────────────────────────────────────────


def checked_tenant(name: str) -> str:
    """A name that stands in URLs as it is."""
    if re.fullmatch(TENANT_NAME, name) is None:
        raise Problem(
            422,
            "invalid",
            f"name: {name!r} is not small letters and digits, with . - _ between them, at most 63",
            field="name",
        )
    return name


async def put_tenant(
    desk: Desk, name: str, quotas: Sequence[float | None]
) -> tuple[TenantView, bool]:
    """Make it, or give it these quotas; whether it was made."""
    tenants = desk.store.tenants
    before = await tenants.get(name)
    made = await tenants.put(name, quotas)
    after = await demand_tenant(desk, name)
    if before != after:
        said = None if before is None else tenant_out(before), tenant_out(after)
        desk.log("tenant.put", name, *said)
        await _tell(desk, TENANTS)
    return after, made


async def remove_tenant(desk: Desk, name: str) -> None:
    """If it has neither schedules nor jobs; all else that was kept for it goes with it."""
    if name == FIRST:
        raise Problem(409, "conflict", f"the tenant {FIRST!r} is the operator's own: it stays")
    tenants = desk.store.tenants
    before = await demand_tenant(desk, name)
    contents = await tenants.contents(name)
    if contents is None:  # removed by somebody else just now
        raise unknown_tenant(name)
    for has, what in (
        (contents.schedules, "schedules"),
        (contents.jobs, "jobs"),
        (contents.dead, "dead jobs"),
    ):
        if has:
            raise Problem(409, "conflict", f"the tenant {name!r} still has {what}")
    await tenants.remove(contents.id)
    await _tell(desk, TENANTS)
    desk.log("tenant.remove", name, tenant_out(before))


async def demand_tenant(desk: Desk, name: str) -> TenantView:
    found = await desk.store.tenants.get(name)
    if found is None:
        raise unknown_tenant(name)
    return found


def unknown_tenant(name: str) -> Problem:
    return Problem(404, "not_found", f"there is no tenant {name!r}")


def tenant_out(view: TenantView) -> dict[str, Any]:
    """Without its id: a tenant is known by its name."""
    said: dict[str, Any] = msgspec.to_builtins(view)
    del said["id"]
    return said


def length(field: str, given: Duration | None) -> float | None:
    """A length of time that somebody has written."""
    try:
        return None if given is None else seconds(given)
    except ValueError as error:
        raise Problem(422, "invalid", f"{field}: {error}", field=field) from None


async def _tell(desk: Desk, what: str) -> None:
    """Every process forgets what it knew: this one at once, the others when they hear."""
    await desk.store.tenants.notify(what)
    desk.after_commit(desk.service.access.forget)
