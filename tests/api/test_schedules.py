"""Schedules over HTTP: made, read, changed, listed and ended."""

import asyncio
import json
from typing import Any
from urllib.parse import quote

import asyncpg
import httpx
import pytest

from sexton import sql

from .served import Served

RING = {"task": "ring"}


def daily(**more: Any) -> dict[str, Any]:
    return {"cron": "0 6 * * *", "target": RING, **more}


async def put(http: httpx.AsyncClient, name: str, **said: Any) -> dict[str, Any]:
    answer = await http.put(f"/v1/schedules/{quote(name, safe='')}", json=daily(**said))
    assert answer.status_code in (200, 201), answer.text
    made: dict[str, Any] = answer.json()
    return made


async def names(http: httpx.AsyncClient, **filters: Any) -> list[str]:
    """Every name of a list, page by page."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        more = {} if cursor is None else {"cursor": cursor}
        answer = await http.get("/v1/schedules", params=filters | more)
        assert answer.status_code == 200, answer.text
        found += [each["name"] for each in answer.json()["items"]]
        cursor = answer.json()["next"]
        if cursor is None:
            return found


async def test_what_was_made_is_read_back_in_seconds_and_in_utc(api: Served) -> None:
    said = {
        "name": "report",
        "every": "1h30m",
        "starts_at": "2030-01-01T00:00:00+01:00",
        "timezone": "Europe/Paris",
        "ends_at": "2031-01-01T00:00",
        "grace": "5m",
        "overlap": "queue_all",
        "max_queued": 3,
        "jitter": 2,
        "expires_in": "1d",
        "tags": ["a", "b"],
        "priority": 2,
        "queue": "night",
        "max_fires": 7,
        "target": RING,
        "payload": {"n": 1, "deep": {"x": [1.5, None]}},
    }
    async with api.caller("operator", "acme") as http:
        made = await http.post("/v1/schedules", json=said)
        read = await http.get("/v1/schedules/report")
    assert made.status_code == 201
    assert made.headers["location"] == "/v1/schedules/report"
    assert made.headers["etag"] == read.headers["etag"] == '"1"'
    assert made.json() == read.json(), "what is told without looking is what is there"
    expected = said | {
        "every": 5400.0,
        "starts_at": "2029-12-31T23:00:00Z",
        "ends_at": "2030-12-31T23:00:00Z",
        "grace": 300.0,
        "jitter": 2.0,
        "expires_in": 86400.0,
        "misfire": "latest",
        "version": 1,
        "state": "active",
        "last_fire_at": None,
        "declared_by": None,
    }
    assert {name: read.json()[name] for name in expected} == expected
    assert read.json()["next_fire_at"].startswith("2029-12-31T23:00:0")


async def test_a_name_that_is_taken_is_refused_and_one_that_was_cancelled_begins_again(
    api: Served,
) -> None:
    async with api.caller("operator", "acme") as http:
        first = await http.post("/v1/schedules", json=daily(name="x"))
        again = await http.post("/v1/schedules", json=daily(name="x"))
        assert again.status_code == 409
        assert again.json()["type"] == "/problems/exists"
        assert again.json()["field"] == "name"
        assert (await http.delete("/v1/schedules/x")).status_code == 204
        assert (await http.delete("/v1/schedules/x")).status_code == 204, "as often as you like"
        ended = (await http.get("/v1/schedules/x")).json()
        assert (ended["state"], ended["next_fire_at"]) == ("cancelled", None)
        assert (await http.patch("/v1/schedules/x", json={"priority": 1})).status_code == 409
        third = await http.post("/v1/schedules", json=daily(name="x"))
        assert third.status_code == 201
        assert third.json()["id"] == first.json()["id"]
        assert third.json()["version"] == 3
        assert (await http.delete("/v1/schedules/nobody")).status_code == 404


async def test_a_put_says_exactly_this_and_makes_no_version_of_the_same(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        made = await http.put("/v1/schedules/x", json=daily(tags=["a"]))
        assert made.status_code == 201
        same = await http.put("/v1/schedules/x", json=daily(tags=["a"]))
        assert (same.status_code, same.json()["version"]) == (200, 1)
        other = await http.put("/v1/schedules/x", json=daily(grace="1m"))
        assert (other.status_code, other.json()["version"]) == (200, 2)
        assert other.headers["etag"] == '"2"'
        assert other.json()["tags"] == [], "what is not said is not so"
        back = other.json()
        sent = {
            name: back[name]
            for name in ("cron", "timezone", "misfire", "grace", "overlap", "tags", "target")
        }
        assert (await http.put("/v1/schedules/x", json=sent)).json()["version"] == 2


async def test_a_patch_changes_what_it_names_and_null_takes_it_back(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        await put(http, "x", payload={"a": 1, "b": {"c": 2, "d": 3}}, tags=["t"], priority=3)

        async def patch(**said: Any) -> dict[str, Any]:
            answer = await http.patch(
                "/v1/schedules/x",
                json=said,
                headers={"content-type": "application/merge-patch+json"},
            )
            assert answer.status_code == 200, answer.text
            found: dict[str, Any] = answer.json()
            return found

        now = await patch(priority=None, payload={"b": {"c": None, "e": 4}, "f": [5]})
        assert "priority" not in now
        assert now["payload"] == {"a": 1, "b": {"d": 3, "e": 4}, "f": [5]}
        assert (now["tags"], now["version"]) == (["t"], 2)
        now = await patch(every="90s", target={"task": "toll"}, payload=None)
        assert "cron" not in now, "a rule replaces the one before"
        assert (now["every"], now["target"], now["payload"]) == (90.0, {"task": "toll"}, {})
        assert (await patch())["version"] == 3, "nothing changes nothing"
        refused = await http.patch("/v1/schedules/x", json={"every": None})
        assert refused.status_code == 422
        refused = await http.patch("/v1/schedules/x", json={"target": None})
        assert (refused.status_code, refused.json()["field"]) == (422, "target")


async def test_a_stale_if_match_changes_nothing(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        await put(http, "x")
        one, two = {"if-match": '"1"'}, {"if-match": 'W/"9", "2"'}
        assert (
            await http.patch("/v1/schedules/x", json={"priority": 1}, headers=one)
        ).status_code == 200
        for answer in (
            await http.patch("/v1/schedules/x", json={"priority": 2}, headers=one),
            await http.put("/v1/schedules/x", json=daily(), headers=one),
            await http.delete("/v1/schedules/x", headers=one),
            await http.post("/v1/schedules/x/pause", headers=one),
            await http.put("/v1/schedules/new", json=daily(), headers={"if-match": "*"}),
            await http.put("/v1/schedules/x", json=daily(), headers={"if-none-match": "*"}),
        ):
            assert answer.status_code == 412, answer.text
            assert answer.json()["type"] == "/problems/precondition_failed"
        assert (await http.get("/v1/schedules/x")).json()["priority"] == 1
        assert (await http.get("/v1/schedules/new")).status_code == 404
        assert (await http.delete("/v1/schedules/x", headers=two)).status_code == 204


async def test_of_changes_with_the_same_if_match_one_wins(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        await put(http, "x")

        async def change(n: int) -> int:
            answer = await http.patch(
                "/v1/schedules/x", json={"payload": {"n": n}}, headers={"if-match": '"1"'}
            )
            return answer.status_code

        codes = await asyncio.gather(*(change(n) for n in range(8)))
        assert sorted(codes) == [200] + [412] * 7
        assert (await http.get("/v1/schedules/x")).json()["version"] == 2


async def test_of_many_puts_of_a_new_name_one_makes_it(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        answers = await asyncio.gather(
            *(
                http.put("/v1/schedules/x", json={"every": f"{n}s", "target": RING})
                for n in range(10, 18)
            )
        )
        assert sorted(each.status_code for each in answers) == [200] * 7 + [201]
        [made] = [each for each in answers if each.status_code == 201]
        versions = (await http.get("/v1/schedules/x/versions")).json()["items"]
        assert sorted(each.json()["version"] for each in answers) == [*range(1, 9)]
        assert [each["version"] for each in versions] == [*range(8, 0, -1)]
        assert versions[-1]["said"]["every"] == made.json()["every"]
        posts = await asyncio.gather(
            *(http.post("/v1/schedules", json=daily(name="y")) for _ in range(8))
        )
        assert sorted(each.status_code for each in posts) == [201] + [409] * 7


NAMES = [
    "a/b",
    "a/pause",
    "x/fires",
    "a%2Fb",
    "ä ö/ü?#&=+;",
    "日本語",
    "a.b..c",
    "...",
    "%",
    " ",
    "bulk",
    "preview",
    "new\nline",
    "👩‍👩‍👧‍👦",
    "\\",
    "x" * 200,
]


async def test_a_name_of_any_characters_is_one_name(api: Served) -> None:
    async with api.client() as http:
        for name in NAMES:
            path = f"/v1/schedules/{quote(name, safe='')}"
            made = await http.put(path, json=daily())
            assert made.status_code == 201, made.text
            assert made.json()["name"] == name
            assert made.headers["location"] == path
            assert (await http.get(made.headers["location"])).json()["name"] == name
            assert (await http.post(path + "/pause")).json()["state"] == "paused"
            assert (await http.get(path + "/versions")).json()["items"][0]["state"] == "paused"
            assert await names(http) == [name]
            assert (await http.delete(path)).status_code == 204


NO_NAMES = [
    ("%00", 400),
    ("a%00b", 400),
    ("%ff%fe", 400),
    ("%ed%a0%80", 400),
    ("%2E", 422),
    ("%2e%2e", 422),
    ("x" * 201, 422),
    ("%C3%A4" * 101, 422),
    ("", 404),
]


async def test_what_cannot_be_a_name_is_refused(api: Served) -> None:
    async with api.client() as http:
        for path, status in NO_NAMES:
            answer = await http.put(f"/v1/schedules/{path}", json=daily())
            assert answer.status_code == status, (path, answer.text)
            assert answer.headers["content-type"] == "application/problem+json"
        assert await names(http, state="all") == []
        sent = await http.post("/v1/schedules", json=daily(name=".."))
        assert (sent.status_code, sent.json()["field"]) == (422, "name")


async def test_a_list_is_read_in_pages_and_through_filters(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        for n in range(25):
            await put(
                http,
                f"s{n:02}",
                tags=["even"] if n % 2 == 0 else ["odd", "x"],
                target={"task": "ring" if n < 20 else "toll"},
            )
        await http.post("/v1/schedules/s03/pause", json={"reason": "no"})
        await http.delete("/v1/schedules/s04")
        everything = [f"s{n:02}" for n in range(25)]
        there = [name for name in everything if name != "s04"]
        assert await names(http, limit=7) == there
        assert await names(http, limit=24) == there
        assert await names(http, limit=1) == there
        assert await names(http, state="all") == everything
        assert await names(http, state="paused") == ["s03"]
        assert await names(http, state="cancelled") == ["s04"]
        assert await names(http, tag="x", limit=3) == everything[1::2]
        assert await names(http, target="toll") == everything[20:]
        assert await names(http, target="http") == []
        assert await names(http, text="1", limit=2) == [n for n in there if "1" in n]
        assert await names(http, text="%") == [], "it is a text, not a pattern"
        assert await names(http, tag="odd", target="toll", text="3") == ["s23"]
        one = (await http.get("/v1/schedules", params={"limit": 1})).json()
        single = (await http.get("/v1/schedules/s00")).json()
        assert one["items"] == [single], "a list tells of each what a look at it does"


async def test_a_filter_that_fits_nothing_looks_at_so_many_and_goes_on_from_there(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sexton.api.pages.LOOKED_AT", 10)
    async with api.caller("operator", "acme") as http:
        for n in range(35):
            await put(http, f"s{n:02}", tags=["rare"] if n in (12, 33) else [])
        params: dict[str, Any] = {"tag": "rare", "limit": 5}
        seen = []
        while True:
            answer = (await http.get("/v1/schedules", params=params)).json()
            seen.append([each["name"] for each in answer["items"]])
            if answer["next"] is None:
                break
            params["cursor"] = answer["next"]
        assert seen == [[], ["s12"], [], ["s33"]]


NO_CURSORS = ["x", "", "é", "W10", "WzFd", "WyJcdTAwMDAiXQ", "WyJhIiwiYiJd", "A" * 1999, "===="]


async def test_a_cursor_that_no_page_had_is_refused(api: Served) -> None:
    async with api.client() as http:
        for cursor in NO_CURSORS:
            answer = await http.get("/v1/schedules", params={"cursor": cursor})
            assert (answer.status_code, answer.json()["field"]) == (422, "cursor"), cursor


async def test_another_tenants_schedule_is_not_there(api: Served) -> None:
    async with api.caller("admin", "acme") as ours, api.caller("admin", "other") as theirs:
        await put(ours, "x", payload={"secret": 1})
        path = "/v1/schedules/x"
        for answer in (
            await theirs.get(path),
            await theirs.patch(path, json={"priority": 1}),
            await theirs.delete(path),
            await theirs.post(path + "/pause"),
            await theirs.post(path + "/resume"),
            await theirs.post(path + "/trigger"),
            await theirs.post(
                path + "/backfill",
                json={"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"},
            ),
            await theirs.get(path + "/backfills"),
            await theirs.delete(path + "/backfills/1"),
            await theirs.get(path + "/preview"),
            await theirs.get(path + "/explain", params={"at": "2026-01-01T00:00:00Z"}),
            await theirs.get(path + "/fires"),
            await theirs.get(path + "/versions"),
            await theirs.post(path + "/plan", json={"priority": 1}),
        ):
            assert answer.status_code == 404, (answer.request.url, answer.text)
            assert "secret" not in answer.text
        assert await names(theirs, state="all") == []
        own = await theirs.put(path, json=daily())
        assert own.status_code == 201, "names are a tenant's own"
        assert (await ours.get(path)).json()["version"] == 1


async def test_every_change_is_in_the_audit_log_with_before_and_after(api: Served) -> None:
    async with api.caller("admin", "acme") as http:
        await put(http, "x")
        await http.patch("/v1/schedules/x", json={"priority": 1})
        await http.patch("/v1/schedules/x", json={"priority": 1})
        await http.post("/v1/schedules/x/pause", json={"reason": "tired"})
        await http.post("/v1/schedules/x/resume")
        await http.post("/v1/schedules/x/trigger", json={"payload": {"n": 1}})
        await http.delete("/v1/schedules/x", params={"reason": "enough"})
        log = (await http.get("/v1/audit-log")).json()["items"]
    assert [each["action"] for each in reversed(log)] == [
        "schedule.create",
        "schedule.update",
        "schedule.pause",
        "schedule.resume",
        "schedule.trigger",
        "schedule.cancel",
    ], "and what changed nothing is not"
    assert {each["subject"] for each in log} == {"x"}
    by = {each["action"]: each for each in log}
    changed = by["schedule.update"]
    assert ("priority" in changed["before"], changed["after"]["priority"]) == (False, 1)
    assert by["schedule.pause"]["after"]["reason"] == "tired"
    assert by["schedule.cancel"]["after"]["state"] == "cancelled"
    assert by["schedule.trigger"]["after"]["payload"] == {"n": 1}


async def test_quotas_are_kept(api: Served) -> None:
    async with api.caller(
        "operator", "acme", max_schedules=3, max_payload_bytes=100, max_live_jobs=1
    ) as http:
        answers = await asyncio.gather(
            *(http.post("/v1/schedules", json=daily(name=f"s{n}")) for n in range(6))
        )
        assert sorted(each.status_code for each in answers) == [201] * 3 + [403] * 3
        name = (await names(http))[0]
        big = await http.patch(f"/v1/schedules/{name}", json={"payload": {"a": "x" * 99}})
        assert (big.status_code, big.json()["field"]) == (422, "payload")
        often = await http.patch(f"/v1/schedules/{name}", json={"every": 0.5})
        assert (often.status_code, often.json()["type"]) == (422, "/problems/interval_too_short")
        assert (await http.post(f"/v1/schedules/{name}/trigger")).status_code == 202
        assert (await http.post(f"/v1/schedules/{name}/trigger")).status_code == 429


@pytest.mark.parametrize(
    ("role", "read", "change"),
    [("viewer", 200, 403), ("operator", 200, 200), ("admin", 200, 200), ("worker", 403, 403)],
)
async def test_roles_may_read_or_change(api: Served, role: str, read: int, change: int) -> None:
    async with api.caller("operator", "acme") as http:
        await put(http, "x")
    async with api.caller(role, "acme") as http:
        assert (await http.get("/v1/schedules/x")).status_code == read
        assert (await http.get("/v1/schedules")).status_code == read
        preview = await http.post("/v1/schedules/preview", json={"every": 5})
        assert preview.status_code == read
        answer = await http.patch("/v1/schedules/x", json={"priority": 1})
        assert answer.status_code == change
        assert (await http.post("/v1/schedules/x/pause")).status_code == change


async def test_a_schedule_may_deliver_to_an_endpoint(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        made = await http.put("/v1/endpoints/billing", json={"url": "https://example.com/hook"})
        assert made.status_code == 201, made.text
        named = {"http": {"endpoint": "billing"}}
        assert (await put(http, "a", target=named))["target"] == named
        written = await put(http, "b", target={"http": {"url": "https://example.com/other"}})
        assert written["target"]["http"]["url"] == "https://example.com/other"
        await put(http, "c")
        assert await names(http, target="billing") == ["a"]
        assert await names(http, target="http") == ["a", "b"]
        listed = (await http.get("/v1/schedules")).json()["items"]
        assert listed[0]["target"] == named
        moved = await http.patch("/v1/schedules/c", json={"target": named})
        assert (moved.status_code, moved.json()["target"]) == (200, named)
        same = await http.put("/v1/schedules/b", json=daily(target=written["target"]))
        assert same.json()["version"] == 1, "what was read back may be sent"
        versions = (await http.get("/v1/schedules/c/versions")).json()["items"]
        assert [each["target"] for each in versions] == [named, RING]
        plan = await http.post("/v1/schedules/c/plan", json={"target": RING})
        assert plan.json()["changes"] == [{"field": "target", "before": named, "after": RING}]
        answer = await http.post(
            "/v1/schedules/bulk",
            content=b'{"name":"d","every":60,"target":{"http":{"endpoint":"billing"}}}\n'
            b'{"name":"e","every":60,"target":{"http":{"endpoint":"nobody"}}}\n',
            headers={"content-type": "application/x-ndjson"},
        )
        told = [json.loads(each) for each in answer.text.splitlines()]
        assert [each["status"] for each in told] == ["created", "error"]
        assert told[1]["error"]["field"] == "target.http.endpoint"
        assert await names(http, target="billing") == ["a", "c", "d"]
        refused = await http.patch(
            "/v1/schedules/a", json={"target": {"http": {"url": "file:///"}}}
        )
        assert refused.status_code == 422
        assert refused.json()["field"].startswith("target.http")
        planned = await http.post(
            "/v1/schedules/a/plan", json={"target": {"http": {"url": "https://example.com/new"}}}
        )
        assert planned.status_code == 200, planned.text
        endpoints = (await http.get("/v1/endpoints")).json()["items"]
        assert "https://example.com/new" not in {each["url"] for each in endpoints}


async def test_a_page_costs_the_same_wherever_it_is(api: Served) -> None:
    """Row-level security must not make PostgreSQL read every name before the one it begins at."""
    tenant = await api.tenant("acme")
    connection = await asyncpg.connect(api.database_url)
    try:
        await connection.execute(
            f"""
            with rule as (insert into sexton.rule (definition) values ('{{}}') returning id),
            made as (
                insert into sexton.schedule (tenant_id, name, since, created_at, rule_id, anchor,
                    task, said)
                select {tenant}, 's' || lpad(n::text, 6, '0'), now(), now(), rule.id, now(),
                    'ring', '{{"every": 60}}'
                from rule, generate_series(1, 20000) as n
                returning id)
            insert into sexton.due (
                schedule_id, tenant_id, next_fire_at, anchor, rule_id, partition)
            select id, {tenant}, 'infinity', now(), 1, 0 from made
            """
        )
        await connection.execute("analyze sexton.schedule")
        states = ["active", "paused"]
        statement = "explain (analyze, buffers, format json) " + sql.statement(
            "schedules_page", "sexton"
        )

        async def cost(after: str | None) -> int:
            async with connection.transaction():
                await connection.execute(
                    f"set local role sexton_tenant; set local sexton.tenant = {tenant}"
                )
                [row] = await connection.fetch(
                    statement, tenant, states, None, None, None, after, 51, 51
                )
            plan = json.loads(row[0])[0]["Plan"]
            assert plan["Actual Rows"] == 51
            return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])

        await cost(None)
        first, last = await cost(None), await cost("s019900")
        assert last < 1.5 * first, (first, last)
    finally:
        await connection.close()


async def test_a_rule_of_a_request_that_was_refused_is_written_by_the_next(api: Served) -> None:
    """What a rolled back transaction has written is remembered by nobody."""
    async with api.caller("operator", "acme") as http:
        await put(http, "taken")
        rare = {"cron": "17 3 5 * *", "target": RING}
        refused = await http.post("/v1/schedules", json={"name": "taken", **rare})
        assert refused.status_code == 409
        for name in ("first", "second"):
            made = await http.post("/v1/schedules", json={"name": name, **rare})
            assert made.status_code == 201
            fires = (await http.get(f"/v1/schedules/{name}/preview")).json()["fires"]
            assert {each["fire_at"][7:] for each in fires} == {"-05T03:17:00Z"}
    [row] = await api.rows("select count(*) from sexton.rule where definition like '%17 3 5%'")
    assert row[0] == 1
