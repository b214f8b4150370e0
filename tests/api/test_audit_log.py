"""The audit log: who changed what, from where; written with the change, never changed itself."""

from typing import Any

from sexton import Sexton
from sexton.api.errands import forget_log
from sexton.api.origin import address_of, networks

from .served import Served, served

KEY = {"name": "k", "role": "viewer"}


async def log_of(http: Any, **query: Any) -> list[dict[str, Any]]:
    answer = await http.get("/v1/audit-log", params=query)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def test_a_change_is_logged_with_who_from_where_before_and_after(api: Served) -> None:
    async with api.caller("admin", "acme") as admin:
        made = (
            await admin.post("/v1/keys", json=KEY, headers={"x-request-id": "the-request"})
        ).json()
        await admin.delete(f"/v1/keys/{made['id']}")
        revoked, created = await log_of(admin)
    assert created["action"] == "key.create"
    assert created["subject"] == f"k ({made['id']})"
    assert created["actor"].startswith("acme-admin (sxn_")
    assert created["key_id"] is not None
    assert created["address"] == "127.0.0.1"
    assert created["request_id"] == "the-request"
    assert created["before"] is None
    del made["key"]
    assert created["after"] == made
    assert revoked["before"] == made
    assert revoked["after"]["state"] == "revoked"
    assert revoked["id"] > created["id"]


async def test_what_changed_nothing_is_not_logged(api: Served) -> None:
    async with api.caller("admin") as admin:
        await admin.post("/v1/keys", json=KEY | {"role": "root"})
        await admin.delete("/v1/keys/999")
        await admin.get("/v1/keys")
        assert await log_of(admin) == []
        # The line and the change are one transaction.
        await api.rows("alter table sexton.audit_log add check (subject not like 'k (%')")
        assert (await admin.post("/v1/keys", json=KEY)).status_code == 422
        assert await api.rows("select from sexton.api_key where name = 'k'") == []


async def test_without_keys_the_log_says_local(api: Served) -> None:
    async with api.client() as http:
        await http.put("/v1/tenants/acme", json={})
        [line] = await log_of(http)
    assert (line["actor"], line["key_id"]) == ("local", None)


async def test_a_tenant_sees_its_own_log_only(api: Served) -> None:
    async with api.caller("admin", "acme") as acme, api.caller("admin", "other") as other:
        await acme.post("/v1/keys", json=KEY)
        assert len(await log_of(acme)) == 1
        assert await log_of(other) == []


async def test_the_log_is_filtered_and_read_page_by_page(api: Served) -> None:
    async with api.caller("admin") as admin:
        for n in range(9):
            await admin.put(f"/v1/tenants/t{n % 3}", json={"max_schedules": n})
        await admin.post("/v1/keys", json=KEY, headers={"x-request-id": "r"})
        lines = await log_of(admin)
        assert len(lines) == 10
        assert [each["id"] for each in lines] == sorted((e["id"] for e in lines), reverse=True)
        assert len(await log_of(admin, subject="t1")) == 3
        assert len(await log_of(admin, action="tenant.put")) == 9
        assert len(await log_of(admin, action="tenant.put", subject="t2")) == 3
        assert len(await log_of(admin, actor=lines[0]["actor"])) == 10
        assert await log_of(admin, actor="nobody") == []
        assert [each["action"] for each in await log_of(admin, request_id="r")] == ["key.create"]
        middle = lines[5]["at"]
        later, earlier = await log_of(admin, **{"from": middle}), await log_of(admin, to=middle)
        assert [each["id"] for each in later + earlier] == [each["id"] for each in lines]
        assert len(later) == 6
        found: list[int] = []
        query: dict[str, Any] = {"limit": 4}
        while True:
            page = (await admin.get("/v1/audit-log", params=query)).json()
            found += [each["id"] for each in page["items"]]
            if (following := page["next"]) is None:
                break
            query["cursor"] = following
        assert found == [each["id"] for each in lines]


async def test_a_page_looks_at_so_many_lines_and_no_more(api: Served) -> None:
    await api.rows(
        "insert into sexton.audit_log (tenant_id, actor, address, request_id, action, subject) "
        "select 1, 'a', '-', '-', 'x', case when n = 1 then 'first' else 'other' end "
        "from generate_series(1, 5000) as n"
    )
    async with api.client() as http:
        pages, found, following = 0, 0, None
        while True:
            query = {"request_id": "none"} | ({"cursor": following} if following else {})
            page = (await http.get("/v1/audit-log", params=query)).json()
            pages, found, following = pages + 1, found + len(page["items"]), page["next"]
            if following is None:
                break
        assert (pages, found) == (3, 0), "short pages that say where to go on"
        # By subject it goes by index: the oldest of them is found at once.
        assert len(await log_of(http, subject="first")) == 1


async def test_a_header_says_where_a_request_came_from_only_if_its_proxy_is_trusted(
    app: Sexton,
) -> None:
    url = app.settings.database_url
    forwarded = {"x-forwarded-for": "203.0.113.9, 198.51.100.7"}
    for trusted, expected in (
        (None, "127.0.0.1"),
        ("127.0.0.0/8", "198.51.100.7"),
        ("127.0.0.1, 198.51.100.0/24, ::1", "203.0.113.9"),
    ):
        with served(Sexton(url, trusted_proxies=trusted)) as api:
            async with api.caller("admin") as admin:
                await admin.post("/v1/keys", json=KEY, headers=forwarded)
                assert (await log_of(admin))[0]["address"] == expected


def test_a_forged_chain_of_proxies_is_not_believed_beyond_what_is_an_address() -> None:
    trusted = networks("10.0.0.0/8")

    def address(header: str, client: str = "10.0.0.1") -> str:
        headers = [(b"x-forwarded-for", header.encode())]
        return address_of({"client": (client, 1), "headers": headers}, trusted)

    assert address("1.2.3.4") == "1.2.3.4"
    assert address("evil, 1.2.3.4") == "1.2.3.4"
    assert address("1.2.3.4, evil") == "10.0.0.1"
    assert address("evil") == "10.0.0.1"
    assert address("") == "10.0.0.1"
    assert address("10.0.0.2, 10.0.0.3") == "10.0.0.2"
    assert address("9.9.9.9", client="1.2.3.4") == "1.2.3.4"
    assert address("2001:db8::1") == "2001:db8::1"


async def test_the_log_is_kept_for_400_days(api: Served) -> None:
    async with api.caller("admin") as admin, api.app as app:
        for n in range(3):
            await admin.put(f"/v1/tenants/t{n}", json={})
        await api.rows(
            "update sexton.audit_log set at = at - case subject when 't0' then interval "
            "'401 days' when 't1' then interval '399 days' else interval '0' end"
        )
        assert await forget_log((await app.client()).store) == 1
        assert [each["subject"] for each in await log_of(admin)] == ["t2", "t1"]
