"""Keys, tenants, endpoints and the audit log at the database; all of it at a desk."""

from typing import Any

import msgspec

from sexton.cli.database.ground import Ground, refused, said_of
from sexton.domain.given import MOST
from sexton.domain.spec import checked_name
from sexton.remote.admin import Endpoint, Key, LogLine, MadeKey, Tenant
from sexton.remote.views import Page

LOOKED_AT = 2000


class Keys:
    """Of any tenant: whoever has the database may."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    async def list(
        self, *, tenant: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[Key]:
        from sexton.api import keyring

        after = None if cursor is None else _number(cursor)
        async with self._ground.desk(operating=True) as desk:
            owner = await keyring.demand_tenant(desk, tenant or self._ground.tenant)
            found = await desk.store.keys.list(owner.id, after=after, limit=limit + 1)
        items = [msgspec.convert(each, Key, from_attributes=True) for each in found[:limit]]
        return Page(items, str(items[-1].id) if len(found) > limit else None)

    async def get(self, id: int, *, tenant: str | None = None) -> Key:
        from sexton.api import keyring

        async with self._ground.desk(operating=True) as desk:
            owner = await keyring.demand_tenant(desk, tenant or self._ground.tenant)
            found = await keyring.demand_key(desk, owner.id, id)
        return msgspec.convert(found, Key, from_attributes=True)

    async def create(
        self,
        name: str,
        role: str,
        *,
        expires_in: float | None = None,
        tenant: str | None = None,
    ) -> MadeKey:
        from sexton.api import keyring

        async with self._ground.desk(operating=True) as desk:
            owner = await keyring.demand_tenant(desk, tenant or self._ground.tenant)
            made, key = await keyring.make(desk, owner.id, checked_name(name), role, expires_in)
        return MadeKey(**keyring.key_out(made), key=key)

    async def rotate(
        self,
        id: int,
        *,
        overlap: float = 3600.0,
        expires_in: float | None = None,
        tenant: str | None = None,
    ) -> MadeKey:
        from sexton.api import keyring

        async with self._ground.desk(operating=True) as desk:
            owner = await keyring.demand_tenant(desk, tenant or self._ground.tenant)
            made, key = await keyring.rotate(desk, owner.id, id, overlap, expires_in)
        return MadeKey(**keyring.key_out(made), key=key)

    async def revoke(self, id: int, *, tenant: str | None = None) -> None:
        from sexton.api import keyring

        async with self._ground.desk(operating=True) as desk:
            owner = await keyring.demand_tenant(desk, tenant or self._ground.tenant)
            await keyring.revoke(desk, owner.id, id)


class Tenants:
    """All of them."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    async def list(self, *, limit: int = 50, cursor: str | None = None) -> Page[Tenant]:
        store = await self._ground.store()
        found = await store.tenants.list(after=cursor, limit=limit + 1)
        items = [msgspec.convert(each, Tenant, from_attributes=True) for each in found[:limit]]
        return Page(items, items[-1].name if len(found) > limit else None)

    async def get(self, name: str) -> Tenant:
        found = await (await self._ground.store()).tenants.get(name)
        if found is None:
            raise refused(404, f"there is no tenant {name!r}")
        return msgspec.convert(found, Tenant, from_attributes=True)

    async def put(self, name: str, **quotas: Any) -> Tenant:
        from sexton.api import keyring
        from sexton.api.models.tenants import TenantIn

        given = TenantIn().model_dump() | quotas
        wanted = [given[each] for each in TenantIn.model_fields]
        async with self._ground.desk(operating=True) as desk:
            view, _ = await keyring.put_tenant(desk, keyring.checked_tenant(name), wanted)
        return msgspec.convert(view, Tenant, from_attributes=True)

    async def remove(self, name: str) -> None:
        from sexton.api import keyring

        async with self._ground.desk(operating=True) as desk:
            await keyring.remove_tenant(desk, name)


class Endpoints:
    """A tenant's."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    async def list(
        self, *, written_out: bool = False, limit: int = 50, cursor: str | None = None
    ) -> Page[Endpoint]:
        from sexton.api.routes.endpoints import list_endpoints

        given = (written_out, limit, cursor)
        return await self._ground.asked(
            lambda *given, call: list_endpoints(call, *given), *given, kind=Page[Endpoint]
        )

    async def get(self, name: str) -> Endpoint:
        from sexton.api.routes.endpoints import get_endpoint

        return await self._ground.asked(get_endpoint, name, kind=Endpoint)

    async def put(self, name: str, url: str, **said: Any) -> Endpoint:
        from sexton.api.models.endpoints import EndpointIn
        from sexton.api.routes.endpoints import put_endpoint

        body = said_of(EndpointIn, {"url": url, **said})
        return await self._ground.asked(put_endpoint, name, body, kind=Endpoint)

    async def update(self, name: str, **changes: Any) -> Endpoint:
        from sexton.api.models.endpoints import EndpointChangeIn
        from sexton.api.routes.endpoints import patch_endpoint

        body = said_of(EndpointChangeIn, changes)
        return await self._ground.asked(patch_endpoint, name, body, kind=Endpoint)

    async def remove(self, name: str) -> None:
        from sexton.api.routes.endpoints import delete_endpoint

        await self._ground.asked(delete_endpoint, name, kind=type(None))

    async def test(self, name: str) -> int:
        from sexton.api.routes.endpoints import test_endpoint

        made = await self._ground.asked(test_endpoint, name, kind=dict[str, int])
        return made["job"]


async def audit_log(
    ground: Ground, filters: dict[str, Any], limit: int, cursor: str | None
) -> Page[LogLine]:
    """Newest first."""
    given = {"since": filters.pop("from_", None), "until": filters.pop("to", None), **filters}
    found = await (await ground.store()).requests.log(
        await ground.owner(),
        before=None if cursor is None else _number(cursor),
        look_at=max(LOOKED_AT, limit + 1),
        limit=limit,
        request_id=None,
        **given,
    )
    lines = []
    for view in found.lines:
        said = msgspec.to_builtins(view)
        for side in ("before", "after"):
            said[side] = None if said[side] is None else msgspec.json.decode(said[side])
        lines.append(msgspec.convert(said, LogLine))
    return Page(lines, None if found.before is None else str(found.before))


def _number(cursor: str) -> int:
    if not cursor.isdecimal() or int(cursor) > MOST:
        raise refused(422, "cursor: is not one that a page ended with")
    return int(cursor)
