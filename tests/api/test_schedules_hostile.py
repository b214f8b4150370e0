"""Requests about schedules that cannot be right: refused with a reason, and nothing is changed."""

import json
from typing import Any

import pytest

from .served import Served

RING = {"task": "ring"}
GOOD = {"cron": "0 6 * * *", "target": RING}


WRONG: list[tuple[dict[str, Any], str | None]] = [
    ({}, "when"),
    ({"cron": "0 6 * * *", "every": 5}, "when"),
    ({"cron": "61 * * * *"}, "cron"),
    ({"cron": ""}, "cron"),
    ({"cron": 5}, "cron"),
    ({"cron": "0 0 30 2 *"}, "cron"),
    ({"cron": "* * * * *", "dialect": "unix"}, "dialect"),
    ({"every": "soon"}, "every"),
    ({"every": 0}, "every"),
    ({"every": -1}, "every"),
    ({"every": True}, "every"),
    ({"every": 1e308}, "every"),
    ({"every": 10**400}, "every"),
    ({"every": 5, "anchor": "noon"}, "anchor"),
    ({"at": "2001-01-01T00:00:00Z"}, "when"),
    ({"at": "9999-12-31T23:59:59Z"}, "at"),
    ({"at": "9999-12-31T23:59:59-14:00"}, "at"),
    ({"at": "0001-01-01T00:00:00+14:00"}, "at"),
    ({"at": "2030-01-01T00:00:00"}, "at"),
    ({"at": 5}, "at"),
    ({"rrule": "FREQ=SOMETIMES"}, "rrule"),
    ({"any": []}, "any"),
    ({"any": [{}]}, "any"),
    ({"any": ["* * * * *"] * 101}, "any"),
    ({"any": [{"cron": "* * * * *", "colour": 1}]}, "any.0.RuleIn.colour"),
    ({"cron": "* * * * *", "timezone": "Mars/Olympus"}, "timezone"),
    ({"cron": "* * * * *", "timezone": "../../etc/passwd"}, "timezone"),
    ({"cron": "* * * * *", "jitter": "x"}, "jitter"),
    ({"cron": "* * * * *", "jitter_kind": "fixed"}, "jitter_kind"),
    ({"cron": "* * * * *", "exclude": ["nowhere"]}, None),
    ({"cron": "* * * * *", "exclude": 5}, "exclude"),
    ({"cron": "* * * * *", "misfire": "never"}, "misfire"),
    ({"cron": "* * * * *", "overlap": "maybe"}, "overlap"),
    ({"cron": "* * * * *", "max_queued": 5}, "max_queued"),
    ({"cron": "* * * * *", "grace": [1]}, "grace"),
    ({"cron": "* * * * *", "priority": 6}, "priority"),
    ({"cron": "* * * * *", "priority": "1"}, "priority"),
    ({"cron": "* * * * *", "priority": 1.0}, "priority"),
    ({"cron": "* * * * *", "tags": "a"}, "tags"),
    ({"cron": "* * * * *", "tags": [""]}, "tags.0"),
    ({"cron": "* * * * *", "tags": ["x" * 201]}, "tags.0"),
    ({"cron": "* * * * *", "queue": "é" * 101}, "queue"),
    ({"cron": "* * * * *", "max_fires": 0}, "max_fires"),
    ({"cron": "* * * * *", "expires_in": "1y"}, "expires_in"),
    ({"cron": "* * * * *", "payload": []}, "payload"),
    ({"cron": "* * * * *", "payload": {"a": "x" * 300_000}}, "payload"),
    ({"cron": "* * * * *", "colour": "red"}, "colour"),
    ({"cron": "* * * * *", "target": "ring"}, "target"),
    ({"cron": "* * * * *", "target": {}}, "target"),
    ({"cron": "* * * * *", "target": {"task": ""}}, None),
    ({"cron": "* * * * *", "target": {"task": "x" * 300}}, None),
    ({"cron": "* * * * *", "target": {"task": 5}}, None),
    ({"cron": "* * * * *", "target": {"task": "http:1"}}, None),
    ({"cron": "* * * * *", "target": {"task": "a", "http": {}}}, "target"),
]


