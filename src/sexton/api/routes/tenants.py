"""Tenants: made and looked after by admins of the tenant `default`; each may look at its own."""

from fastapi import APIRouter, Response

from sexton.api import keyring, pages
from sexton.api.call import Admin, Answer, Viewer
from sexton.api.desk import Desk
from sexton.api.keyring import tenant_out
from sexton.api.models.tenants import TenantIn, TenantName, TenantOut
from sexton.api.pages import Cursor, Limit, Page
from sexton.api.problems import problems

router = APIRouter(prefix="/v1/tenants", tags=["tenants"])


@router.get("", responses=problems() | {200: {"model": Page[TenantOut]}}, response_model=None)
async def list_tenants(call: Viewer, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """By name; a key of another tenant than `default` finds its own only."""
    place = pages.place(cursor, tuple[str])
    after = None if place is None else place[0]

    async def work(desk: Desk) -> Answer:
        found = await desk.store.tenants.list(after=after, limit=limit + 1)
        following = pages.cursor(found[limit - 1].name) if len(found) > limit else None
        return Answer(pages.page([tenant_out(each) for each in found[:limit]], following))

    return await call.read(work, operating=call.principal.operates_all)


@router.get("/{name}", responses=problems(404) | {200: {"model": TenantOut}}, response_model=None)
async def get_tenant(name: TenantName, call: Viewer) -> Response:
    """One tenant and its quotas."""

    async def work(desk: Desk) -> Answer:
        return Answer(tenant_out(await keyring.demand_tenant(desk, name)))

    return await call.read(work, operating=call.principal.operates_all)


@router.put(
    "/{name}",
    responses=problems() | {200: {"model": TenantOut}, 201: {"model": TenantOut}},
    response_model=None,
)
async def put_tenant(name: TenantName, body: TenantIn, call: Admin) -> Response:
    """Make a tenant, or give the one of this name these quotas."""
    call.demand_operator()
    quotas = (
        body.max_schedules,
        body.max_live_jobs,
        body.max_payload_bytes,
        keyring.length("min_interval", body.min_interval),
        body.requests_per_second,
    )

    async def work(desk: Desk) -> Answer:
        tenant, made = await keyring.put_tenant(desk, name, quotas)
        return Answer(tenant_out(tenant), 201 if made else 200)

    return await call.change(work, operating=True)


@router.delete("/{name}", status_code=204, responses=problems(404, 409), response_model=None)
async def remove_tenant(name: TenantName, call: Admin) -> Response:
    """Remove a tenant that has neither schedules nor jobs, and all that was kept for it."""
    call.demand_operator()

    async def work(desk: Desk) -> Answer:
        await keyring.remove_tenant(desk, name)
        return Answer(status=204)

    return await call.change(work, operating=True)
