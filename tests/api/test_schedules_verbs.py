"""Pause, resume, trigger, backfill, plan; and what can be asked about a schedule's fires."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from sexton import Sexton
from sexton.store.connection import Address

from ..firing.hands import Hands, hands
from .served import Served, served

RING = {"task": "ring"}
MINUTE = timedelta(minutes=1)


@dataclass
class Tower:
    """The service and a node that fires by hand, by one manual clock."""

    api: Served
    hands: Hands
    http: httpx.AsyncClient

    @property
    def now(self) -> datetime:
        return self.hands.now

    async def call(self, method: str, path: str, status: int = 200, **more: Any) -> Any:
        answer = await self.http.request(method, f"/v1/schedules{path}", **more)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def get(self, path: str, **params: Any) -> Any:
        return await self.call("GET", path, params=params)

    async def add(self, name: str = "beat", **said: Any) -> Any:
        said = {"target": RING, **({} if {"cron", "at"} & said.keys() else {"every": 60})} | said
        return await self.call("PUT", f"/{name}", 201, json=said)


@contextlib.asynccontextmanager
async def tower(address: Address, role: str = "operator") -> AsyncIterator[Tower]:
    async with hands(address) as firing:
        app = Sexton(address.url, clock=firing.clock, patience=10)
        with served(app) as api:
            async with api.caller(role, "acme", requests_per_second=None) as http:
                yield Tower(api, firing, http)


def iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


async def test_a_pause_ends_by_itself_or_when_it_is_resumed(address: Address) -> None:
    async with tower(address) as t:
        await t.add()
        until = iso(t.now + timedelta(hours=1))
        paused = await t.call("POST", "/beat/pause", json={"reason": "holiday", "until": until})
        assert (paused["state"], paused["reason"], paused["version"]) == ("paused", "holiday", 2)
        assert datetime.fromisoformat(paused["until"]) == t.now + timedelta(hours=1)
        assert paused["next_fire_at"] is None
        again = await t.call("POST", "/beat/pause", json={"reason": "holiday", "until": until})
        assert again["version"] == 2
        t.hands.clock.advance("10m")
        resumed = await t.call("POST", "/beat/resume")
        assert (resumed["state"], resumed["reason"], resumed["until"]) == ("active", None, None)
        assert (await t.call("POST", "/beat/resume"))["version"] == 3
        over = await t.call("POST", "/beat/pause", 422, json={"until": iso(t.now - MINUTE)})
        assert over["field"] == "until"
        await t.call("DELETE", "/beat", 204)
        for verb in ("pause", "resume", "trigger"):
            refused = await t.call("POST", f"/beat/{verb}", 409)
            assert refused["type"] == "/problems/conflict"


async def test_a_trigger_makes_a_job_at_once(address: Address) -> None:
    async with tower(address) as t:
        await t.add(payload={"n": 1})
        await t.call("POST", "/beat/pause")
        own = await t.call("POST", "/beat/trigger", 202)
        given = await t.call("POST", "/beat/trigger", 202, json={"payload": {"n": 2}})
        rows = await t.hands.rows(
            "select id, tenant_id, payload::text as payload from sexton.job order by id"
        )
        assert [(row["id"], row["payload"]) for row in rows] == [
            (own["job"], '{"n":1}'),
            (given["job"], '{"n":2}'),
        ]
        tenant = await t.hands.value("select id from sexton.tenant where name = 'acme'")
        assert {row["tenant_id"] for row in rows} == {tenant}
        fires = (await t.get("/beat/fires"))["items"]
        assert [(each["job"], each["kind"], each["lag"]) for each in fires] == [
            (given["job"], "trigger", pytest.approx(0, abs=0.01)),
            (own["job"], "trigger", pytest.approx(0, abs=0.01)),
        ]


async def test_a_trigger_sent_again_with_its_key_makes_no_second_job(address: Address) -> None:
    async with tower(address) as t:
        await t.add()
        key = {"Idempotency-Key": "once"}
        first = await t.call("POST", "/beat/trigger", 202, headers=key)
        assert await t.call("POST", "/beat/trigger", 202, headers=key) == first
        assert await t.hands.value("select count(*) from sexton.job") == 1


async def test_a_backfill_is_asked_for_looked_at_and_ended(address: Address) -> None:
    async with tower(address) as t:
        await t.add(cron="* * * * *")
        stretch = {"from": iso(t.now - 10 * MINUTE), "to": iso(t.now - MINUTE), "rate": 5}
        made = [(await t.call("POST", "/beat/backfill", 202, json=stretch))["id"] for _ in range(3)]
        first = await t.get("/beat/backfills", limit=2)
        assert [each["id"] for each in first["items"]] == [made[2], made[1]]
        rest = await t.get("/beat/backfills", cursor=first["next"])
        assert ([each["id"] for each in rest["items"]], rest["next"]) == ([made[0]], None)
        shown = rest["items"][0]
        assert {name: shown[name] for name in ("rate", "fired", "finished_at", "cancelled")} == {
            "rate": 5,
            "fired": 0,
            "finished_at": None,
            "cancelled": False,
        }
        assert shown["from"] == shown["reached"] == stretch["from"]
        await t.call("DELETE", f"/beat/backfills/{made[0]}", 204)
        await t.call("DELETE", f"/beat/backfills/{made[0]}", 204)
        assert (await t.get("/beat/backfills"))["items"][2]["cancelled"] is True
        await t.hands.rows(
            "update sexton.backfill set next_at = to_at, finished_at = now() where id = $1", made[1]
        )
        await t.call("DELETE", f"/beat/backfills/{made[1]}", 409)
        await t.call("DELETE", "/beat/backfills/999999", 404)
        await t.add("other")
        await t.call("DELETE", f"/other/backfills/{made[2]}", 404)
        assert (await t.get("/beat/backfills"))["items"][0]["finished_at"] is None
        for wrong, field in (
            ({"to": iso(t.now + MINUTE)}, "to"),
            ({"to": stretch["from"]}, "to"),
            ({"rate": 0}, "rate"),
            ({"rate": True}, "rate"),
            ({"from": "yesterday"}, "from"),
            ({"from": "9999-12-31T23:59:59Z"}, "from"),
        ):
            refused = await t.call("POST", "/beat/backfill", 422, json=stretch | wrong)
            assert refused["field"] == field, refused


async def test_the_ledger_has_fires_and_what_was_passed_over_newest_first(
    address: Address,
) -> None:
    async with tower(address) as t:
        start = t.now
        await t.add(cron="* * * * *", overlap="allow")
        await t.hands.fire_until(start + 3 * MINUTE, 30)
        await t.call("POST", "/beat/pause")
        t.hands.clock.advance("5m")
        await t.call("POST", "/beat/resume")
        await t.hands.fire_until(t.now + 2 * MINUTE, 30)
        items = (await t.get("/beat/fires"))["items"]
        told = [
            (each["fire_at"], each["last_at"], each["fires"], each["decision"]) for each in items
        ]

        def at(n: int) -> str:
            return iso(start + n * MINUTE)

        assert told == [
            (at(10), at(10), 1, "fired"),
            (at(9), at(9), 1, "fired"),
            (at(4), at(8), 5, "paused"),
            (at(3), at(3), 1, "fired"),
            (at(2), at(2), 1, "fired"),
            (at(1), at(1), 1, "fired"),
        ]
        fired = items[0]
        assert (fired["kind"], fired["scheduled_at"]) == ("due", at(10))
        assert fired["job"] is not None
        assert fired["node_id"] == t.hands.node
        assert fired["node"] is None, "which node it is, is the operator's own to know"
        assert fired["term"] is not None
        paged: list[Any] = []
        page = await t.get("/beat/fires", limit=1)
        while True:
            paged += page["items"]
            if page["next"] is None:
                break
            page = await t.get("/beat/fires", limit=1, cursor=page["next"])
        assert paged == items
        only = await t.get("/beat/fires", decision="paused")
        assert only["items"] == [items[2]]
        some = {"from": at(2), "to": at(9)}
        assert (await t.get("/beat/fires", **some))["items"] == items[2:5]
        assert (await t.get("/beat/fires", **{"from": at(6), "to": at(7)}))["items"] == [items[2]]


async def test_a_decision_that_is_rare_is_found_over_short_pages(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sexton.api.pages.LOOKED_AT", 4)
    async with tower(address) as t:
        start = t.now
        await t.add(cron="* * * * *", overlap="allow")
        await t.hands.fire_until(start + 10 * MINUTE, 30)
        await t.hands.rows(
            "update sexton.fire set decision = 'overlap', job_id = null where fire_at = $1",
            start + 3 * MINUTE,
        )
        seen = []
        page = await t.get("/beat/fires", decision="overlap", limit=3)
        while True:
            seen.append(len(page["items"]))
            if page["next"] is None:
                break
            page = await t.get("/beat/fires", decision="overlap", limit=3, cursor=page["next"])
        assert seen == [0, 1, 0]


async def test_a_fire_is_explained(address: Address) -> None:
    async with tower(address) as t:
        start = t.now
        await t.add(cron="* * * * *", overlap="allow")
        await t.hands.fire_until(start + 2 * MINUTE, 30)
        fired = await t.get("/beat/explain", at=iso(start + MINUTE))
        assert fired["verdict"] == "fired"
        assert fired["decision"]["job"] == fired["job"]
        assert any("job" in each for each in fired["sentences"])
        assert fired["version"] == 1
        between = await t.get("/beat/explain", at=iso(start + 1.5 * MINUTE))
        assert between["verdict"] == "not_scheduled"
        assert between["before"]["fire_at"] == iso(start + MINUTE)
        assert between["after"]["fire_at"] == iso(start + 2 * MINUTE)
        ahead = await t.get("/beat/explain", at=iso(start + 60 * MINUTE))
        assert ahead["verdict"] == "not_yet"
        missing = await t.http.get("/v1/schedules/beat/explain")
        assert (missing.status_code, missing.json()["field"]) == (422, "at")


async def test_previews_show_what_clocks_and_calendars_do(address: Address) -> None:
    async with tower(address) as t:
        paris = {"cron": "30 2 * * *", "timezone": "Europe/Paris"}
        asked = {"from": "2030-03-30T12:00:00Z", "count": 2}
        shown = await t.call("POST", "/preview", json={**paris, **asked})
        assert [each["fire_at"] for each in shown["fires"]] == [
            "2030-03-31T01:00:00Z",
            "2030-04-01T00:30:00Z",
        ]
        assert shown["fires"][0]["note"]
        await t.add(**paris)
        assert await t.get("/beat/preview", **asked) == shown
        answer = await t.http.put("/v1/calendars/holidays", json={"dates": ["2030-03-31"]})
        assert answer.status_code == 201
        kept_out = await t.call("POST", "/preview", json={**paris, **asked, "exclude": "holidays"})
        assert kept_out["fires"][0]["fire_at"] == "2030-04-01T00:30:00Z"
        whole = await t.call(
            "POST",
            "/preview",
            json={**paris, **asked, "target": RING, "payload": {}, "tags": ["x"]},
        )
        assert whole == shown, "a whole definition may be sent"
        once = await t.call("POST", "/preview", json={"at": "2031-01-01T00:00:00Z", "count": 5})
        assert len(once["fires"]) == 1
        for wrong, field in (
            ({}, "when"),
            ({"cron": "x"}, "cron"),
            ({"every": 5, "count": 0}, "count"),
            ({"every": 5, "count": 1001}, "count"),
            ({"every": 5, "exclude": ["nowhere"]}, None),
        ):
            refused = await t.call("POST", "/preview", 422, json=wrong)
            assert refused.get("field") == field, refused


async def test_a_rule_that_takes_for_ever_to_compute_is_given_up(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sexton.api.foresee.WITHIN", 0.05)
    rule = "FREQ=SECONDLY;BYSECOND={};BYMINUTE=59;BYHOUR=23;BYYEARDAY=366;BYDAY=SU"
    slow = [{"rrule": rule.format(n)} for n in range(20)]
    async with tower(address) as t:
        refused = await t.call("POST", "/preview", 422, json={"any": slow, "count": 1000})
        assert refused["field"] == "count"


async def test_a_plan_is_what_a_patch_would_do_and_changes_nothing(address: Address) -> None:
    async with tower(address, "admin") as t:
        await t.add(cron="0 * * * *", payload={"a": 1})
        before = await t.get("/beat")
        change = {"cron": "0 */2 * * *", "tags": ["x"], "payload": {"b": 2}}
        plan = await t.call("POST", "/beat/plan", json={**change, "count": 4})
        assert {each["field"]: (each["before"], each["after"]) for each in plan["changes"]} == {
            "cron": ("0 * * * *", "0 */2 * * *"),
            "tags": ([], ["x"]),
            "payload": ({"a": 1}, {"a": 1, "b": 2}),
        }
        assert await t.get("/beat") == before
        assert (await t.get("/beat/versions"))["items"][0]["version"] == 1
        log = (await t.http.get("/v1/audit-log")).json()["items"]
        assert [each["action"] for each in log] == ["schedule.create"]
        hours = [datetime.fromisoformat(each["fire_at"]) for each in plan["before"]]
        assert len(hours) == len(plan["after"]) == 4
        assert plan["gone"] == [iso(at) for at in hours if at.hour % 2]
        assert plan["new"] == []
        patched = await t.call("PATCH", "/beat", json=change)
        assert patched["version"] == 2
        after = await t.get("/beat/preview", count=4)
        assert after["fires"] == plan["after"]
        nothing = await t.call("POST", "/beat/plan", json=change)
        assert (nothing["changes"], nothing["gone"], nothing["new"]) == ([], [], [])
        await t.call("POST", "/beat/plan", 412, json={}, headers={"if-match": '"1"'})
        await t.call("POST", "/beat/plan", 422, json={"cron": "x"})
        paused = await t.call("POST", "/beat/pause")
        assert paused["state"] == "paused"
        still = await t.call("POST", "/beat/plan", json={"every": 60})
        assert (still["before"], still["after"]) == ([], [])


async def test_versions_are_read_in_pages(address: Address) -> None:
    async with tower(address) as t:
        await t.add(every="5m")
        for n in range(1, 5):
            await t.call("PATCH", "/beat", json={"priority": n})
        found: list[Any] = []
        page = await t.get("/beat/versions", limit=2)
        while True:
            found += page["items"]
            if page["next"] is None:
                break
            page = await t.get("/beat/versions", limit=2, cursor=page["next"])
        assert [each["version"] for each in found] == [5, 4, 3, 2, 1]
        assert [each["said"].get("priority") for each in found] == [4, 3, 2, 1, None]
        assert (found[0]["until"], found[0]["ended_by"]) == (None, None)
        assert found[1]["ended_by"] == "update"
        assert found[-1]["said"]["every"] == 300.0