async def test_what_cannot_be_right_names_its_field(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        for said, field in WRONG:
            answer = await http.put("/v1/schedules/x", json={"target": RING, **said})
            why = (str(said)[:200], answer.text)
            assert answer.status_code == 422, why
            assert answer.headers["content-type"] == "application/problem+json"
            found = answer.json().get("field")
            assert field is None or found == field or found.startswith(field + "."), why
        assert (await http.get("/v1/schedules/x")).status_code == 404


NOT_BODIES = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'"x"',
    b"\xff",
    b'{"cron": "\xc3"}',
    b'{"every": NaN, "target": {"task": "a"}}',
    b'{"every": Infinity, "target": {"task": "a"}}',
    b'{"every": 1e999, "target": {"task": "a"}}',
    b'{"every": 5, "target": {"task": "\\u0000"}}',
    b'{"every": 5, "target": {"task": "\\ud800"}}',
    b'{"every": 5, "target": {"task": "a"}, "payload": {"a": "\\u0000"}}',
    b'{"every": 5, "target": {"task": "a"}, "payload": {"\\ud800": 1}}',
    b'{"every": 5, "target": {"task": "a"}, "payload": {"a": ' + b"[" * 1000 + b"]" * 1000 + b"}}",
    b'{"a":' * 100_000,
    b"[" * 100_000,
    b'{"every": ' + b"9" * 5000 + b', "target": {"task": "a"}}',
]


async def test_a_rule_that_would_be_gone_through_for_hours_is_refused(api: Served) -> None:
    """Nobody else of any tenant would be answered meanwhile."""
    windows = [
        f"{hour:02}:{minute:02}:{second:02}-{hour:02}:{minute:02}:{second + 1:02}"
        for hour in range(24)
        for minute in range(60)
        for second in range(0, 58, 10)
    ]
    said = {"target": RING, "every": 60, "only": ["a"], "exclude": ["b"]}
    async with api.caller("operator", "acme") as http:
        for name in ("a", "b"):
            made = await http.put(f"/v1/calendars/{name}", json={"windows": windows})
            assert made.status_code == 201, made.text
        for more in ({}, {"when_excluded": "next_day"}):
            for answer in (
                await http.put("/v1/schedules/x", json=said | more),
                await http.post("/v1/schedules/preview", json={**said, **more, "target": None}),
            ):
                assert (answer.status_code, answer.json()["field"]) == (422, "when"), answer.text
        lines = "".join(json.dumps({"name": f"s{n}", **said}) + "\n" for n in range(3))
        told = await http.post(
            "/v1/schedules/bulk", content=lines, headers={"content-type": "application/x-ndjson"}
        )
        statuses = [json.loads(each)["status"] for each in told.text.splitlines()]
        assert statuses == ["error"] * 3
        assert (await http.get("/v1/schedules")).json()["items"] == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/v1/schedules/x"),
        ("POST", "/v1/schedules"),
        ("PATCH", "/v1/schedules/there"),
        ("POST", "/v1/schedules/preview"),
        ("POST", "/v1/schedules/there/plan"),
        ("POST", "/v1/schedules/there/pause"),
        ("POST", "/v1/schedules/there/trigger"),
        ("POST", "/v1/schedules/there/backfill"),
        ("PUT", "/v1/calendars/x"),
    ],
)
async def test_a_body_that_is_not_one_is_refused(api: Served, method: str, path: str) -> None:
    async with api.client() as http:
        assert (await http.put("/v1/schedules/there", json=GOOD)).status_code == 201
        for content in NOT_BODIES:
            answer = await http.request(
                method, path, content=content, headers={"content-type": "application/json"}
            )
            if path.endswith(("pause", "trigger")) and content in (b"", b"null"):
                continue  # it need not have one
            assert 400 <= answer.status_code < 500, (content[:100], answer.text)
            assert answer.headers["content-type"] == "application/problem+json"
        found = (await http.get("/v1/schedules", params={"state": "all"})).json()["items"]
        assert [each["name"] for each in found] == ["there"]
        assert (await http.get("/v1/calendars")).json()["items"] == []


