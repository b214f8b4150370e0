"""Which role of which tenant may do what."""

from typing import Any

import httpx
import pytest

from .served import Served

ROLES = ("viewer", "worker", "operator", "admin")
KEY = {"name": "k", "role": "viewer"}
# What keys of these roles are answered: those of `acme`, and of `default`. The key 1 is one of
# `default`, and `other` is a third tenant.
Four = tuple[int, int, int, int]
MATRIX: list[tuple[str, str, Any, Four, Four]] = [
    ("GET", "/v1/tenants", None, (200, 403, 200, 200), (200, 403, 200, 200)),
    ("GET", "/v1/tenants/acme", None, (200, 403, 200, 200), (404, 403, 404, 200)),
    ("GET", "/v1/tenants/other", None, (404, 403, 404, 404), (404, 403, 404, 200)),
    ("PUT", "/v1/tenants/other", {}, (403, 403, 403, 403), (403, 403, 403, 200)),
    ("PUT", "/v1/tenants/acme", {}, (403, 403, 403, 403), (403, 403, 403, 200)),
    ("DELETE", "/v1/tenants/other", None, (403, 403, 403, 403), (403, 403, 403, 204)),
    ("GET", "/v1/keys", None, (403, 403, 403, 200), (403, 403, 403, 200)),
    ("GET", "/v1/keys/1", None, (403, 403, 403, 404), (403, 403, 403, 200)),
    ("POST", "/v1/keys", KEY, (403, 403, 403, 201), (403, 403, 403, 201)),
    ("POST", "/v1/keys/1/rotate", None, (403, 403, 403, 404), (403, 403, 403, 201)),
    ("DELETE", "/v1/keys/1", None, (403, 403, 403, 404), (403, 403, 403, 204)),
    ("GET", "/v1/audit-log", None, (403, 403, 403, 200), (403, 403, 403, 200)),
    ("GET", "/v1/cluster", None, (403, 403, 403, 403), (200, 403, 200, 200)),
]


@pytest.mark.parametrize("tenant", ["acme", "default"])
async def test_each_role_of_each_tenant_may_do_this_and_no_more(api: Served, tenant: str) -> None:
    await api.key("viewer")
    await api.tenant("acme")
    await api.tenant("other")
    for nth, role in enumerate(ROLES):
        async with api.caller(role, tenant) as http:
            for method, path, body, of_acme, of_default in MATRIX:
                expected = (of_default if tenant == "default" else of_acme)[nth]
                answer = await http.request(method, path, json=body)
                assert answer.status_code == expected, (role, method, path, answer.text)
                if expected in (403, 404):
                    assert answer.headers["content-type"] == "application/problem+json"


