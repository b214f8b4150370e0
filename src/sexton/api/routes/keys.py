"""Keys: an admin makes those of its own tenant, one of the tenant `default` those of any."""

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Response

from sexton.api import keyring, pages
from sexton.api.call import Admin, Answer, Call
from sexton.api.desk import Desk
from sexton.api.keyring import key_out, length
from sexton.api.models.keys import KeyId, KeyIn, KeyMade, KeyOut, OfTenant, RotateIn
from sexton.api.pages import Cursor, Limit, Page
from sexton.api.problems import problems
from sexton.store.service import KeyView

router = APIRouter(prefix="/v1/keys", tags=["keys"])


@router.get("", responses=problems(404) | {200: {"model": Page[KeyOut]}}, response_model=None)
async def list_keys(
    call: Admin, tenant: OfTenant = None, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """By age, the revoked and expired ones too."""
    place = pages.place(cursor, tuple[int])
    after = None if place is None else place[0]

    async def work(desk: Desk, owner: int) -> Answer:
        found = await desk.store.keys.list(owner, after=after, limit=limit + 1)
        following = pages.cursor(found[limit - 1].id) if len(found) > limit else None
        return Answer(pages.page([key_out(each) for each in found[:limit]], following))

    return await call.read(_of(tenant, work), operating=_operates(call, tenant))


@router.get("/{id}", responses=problems(404) | {200: {"model": KeyOut}}, response_model=None)
async def get_key(id: KeyId, call: Admin, tenant: OfTenant = None) -> Response:
    """One key, but for the key itself."""

    async def work(desk: Desk, owner: int) -> Answer:
        return Answer(key_out(await keyring.demand_key(desk, owner, id)))

    return await call.read(_of(tenant, work), operating=_operates(call, tenant))


@router.post(
    "", status_code=201, responses=problems(404) | {201: {"model": KeyMade}}, response_model=None
)
async def make_key(body: KeyIn, call: Admin, tenant: OfTenant = None) -> Response:
    """A new key, shown this once."""
    expires_in = length("expires_in", body.expires_in)

    async def work(desk: Desk, owner: int) -> Answer:
        return _shown_once(*await keyring.make(desk, owner, body.name, body.role, expires_in))

    return await call.change(_of(tenant, work), operating=_operates(call, tenant))


@router.post(
    "/{id}/rotate",
    status_code=201,
    responses=problems(404, 409) | {201: {"model": KeyMade}},
    response_model=None,
)
async def rotate_key(
    id: KeyId, call: Admin, body: RotateIn | None = None, tenant: OfTenant = None
) -> Response:
    """Another key in the place of this one, which still opens until the overlap is over."""
    wanted = body or RotateIn()
    overlap = length("overlap", wanted.overlap) or 0.0
    expires_in = length("expires_in", wanted.expires_in)

    async def work(desk: Desk, owner: int) -> Answer:
        return _shown_once(*await keyring.rotate(desk, owner, id, overlap, expires_in))

    return await call.change(_of(tenant, work), operating=_operates(call, tenant))


@router.delete("/{id}", status_code=204, responses=problems(404), response_model=None)
async def revoke_key(id: KeyId, call: Admin, tenant: OfTenant = None) -> Response:
    """From now on it opens nothing, everywhere within seconds. It stays in the list."""

    async def work(desk: Desk, owner: int) -> Answer:
        await keyring.revoke(desk, owner, id)
        return Answer(status=204)

    return await call.change(_of(tenant, work), operating=_operates(call, tenant))


def _shown_once(made: KeyView, key: str) -> Answer:
    said = key_out(made)
    return Answer({**said, "key": key}, 201, kept={**said, "key": None})


def _operates(call: Call, tenant: str | None) -> bool:
    """Whether another tenant's are meant; only who looks after all of them finds those."""
    if tenant is None or tenant == call.principal.tenant:
        return False
    if not call.principal.operates_all:
        raise keyring.unknown_tenant(tenant)
    return True


def _of(
    tenant: str | None, work: Callable[[Desk, int], Awaitable[Answer]]
) -> Callable[[Desk], Awaitable[Answer]]:
    """The same work, told whose keys it is about."""

    async def told(desk: Desk) -> Answer:
        if tenant is None or tenant == desk.tenant:
            return await work(desk, desk.tenant_id)
        return await work(desk, (await keyring.demand_tenant(desk, tenant)).id)

    return told