async def test_numbers_and_texts_at_their_ends_come_back_as_they_were(api: Served) -> None:
    payload = {
        "large": 2**63,
        "larger": 2**64 - 1,
        "small": -(2**63),
        "tiny": 5e-324,
        "text": "\u2028\ufffd\U0010ffff",
        "empty": {},
        "": [],
    }
    async with api.caller("operator", "acme") as http:
        made = await http.put("/v1/schedules/x", json={**GOOD, "payload": payload})
        assert made.status_code == 201, made.text
        assert (await http.get("/v1/schedules/x")).json()["payload"] == payload
        beyond = await http.put("/v1/schedules/y", json={**GOOD, "payload": {"n": 10**40}})
        assert beyond.status_code in (201, 422), beyond.text


async def test_years_far_away_are_computed_or_refused(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        await http.put("/v1/schedules/x", json=GOOD)
        far = await http.get("/v1/schedules/x/preview", params={"from": "8999-12-30T00:00:00Z"})
        assert far.status_code == 200
        for params in (
            {"from": "9999-12-31T00:00:00Z"},
            {"from": "1969-12-31T00:00:00Z"},
            {"from": "now"},
            {"from": "2030-01-01"},
            {"from": "2030-01-01T00:00:00"},
        ):
            for look in ("preview", "fires"):
                answer = await http.get(f"/v1/schedules/x/{look}", params=params)
                assert (answer.status_code, answer.json()["field"]) == (422, "from"), answer.text
        at = await http.get("/v1/schedules/x/explain", params={"at": "8999-12-31T23:59:59Z"})
        assert at.status_code == 200, at.text


QUERIES = [
    "limit=0",
    "limit=501",
    "limit=x",
    "limit=9999999999999999999999",
    "state=asleep",
    "tag=",
    "text=" + "x" * 201,
    "text=%00",
]


async def test_a_query_that_cannot_be_right_is_refused(api: Served) -> None:
    async with api.client() as http:
        for query in QUERIES:
            answer = await http.get(f"/v1/schedules?{query}")
            assert answer.status_code in (400, 422), (query, answer.text)
            assert json.loads(answer.content)["status"] == answer.status_code


async def test_a_schedule_that_is_called_bulk_has_a_body_like_any_other(api: Served) -> None:
    """Only a POST there is a stream of lines, which nobody reads whole."""
    async with api.caller("operator") as http:
        url, json_ = "/v1/schedules/bulk", {"content-type": "application/json"}
        assert (await http.put(url, json=GOOD)).status_code == 201
        large = json.dumps(GOOD | {"payload": {"x": "x" * api.app.settings.max_body_bytes}})
        deep = '{"payload": ' + '{"a":' * 5000 + "1" + "}" * 5001
        for method in ("PUT", "PATCH"):
            for body, status in (
                (large, 413),
                (deep, 400),
                ('{"payload": {"a": "\\u0000"}}', 422),
                ("{", 400),
                (b"\xff\xfe", 400),
            ):
                answer = await http.request(method, url, content=body, headers=json_)
                assert answer.status_code == status, (method, body[:40], answer.text)
            text = await http.request(method, url, content=json.dumps(GOOD), headers={})
            assert text.status_code == 415
        # Its body is part of what an Idempotency-Key stands for.
        once = {"idempotency-key": "once"}
        first = await http.put(url, json=GOOD | {"priority": 1}, headers=once)
        other = await http.put(url, json=GOOD | {"priority": 2}, headers=once)
        assert (first.status_code, other.status_code) == (200, 422)
        assert (await http.get(url)).json()["priority"] == 1
