"""Calendars over HTTP."""

from typing import Any

import httpx

from .served import Served

RING = {"task": "ring"}


async def put(http: httpx.AsyncClient, name: str, status: int, **said: Any) -> dict[str, Any]:
    answer = await http.put(f"/v1/calendars/{name}", json=said)
    assert answer.status_code == status, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def schedule(http: httpx.AsyncClient, name: str, **said: Any) -> dict[str, Any]:
    answer = await http.put(
        f"/v1/schedules/{name}", json={"cron": "0 6 * * *", "target": RING, **said}
    )
    assert answer.status_code == 201, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def test_a_calendar_is_made_read_listed_and_removed(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        made = await put(
            http,
            "holidays",
            201,
            dates=["--12-25", "2030-01-01"],
            ranges=["2030-12-24/2031-01-02"],
            windows=["sat,sun"],
            timezone="Europe/Paris",
        )
        assert made["dates"] == ["--12-25", "2030-01-01"]
        assert made["recomputed"] == 0
        read = await http.get("/v1/calendars/holidays")
        assert read.json() == {key: made[key] for key in made if key != "recomputed"}
        assert read.headers["etag"] == f'"{made["version"]}"'
        for name in ("b", "a", "c%2Fd"):
            await put(http, name, 201, dates=["2030-01-01"])
        found, params = [], {"limit": "1"}
        while True:
            page = (await http.get("/v1/calendars", params=params)).json()
            found += [each["name"] for each in page["items"]]
            if page["next"] is None:
                break
            params["cursor"] = page["next"]
        assert found == ["a", "b", "c/d", "holidays"]
        assert (await http.delete("/v1/calendars/a")).status_code == 204
        assert (await http.delete("/v1/calendars/a")).status_code == 404
        assert (await http.get("/v1/calendars/a")).status_code == 404
        assert (await http.get("/v1/calendars/a/users")).status_code == 404


async def test_a_change_recomputes_the_schedules_that_go_by_it(api: Served) -> None:
    async with api.caller("admin", "acme") as http:
        await put(http, "off", 201, dates=["2030-01-01"])
        for n in range(3):
            await schedule(http, f"user {n}", exclude=["off"])
        before = await schedule(http, "only", only="off")
        await schedule(http, "stranger")
        assert before["only"] == ["off"]
        assert before["next_fire_at"] == "2030-01-01T06:00:00Z"
        changed = await put(http, "off", 200, dates=["2031-01-01"])
        assert changed["recomputed"] == 4
        after = (await http.get("/v1/schedules/only")).json()
        assert (after["version"], after["next_fire_at"]) == (2, "2031-01-01T06:00:00Z")
        assert (await http.get("/v1/schedules/stranger")).json()["version"] == 1
        same = await put(http, "off", 200, dates=["2031-01-01"])
        assert (same["recomputed"], same["version"]) == (0, changed["version"])
        users = (await http.get("/v1/calendars/off/users", params={"limit": 2})).json()
        assert [each["name"] for each in users["items"]] == ["only", "user 0"]
        more = await http.get("/v1/calendars/off/users", params={"cursor": users["next"]})
        assert [each["name"] for each in more.json()["items"]] == ["user 1", "user 2"]
        used = await http.delete("/v1/calendars/off")
        assert used.status_code == 409
        assert "only" in used.json()["users"]
        for name in ("user 0", "user 1", "user 2", "only"):
            assert (await http.delete(f"/v1/schedules/{name}")).status_code == 204
        assert (await http.delete("/v1/calendars/off")).status_code == 204
        log = (await http.get("/v1/audit-log")).json()["items"]
        told = [
            (each["action"], (each["after"] or {}).get("recomputed"))
            for each in reversed(log)
            if each["action"].startswith("calendar")
        ]
        assert told == [("calendar.put", 0), ("calendar.put", 4), ("calendar.remove", None)]


async def test_a_stale_version_changes_nothing(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        first = await http.put("/v1/calendars/off", json={"dates": ["2030-01-01"]})
        stale = {"if-match": first.headers["etag"]}
        await put(http, "off", 200, dates=["2031-01-01"])
        for answer in (
            await http.put("/v1/calendars/off", json={}, headers=stale),
            await http.delete("/v1/calendars/off", headers=stale),
            await http.put("/v1/calendars/off", json={}, headers={"if-none-match": "*"}),
        ):
            assert answer.status_code == 412
        assert (await http.get("/v1/calendars/off")).json()["dates"] == ["2031-01-01"]


async def test_another_tenants_calendar_is_not_there(api: Served) -> None:
    async with api.caller("operator", "acme") as ours, api.caller("operator", "other") as theirs:
        await put(ours, "off", 201, dates=["2030-01-01"])
        assert (await theirs.get("/v1/calendars/off")).status_code == 404
        assert (await theirs.delete("/v1/calendars/off")).status_code == 404
        assert (await theirs.get("/v1/calendars")).json()["items"] == []
        refused = await theirs.put(
            "/v1/schedules/x", json={"cron": "0 6 * * *", "target": RING, "exclude": ["off"]}
        )
        assert refused.status_code == 422
        await put(theirs, "off", 201, windows=["sat"])
        await schedule(theirs, "x", exclude=["off"])
        assert (await ours.get("/v1/calendars/off/users")).json()["items"] == []
        changed = await put(ours, "off", 200, dates=["2031-01-01"])
        assert changed["recomputed"] == 0


WRONG: list[dict[str, Any]] = [
    {"dates": ["yesterday"]},
    {"dates": ["2030-02-30"]},
    {"dates": ["--13-01"]},
    {"dates": "2030-01-01"},
    {"dates": [5]},
    {"dates": [""]},
    {"ranges": ["2030-01-02/2030-01-01"]},
    {"ranges": ["2030-01-01"]},
    {"ranges": ["0001-01-01T00:00+14:00/9999-12-31T23:59:59-14:00"]},
    {"windows": ["mon 25:00-26:00"]},
    {"timezone": "Mars/Olympus"},
    {"holidays": []},
    {"dates": ["2030-01-01"] * 10_001},
]


async def test_what_cannot_be_right_is_refused(api: Served) -> None:
    async with api.client() as http:
        for said in WRONG:
            answer = await http.put("/v1/calendars/x", json=said)
            assert answer.status_code == 422, (str(said)[:200], answer.text)
            assert answer.json()["field"].split(".")[0] == next(iter(said))
        assert (await http.get("/v1/calendars/x")).status_code == 404