ALL, LOOK, CHANGE = "viewer worker operator admin", "viewer operator admin", "operator admin"
WORK, ENQUEUE, ADMIN = "worker admin", "worker operator admin", "admin"
# Every route there is, and the roles that it does not refuse.
NEEDS: dict[str, dict[str, str]] = {
    "/v1/schedules": {"GET": LOOK, "POST": CHANGE},
    "/v1/schedules/bulk": {"POST": CHANGE},
    "/v1/schedules/preview": {"POST": LOOK},
    "/v1/schedules/{name}": {"GET": LOOK, "PUT": CHANGE, "PATCH": CHANGE, "DELETE": CHANGE},
    "/v1/schedules/{name}/pause": {"POST": CHANGE},
    "/v1/schedules/{name}/resume": {"POST": CHANGE},
    "/v1/schedules/{name}/trigger": {"POST": CHANGE},
    "/v1/schedules/{name}/backfill": {"POST": CHANGE},
    "/v1/schedules/{name}/backfills": {"GET": LOOK},
    "/v1/schedules/{name}/backfills/{id}": {"DELETE": CHANGE},
    "/v1/schedules/{name}/preview": {"GET": LOOK},
    "/v1/schedules/{name}/explain": {"GET": LOOK},
    "/v1/schedules/{name}/fires": {"GET": LOOK},
    "/v1/schedules/{name}/versions": {"GET": LOOK},
    "/v1/schedules/{name}/plan": {"POST": CHANGE},
    "/v1/calendars": {"GET": LOOK},
    "/v1/calendars/{name}": {"GET": LOOK, "PUT": CHANGE, "DELETE": CHANGE},
    "/v1/calendars/{name}/users": {"GET": LOOK},
    "/v1/jobs": {"GET": ALL, "POST": ENQUEUE},
    "/v1/jobs/bulk": {"POST": ENQUEUE},
    "/v1/jobs/{id}": {"GET": ALL},
    "/v1/jobs/{id}/cancel": {"POST": CHANGE},
    "/v1/jobs/{id}/retry": {"POST": CHANGE},
    "/v1/jobs/{id}/progress": {"GET": ALL, "POST": WORK},
    "/v1/jobs/{id}/succeed": {"POST": WORK},
    "/v1/jobs/{id}/fail": {"POST": WORK},
    "/v1/jobs/{id}/snooze": {"POST": WORK},
    "/v1/dead": {"GET": LOOK},
    "/v1/dead/{id}": {"GET": LOOK, "DELETE": CHANGE},
    "/v1/dead/redrive": {"POST": CHANGE},
    "/v1/dead/purge": {"POST": CHANGE},
    "/v1/queues": {"GET": ALL},
    "/v1/workers": {"GET": ALL, "POST": WORK},
    "/v1/workers/{id}": {"DELETE": WORK},
    "/v1/workers/{id}/claim": {"POST": WORK},
    "/v1/workers/{id}/renew": {"POST": WORK},
    "/v1/workers/{id}/settle": {"POST": WORK},
    "/v1/endpoints": {"GET": LOOK},
    "/v1/endpoints/{name}": {"GET": LOOK, "PUT": CHANGE, "PATCH": CHANGE, "DELETE": CHANGE},
    "/v1/endpoints/{name}/test": {"POST": CHANGE},
    "/v1/tenants": {"GET": LOOK},
    "/v1/tenants/{name}": {"GET": LOOK, "PUT": ADMIN, "DELETE": ADMIN},
    "/v1/keys": {"GET": ADMIN, "POST": ADMIN},
    "/v1/keys/{id}": {"GET": ADMIN, "DELETE": ADMIN},
    "/v1/keys/{id}/rotate": {"POST": ADMIN},
    "/v1/audit-log": {"GET": ADMIN},
    "/v1/cluster": {"GET": LOOK},
}


def routes(api: Served) -> list[tuple[str, str]]:
    return [
        (method.upper(), path)
        for path, methods in api.asgi.openapi()["paths"].items()
        if path.startswith("/v1/")
        for method in methods
    ]


async def ask(http: httpx.AsyncClient, method: str, path: str) -> httpx.Response:
    """Of something that is not there, and with nothing said."""
    concrete = path.replace("{id}", "999999").replace("{name}", "nobody")
    if path.endswith("/bulk"):
        ndjson = {"content-type": "application/x-ndjson"}
        return await http.request(method, concrete, content=b"", headers=ndjson)
    body: Any = {} if method in ("POST", "PUT", "PATCH") else None
    return await http.request(method, concrete, json=body)


async def test_every_route_refuses_the_roles_that_it_is_not_for(api: Served) -> None:
    assert {(m, path) for path, methods in NEEDS.items() for m in methods} == {*routes(api)}
    for role in ROLES:
        async with api.caller(role) as http:
            for method, path in routes(api):
                answer = await ask(http, method, path)
                allowed = role in NEEDS[path][method].split()
                assert (answer.status_code != 403) == allowed, (role, method, path, answer.text)
                assert answer.status_code < 500, (role, method, path, answer.text)


async def test_every_route_wants_a_key(api: Served) -> None:
    await api.key("viewer")
    async with api.client() as http:
        for method, path in routes(api):
            assert (await ask(http, method, path)).status_code == 401, (method, path)


async def test_whoever_sends_no_key_is_told_nothing(api: Served) -> None:
    await api.key("viewer")
    async with api.client() as http:
        for method, path, body, _, _ in MATRIX:
            answer = await http.request(method, path, json=body)
            assert answer.status_code == 401, (method, path)
        for path in ("/v1/nothing", "/v1/keys/zero", "/v1/"):
            assert (await http.get(path)).status_code == 401
        for path in ("/healthz", "/readyz", "/openapi.json", "/problems/not_found"):
            assert (await http.get(path)).status_code == 200, path
