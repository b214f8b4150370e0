"""Tenants: made with quotas, and removed only when nothing is theirs any more."""

from typing import Any

import httpx

from sexton import Sexton

from .served import Served, served

USUAL = {
    "max_schedules": 100_000,
    "max_live_jobs": 1_000_000,
    "max_payload_bytes": 262_144,
    "min_interval": 1.0,
    "requests_per_second": 200.0,
}


async def test_a_tenant_is_made_with_the_usual_quotas_and_changed(api: Served) -> None:
    async with api.caller("admin") as admin:
        answer = await admin.put("/v1/tenants/acme", json={})
        made = answer.json()
        assert answer.status_code == 201
        assert {name: made[name] for name in USUAL} == USUAL
        assert (made["name"], made["over_quota"]) == ("acme", False)
        wanted = {"max_schedules": 7, "min_interval": "1m30s", "requests_per_second": None}
        answer = await admin.put("/v1/tenants/acme", json=wanted)
        changed = USUAL | {"max_schedules": 7, "min_interval": 90.0, "requests_per_second": None}
        assert answer.status_code == 200
        assert {name: answer.json()[name] for name in USUAL} == changed
        assert (await admin.get("/v1/tenants/acme")).json() == answer.json()
        again = await admin.put("/v1/tenants/acme", json=wanted)
        assert again.json() == answer.json()
        log = (await admin.get("/v1/audit-log", params={"subject": "acme"})).json()["items"]
        assert [each["action"] for each in log] == ["tenant.put"] * 2, "the third changed nothing"
        assert (log[0]["before"]["max_schedules"], log[0]["after"]["max_schedules"]) == (100_000, 7)
        assert log[1]["before"] is None


async def test_the_usual_quotas_are_those_of_the_schema(api: Served) -> None:
    await api.tenant("by-sql")
    async with api.caller("admin") as admin:
        by_sql = (await admin.get("/v1/tenants/by-sql")).json()
        by_api = (await admin.put("/v1/tenants/by-api", json={})).json()
    for each in (by_sql, by_api):
        del each["name"], each["created_at"]
    assert by_sql == by_api


async def test_tenants_are_listed_page_by_page_and_each_sees_itself(api: Served) -> None:
    names = [f"t{n}" for n in range(5)]
    async with api.caller("admin") as admin:
        for name in names:
            await admin.put(f"/v1/tenants/{name}", json={})
        found: list[str] = []
        query: dict[str, Any] = {"limit": 2}
        while "cursor" not in query or query["cursor"] is not None:
            page = (await admin.get("/v1/tenants", params=query)).json()
            found += [each["name"] for each in page["items"]]
            query["cursor"] = page["next"]
        assert found == ["default", *names]
    async with api.caller("viewer", "t3") as viewer:
        own = (await viewer.get("/v1/tenants")).json()
        assert [each["name"] for each in own["items"]] == ["t3"]


async def test_a_name_that_would_not_stand_in_a_url_is_refused(api: Served) -> None:
    async with api.client() as http:
        for name in ("Acme", "a b", "-a", "a-", "ä", "a" * 64, "a%2Fb", "%00", "a%ff"):
            answer = await http.put(f"/v1/tenants/{name}", json={})
            assert answer.status_code in (400, 422), answer.text
            assert answer.headers["content-type"] == "application/problem+json"


WRONG: list[tuple[Any, str | None]] = [
    ({"max_schedules": -1}, "max_schedules"),
    ({"max_schedules": 2**31}, "max_schedules"),
    ({"max_schedules": 1.5}, "max_schedules"),
    ({"max_schedules": "7"}, "max_schedules"),
    ({"max_schedules": True}, "max_schedules"),
    ({"max_live_jobs": 10**30}, "max_live_jobs"),
    ({"max_payload_bytes": 200_000_001}, "max_payload_bytes"),
    ({"min_interval": -1}, "min_interval"),
    ({"min_interval": "soon"}, "min_interval"),
    ({"min_interval": "1e400"}, "min_interval"),
    ({"min_interval": True}, "min_interval"),
    ({"requests_per_second": 0}, "requests_per_second"),
    ({"requests_per_second": "many"}, "requests_per_second"),
    ({"max_jobs": 7}, "max_jobs"),
    ([], None),
    (None, None),
    ("acme", None),
]


async def test_a_quota_that_cannot_be_is_refused_by_name(api: Served) -> None:
    async with api.client() as http:
        for body, field in WRONG:
            answer = await http.put("/v1/tenants/acme", json=body)
            assert answer.status_code == 422, (body, answer.text)
            if field is not None:
                assert answer.json()["field"].partition(".")[0] == field
        assert (await http.get("/v1/tenants/acme")).status_code == 404


async def test_a_tenant_that_has_something_stays(api: Served) -> None:
    id = await api.tenant("acme")
    other = Sexton(api.database_url)
    async with api.caller("admin") as admin, other:
        await other.schedules.add("nightly", "report", every="1h", tenant="acme")
        await removal_refused(admin, "schedules")
        await other.schedules.cancel("nightly", tenant="acme")
        await other.enqueue("report")
        await api.rows("update sexton.job set tenant_id = $1", id)
        await removal_refused(admin, "jobs")
        await api.rows("delete from sexton.job")
        async with api.caller("viewer", "acme") as viewer:
            assert (await viewer.get("/v1/tenants")).status_code == 200
            assert (await admin.delete("/v1/tenants/acme")).status_code == 204
            assert (await viewer.get("/v1/tenants")).status_code == 401
        assert (await admin.get("/v1/tenants/acme")).status_code == 404
        assert (await admin.delete("/v1/tenants/acme")).status_code == 404
        log = (await admin.get("/v1/audit-log", params={"action": "tenant.remove"})).json()
        assert [each["subject"] for each in log["items"]] == ["acme"]
        made = await admin.put("/v1/tenants/acme", json={})
        assert made.status_code == 201
    [again] = await api.rows("select id from sexton.tenant where name = 'acme'")
    assert again["id"] > id, "what is left in the history is not the new one's"


async def removal_refused(admin: httpx.AsyncClient, because: str) -> None:
    answer = await admin.delete("/v1/tenants/acme")
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/conflict")
    assert because in answer.json()["detail"]


async def test_the_first_tenant_stays(api: Served) -> None:
    async with api.client() as http:
        answer = await http.delete("/v1/tenants/default")
        assert (answer.status_code, answer.json()["type"]) == (409, "/problems/conflict")


async def test_a_changed_quota_counts_at_once_in_every_process(api: Served) -> None:
    with served(Sexton(api.database_url, patience=5)) as elsewhere:
        async with (
            api.caller("admin") as admin,
            api.caller("viewer", "acme") as viewer,
            elsewhere.client(viewer.headers["authorization"].removeprefix("Bearer ")) as there,
        ):
            for http in (viewer, there):
                assert "q=200" in (await http.get("/v1/tenants")).headers["ratelimit-policy"]
            await admin.put("/v1/tenants/acme", json={"requests_per_second": 50})
            assert "q=50" in (await viewer.get("/v1/tenants")).headers["ratelimit-policy"]
            while "q=50" not in (await there.get("/v1/tenants")).headers["ratelimit-policy"]:
                pass
