"""Keys: what they look like, what they open, and that they stop doing so."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import httpx
import pytest

from sexton import Sexton
from sexton.api import keys

from ..support.postgres import Postgres
from .process import until
from .served import Served, served


async def refused(http: httpx.AsyncClient) -> bool:
    return (await http.get("/v1/tenants")).status_code == 401


# ── what they look like ─────────────────────────────────────────────────────


def test_a_key_is_160_random_bits_with_a_checksum() -> None:
    made = {keys.fresh() for _ in range(100)}
    assert len(made) == 100
    for key in made:
        assert re.fullmatch(r"sxn_[a-z2-7]{38}", key)
        assert keys.is_whole(key)


def test_a_key_with_one_wrong_character_is_none() -> None:
    key = keys.fresh()
    for place in range(len(key)):
        other = "a" if key[place] != "a" else "b"
        assert not keys.is_whole(key[:place] + other + key[place + 1 :])
    for wrong in (
        "",
        "sxn_",
        key[:-1],
        key + "a",
        key.upper(),
        key.replace("sxn", "ghp"),
        "é" * 42,
    ):
        assert not keys.is_whole(wrong)


def test_junk_is_refused_without_asking_the_database(own_server: Postgres) -> None:
    own_server.create_database("junk")
    app = Sexton(own_server.url("junk"), patience=2)
    with served(app) as api:
        key = keys.fresh()
        own_server.stop()
        with httpx.Client(base_url=api.url, trust_env=False, timeout=30) as http:
            for junk in (
                "Bearer sxn_junk",
                f"Bearer {key[:-1]}{'a' if key[-1] != 'a' else 'b'}",
                f"Basic {key}",
                key,
                "Bearer",
                "Bearer \xff".encode("latin-1"),
            ):
                headers: Any = {"authorization": junk}
                answer = http.get("/v1/tenants", headers=headers)
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"] == "Bearer"
            whole = http.get("/v1/tenants", headers={"authorization": f"Bearer {key}"})
            assert whole.status_code == 503
            assert whole.headers["retry-after"] == "1"
            assert "postgres" not in whole.text


# ── making and looking at them ──────────────────────────────────────────────


async def test_a_key_is_shown_once_and_kept_as_a_hash(api: Served) -> None:
    async with api.caller("admin") as admin:
        answer = await admin.post("/v1/keys", json={"name": "deploy", "role": "operator"})
        made = answer.json()
        assert answer.status_code == 201
        assert keys.is_whole(made["key"])
        assert made["key"].startswith(made["shown"])
        assert made["created_by"].startswith("default-admin (sxn_")
        async with api.client(made["key"]) as http:
            assert (await http.get("/v1/tenants")).status_code == 200
        listed = await admin.get("/v1/keys")
        read = await admin.get(f"/v1/keys/{made['id']}")
        for text in (listed.text, read.text):
            assert made["shown"] in text
            assert made["key"] not in text
    for table in ("api_key", "audit_log", "request"):
        for row in await api.rows(f"select t::text as row from sexton.{table} t"):
            assert made["key"] not in row["row"]
    [kept] = await api.rows("select hash from sexton.api_key where id = $1", made["id"])
    assert kept["hash"] == keys.hashed(made["key"])


async def test_keys_are_listed_page_by_page(api: Served) -> None:
    async with api.caller("admin", "acme") as admin:
        for n in range(7):
            await admin.post("/v1/keys", json={"name": f"k{n}", "role": "viewer"})
        found: list[str] = []
        query: dict[str, Any] = {"limit": 3}
        while True:
            page = (await admin.get("/v1/keys", params=query)).json()
            assert len(page["items"]) <= 3
            found += [each["name"] for each in page["items"]]
            if page["next"] is None:
                break
            query["cursor"] = page["next"]
    assert found == ["acme-admin", *(f"k{n}" for n in range(7))]


async def test_a_key_that_was_used_says_when(api: Served) -> None:
    async with api.caller("viewer", "acme") as viewer:
        await viewer.get("/v1/tenants")
    api.stop()
    rows = await api.rows("select last_used_at > now() - interval '1 minute' as lately "
                          "from sexton.api_key")  # fmt: skip
    assert [row["lately"] for row in rows] == [True]


# ── ending them ─────────────────────────────────────────────────────────────


async def test_an_expired_key_opens_nothing(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexton.api.access.BELIEVED_FOR", 60.0)
    past = datetime.now(UTC) - timedelta(seconds=1)
    async with api.client(await api.key("admin", expires_at=past)) as http:
        assert await refused(http)
    async with api.caller("admin") as admin:
        made = await admin.post(
            "/v1/keys", json={"name": "brief", "role": "viewer", "expires_in": "3s"}
        )
        async with api.client(made.json()["key"]) as http:
            assert not await refused(http)
            # What is believed of a key is not believed beyond its end.
            await until(lambda: refused(http))
        state = (await admin.get(f"/v1/keys/{made.json()['id']}")).json()["state"]
        assert state == "expired"


async def test_rotation_leaves_both_keys_open_for_a_while(api: Served) -> None:
    async with api.caller("admin") as admin:
        old = (await admin.post("/v1/keys", json={"name": "k", "role": "operator"})).json()
        answer = await admin.post(f"/v1/keys/{old['id']}/rotate", json={"overlap": "1h"})
        new = answer.json()
        assert answer.status_code == 201
        assert (new["name"], new["role"], new["expires_at"]) == ("k", "operator", None)
        for each in (old, new):
            async with api.client(each["key"]) as http:
                assert not await refused(http)
        ends = (await admin.get(f"/v1/keys/{old['id']}")).json()["expires_at"]
        left = datetime.fromisoformat(ends) - datetime.now(UTC)
        assert timedelta(minutes=59) < left <= timedelta(hours=1)

        at_once = await admin.post(f"/v1/keys/{new['id']}/rotate", json={"overlap": 0})
        async with api.client(new["key"]) as http:
            assert await refused(http)
        async with api.client(at_once.json()["key"]) as http:
            assert not await refused(http)
        again = await admin.post(f"/v1/keys/{new['id']}/rotate")
        assert (again.status_code, again.json()["type"]) == (409, "/problems/conflict")


async def test_a_rotated_key_lives_as_long_as_the_old_one_was_made_for(api: Served) -> None:
    async with api.caller("admin") as admin:
        body = {"name": "k", "role": "viewer", "expires_in": "30d"}
        old = (await admin.post("/v1/keys", json=body)).json()
        new = (await admin.post(f"/v1/keys/{old['id']}/rotate")).json()
    lives = datetime.fromisoformat(new["expires_at"]) - datetime.fromisoformat(new["created_at"])
    assert lives == timedelta(days=30)


async def test_a_key_that_was_rotated_is_not_rotated_again_but_the_one_in_its_place_is(
    api: Served,
) -> None:
    """Its time is that of the overlap by now: from a key for ever one for an hour would come."""
    async with api.caller("admin") as admin:
        old = (await admin.post("/v1/keys", json={"name": "k", "role": "operator"})).json()
        ways = f"/v1/keys/{old['id']}/rotate", {"overlap": "1h"}
        new = (await admin.post(ways[0], json=ways[1])).json()
        again = await admin.post(ways[0], json=ways[1])
        assert again.status_code == 409
        assert f"rotate key {new['id']}, which took its place" in again.json()["detail"]
        shown = (await admin.get(f"/v1/keys/{old['id']}")).json()
        assert (shown["replaced_by"], new["replaced_by"]) == (new["id"], None)
        third = await admin.post(f"/v1/keys/{new['id']}/rotate")
        assert (third.status_code, third.json()["expires_at"]) == (201, None)


@pytest.mark.parametrize("before", ["in their overlap", "expired", "revoked"])
async def test_of_keys_that_were_rotated_one_after_another_the_last_is_named(
    api: Served, before: str
) -> None:
    async with api.caller("admin") as admin:
        chain = [(await admin.post("/v1/keys", json={"name": "k", "role": "operator"})).json()]
        overlap = {"overlap": 0 if before == "expired" else "1h"}
        for _ in range(3):
            way = f"/v1/keys/{chain[-1]['id']}/rotate"
            chain.append((await admin.post(way, json=overlap)).json())
        *gone, last = (each["id"] for each in chain)
        if before == "revoked":
            for id in gone:
                await admin.delete(f"/v1/keys/{id}")
        for id in gone:
            again = await admin.post(f"/v1/keys/{id}/rotate")
            assert again.status_code == 409
            assert f"rotate key {last}, which took its place" in again.json()["detail"]
        await admin.delete(f"/v1/keys/{last}")
        for id in gone:
            again = await admin.post(f"/v1/keys/{id}/rotate")
            assert f"key {last} in its place is gone: make a new one" in again.json()["detail"]


async def test_a_revoked_key_opens_nothing_at_once_where_it_was_revoked(api: Served) -> None:
    async with api.caller("admin") as admin:
        made = (await admin.post("/v1/keys", json={"name": "k", "role": "viewer"})).json()
        async with api.client(made["key"]) as http:
            assert not await refused(http)
            assert (await admin.delete(f"/v1/keys/{made['id']}")).status_code == 204
            assert await refused(http)
        assert (await admin.delete(f"/v1/keys/{made['id']}")).status_code == 204
        assert (await admin.get(f"/v1/keys/{made['id']}")).json()["state"] == "revoked"


@pytest.mark.parametrize("deaf", [False, True], ids=["notified", "without notifications"])
async def test_a_key_revoked_elsewhere_opens_nothing_within_5_s(api: Served, deaf: bool) -> None:
    other = Sexton(api.database_url, patience=5, pooler=deaf)
    with served(other) as elsewhere:
        async with (
            api.caller("admin") as admin,
            elsewhere.client(await api.key("viewer", "default")) as http,
        ):
            assert not await refused(http)
            [key] = await api.rows("select id from sexton.api_key where role = 'viewer'")
            assert (await admin.delete(f"/v1/keys/{key['id']}")).status_code == 204
            took = await until(lambda: refused(http))
            assert took < (5.0 if deaf else 1.0)


async def revoked(admin: httpx.AsyncClient, api: Served, role: str) -> None:
    [key] = await api.rows("select id from sexton.api_key where role = $1", role)
    assert (await admin.delete(f"/v1/keys/{key['id']}")).status_code == 204


async def test_a_key_that_is_revoked_during_a_long_poll_is_given_nothing_any_more(
    api: Served,
) -> None:
    async with api.caller("admin") as admin, api.caller("worker") as http:
        joined = await http.post("/v1/workers", json={"name": "w", "queues": ["q"]})
        path = f"/v1/workers/{joined.json()['id']}/claim"
        polling = asyncio.create_task(http.post(path, json={"wait": 30}))
        await until(lambda: api.rows("select from sexton.worker where idle <> '{}'"))
        await revoked(admin, api, "worker")
        made = await admin.post("/v1/jobs", json={"task": "t", "queue": "q"})
        answer = await asyncio.wait_for(polling, 10)
        assert answer.status_code == 401, answer.text
        job = (await admin.get(f"/v1/jobs/{made.json()['id']}")).json()
        assert (job["state"], job["attempt"]) == ("ready", 0)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/v1/jobs/bulk", {"task": "t"}),
        ("/v1/schedules/bulk", {"name": "s", "every": 60, "target": {"task": "t"}}),
    ],
)
async def test_a_key_that_is_revoked_during_a_bulk_adds_nothing_any_more(
    api: Served, path: str, line: dict[str, Any]
) -> None:
    told: list[dict[str, Any]] = []
    more = asyncio.Event()

    async def lines() -> AsyncIterator[bytes]:
        yield json.dumps(line).encode() + b"\n"
        await more.wait()
        yield json.dumps(line | ({"name": "s2"} if "name" in line else {})).encode() + b"\n"

    key = await api.key("operator")
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/x-ndjson"}
    async with (
        api.caller("admin") as admin,
        aiohttp.ClientSession(headers=headers) as http,
        http.post(api.url + path, data=lines()) as answer,
    ):
        async for text in answer.content:
            told.append(json.loads(text))
            if not more.is_set():
                await revoked(admin, api, "operator")
                more.set()
    assert [each["status"] for each in told] == ["created", "error"]
    assert told[1]["error"]["status"] == 401


# ── whose they are ──────────────────────────────────────────────────────────


async def test_an_admin_finds_only_keys_of_its_own_tenant(api: Served) -> None:
    async with api.caller("admin", "acme") as acme, api.caller("admin", "other") as other:
        made = (await acme.post("/v1/keys", json={"name": "k", "role": "viewer"})).json()
        path = f"/v1/keys/{made['id']}"
        assert (await other.get(path)).status_code == 404
        assert (await other.delete(path)).status_code == 404
        assert (await other.post(f"{path}/rotate")).status_code == 404
        for tenant in ("acme", "default", "nobody"):
            answer = await other.get("/v1/keys", params={"tenant": tenant})
            assert answer.status_code == 404, "not even whether there is such a tenant"
        assert [each["tenant"] for each in (await other.get("/v1/keys")).json()["items"]] == [
            "other"
        ]
        async with api.client(made["key"]) as http:
            assert not await refused(http)


async def test_the_operator_makes_keys_of_any_tenant(api: Served) -> None:
    await api.tenant("acme")
    async with api.caller("admin") as admin:
        answer = await admin.post(
            "/v1/keys", params={"tenant": "acme"}, json={"name": "first", "role": "admin"}
        )
        made = answer.json()
        assert (answer.status_code, made["tenant"]) == (201, "acme")
        nobody = await admin.post(
            "/v1/keys", params={"tenant": "nobody"}, json={"name": "k", "role": "admin"}
        )
        assert nobody.status_code == 404
        assert (await admin.get(f"/v1/keys/{made['id']}")).status_code == 404
        async with api.client(made["key"]) as http:
            log = (await http.get("/v1/audit-log")).json()["items"]
            # The tenant sees who has made it.
            assert [(each["action"], each["actor"][:13]) for each in log] == [
                ("key.create", "default-admin")
            ]
        revoked = await admin.delete(f"/v1/keys/{made['id']}", params={"tenant": "acme"})
        assert revoked.status_code == 204
