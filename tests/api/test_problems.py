"""Whatever is sent, the answer is a problem document in one shape, and nothing is half done."""

import ast
import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx

from sexton import Sexton
from sexton.api import bodies
from sexton.api.kinds import KINDS

from .served import Served, served

KEY = {"name": "k", "role": "viewer"}
JSON = {"content-type": "application/json"}
API = Path(__file__).parents[2] / "src" / "sexton" / "api"


def checked(answer: httpx.Response, status: int) -> dict[str, Any]:
    """The document, after a look at its shape."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert body["status"] == status
    assert body["type"].startswith("/problems/")
    assert body["title"]
    assert body["detail"]
    assert body["instance"] == answer.headers["x-request-id"]
    return body


async def keys_made(api: Served) -> int:
    [row] = await api.rows("select count(*) from sexton.api_key")
    return int(row["count"])


BROKEN: dict[str, tuple[bytes, int]] = {
    "not JSON": (b"{", 400),
    "nothing but a word": (b"hello", 400),
    "two values": (b"{} {}", 400),
    "a NaN": (b'{"name": NaN, "role": "viewer"}', 400),
    "an infinity": (b'{"name": Infinity, "role": "viewer"}', 400),
    "a number without end": (b'{"name": 1e999, "role": "viewer"}', 400),
    "5,000 digits": (b'{"name": ' + b"9" * 5000 + b', "role": "viewer"}', 400),
    "a half of a pair": (b'{"name": "\\ud800", "role": "viewer"}', 400),
    "the other half": (b'{"name": "x\\udc00y", "role": "viewer"}', 400),
    "Latin-1": ('{"name": "é", "role": "viewer"}'.encode("latin-1"), 400),
    "UTF-16": ('{"name": "k", "role": "viewer"}'.encode("utf-16"), 400),
    "a byte order mark": (b'\xef\xbb\xbf{"name": "k", "role": "viewer"}', 400),
    "an overlong encoding": (b'{"name": "\xc0\x80", "role": "viewer"}', 400),
    "a control character": (b'{"name": "\x01", "role": "viewer"}', 400),
    "101 arrays in each other": (b"[" * 101 + b"]" * 101, 400),
    "1,000 objects in each other": (b'{"a":' * 1000 + b"1" + b"}" * 1000, 400),
    "500,000 arrays": (b"[" * 500_000, 400),
    "quotes and backslashes": (b'"\\' * 300_000, 400),
    "a NUL": (b'{"name": "a\\u0000b", "role": "viewer"}', 422),
    "a NUL in a name": (b'{"na\\u0000me": "x", "role": "viewer"}', 422),
    "an array": (b"[]", 422),
    "null": (b"null", 422),
    "a string": (b'"k"', 422),
    "the wrong types": (b'{"name": 7, "role": ["viewer"]}', 422),
    "a role that is none": (b'{"name": "k", "role": "root"}', 422),
    "a field too many": (b'{"name": "k", "role": "viewer", "id": 1}', 422),
    "a field too few": (b'{"name": "k"}', 422),
    "a long name": (json.dumps({**KEY, "name": "k" * 201}).encode(), 422),
    "a name of long characters": (json.dumps({**KEY, "name": "字" * 100}).encode(), 422),
    "an empty name": (b'{"name": "", "role": "viewer"}', 422),
    "no length of time": (b'{"name": "k", "role": "viewer", "expires_in": "soon"}', 422),
    "a negative one": (b'{"name": "k", "role": "viewer", "expires_in": -1}', 422),
    "one of 1,000 years": (b'{"name": "k", "role": "viewer", "expires_in": 31557600000}', 422),
}


async def test_a_broken_body_changes_nothing(api: Served) -> None:
    async with api.client() as http:
        for name, (body, status) in BROKEN.items():
            found = checked(await http.post("/v1/keys", content=body, headers=JSON), status)
            if status == 422 and body.startswith(b"{"):
                assert found["field"], f"{name}: the field is not named"
            assert len(json.dumps(found)) < 4000, name
    assert await keys_made(api) == 0


async def test_every_wrong_field_is_named(api: Served) -> None:
    async with api.client() as http:
        answer = await http.post("/v1/keys", json={"role": "root", "more": 1, "expires_in": {}})
    found = checked(answer, 422)
    fields = {each["field"].partition(".")[0] for each in found["errors"]}
    assert fields == {"name", "role", "more", "expires_in"}
    assert "root" not in answer.text, "what was sent may be a secret"


OTHER_KINDS = [
    {"content-type": "text/plain"},
    {"content-type": "application/x-www-form-urlencoded"},
    {"content-type": "application/jsonp"},
    {"content-type": "application/json; charset=latin-1"},
    {"content-type": ""},
    {"content-type": "application/json", "content-encoding": "gzip"},
]


async def test_a_body_of_another_kind_is_refused(api: Served) -> None:
    body = json.dumps(KEY).encode()
    async with api.caller("admin") as http:
        for headers in OTHER_KINDS:
            content = gzip.compress(body) if "content-encoding" in headers else body
            found = checked(await http.post("/v1/keys", content=content, headers=headers), 415)
            assert found["type"] == "/problems/unsupported_media_type"
        assert await keys_made(api) == 1
        for fine in ("application/json; charset=UTF-8", "Application/JSON", "application/a.b+json"):
            kind = {"content-type": fine}
            answer = await http.post("/v1/keys", content=body, headers=kind)
            assert answer.status_code == 201, fine


async def test_a_body_that_is_too_large_is_refused_however_it_is_sent(app: Sexton) -> None:
    small = Sexton(app.settings.database_url, max_body_bytes=2000)
    body = json.dumps({**KEY, "name": "k" * 3000}).encode()

    async def pieces() -> AsyncIterator[bytes]:
        for place in range(0, len(body), 100):
            yield body[place : place + 100]

    with served(small) as api:
        async with api.client() as http:
            for content in (body, pieces()):
                found = checked(await http.post("/v1/keys", content=content, headers=JSON), 413)
                assert found["type"] == "/problems/too_large"
        assert await keys_made(api) == 0


async def test_who_goes_away_in_the_middle_of_a_body_leaves_nothing(api: Served) -> None:
    host, port = api.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        f"POST /v1/keys HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        "Content-Length: 31\r\n\r\n".encode()
        + json.dumps(KEY).encode()[:-1]
    )
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    async with api.client() as http:
        assert (await http.get("/v1/keys")).json()["items"] == []


async def test_what_the_framework_answers_has_the_same_shape(api: Served) -> None:
    async with api.client() as http:
        for path in ("/", "/v1/nothing", "/nothing", "/v1/keys/", "/v1//keys", "/v1/keys/1/other"):
            problem = checked(await http.get(path), 404)
            assert problem["type"] == "/problems/not_found"
            assert problem["detail"] == (
                f"there is nothing at {path}; what there is: /openapi.json"
            )
        assert (await http.get("/openapi.json")).status_code == 200
        answer = await http.patch("/v1/keys", json={})
        assert checked(answer, 405)["type"] == "/problems/method_not_allowed"
        assert answer.headers["allow"] == "GET, POST"
        answer = await http.post("/v1/tenants/acme", json={})
        assert answer.headers["allow"] == "DELETE, GET, PUT"
        answer = await http.get("/v1/keys", headers={"accept": "text/html"})
        assert checked(answer, 406)["type"] == "/problems/not_acceptable"
        for fine in (
            "*/*",
            "application/*",
            "text/html, application/json;q=0.5",
            "application/json",
        ):
            assert (await http.get("/v1/keys", headers={"accept": fine})).status_code == 200
        assert checked(await http.get("/v1/keys/abc"), 422)["detail"] == "id: not a whole number"
        checked(await http.get("/v1/keys/0"), 422)
        checked(await http.get(f"/v1/keys/{10**30}"), 422)
        assert checked(await http.get("/v1/keys/" + "9" * 5000), 422)["detail"].startswith("id: ")
        unnamed = checked(await http.post("/v1/keys", json={"role": "admin"}), 422)
        assert unnamed["detail"] == "name: has to be given"
        assert checked(await http.get("/v1/keys?limit=0"), 422)["field"] == "limit"
        assert checked(await http.get("/v1/keys?limit=ten"), 422)["field"] == "limit"
        assert checked(await http.get("/v1/keys?cursor=junk"), 422)["field"] == "cursor"
        checked(await http.get("/v1/keys?tenant=%00"), 400)
        checked(await http.get("/v1/tenants/%00"), 400)
        checked(await http.get("/v1/tenants/%ff"), 400)


async def test_the_id_of_a_request_is_taken_over_or_made(api: Served) -> None:
    async with api.client() as http:
        given = await http.get("/v1/nothing", headers={"x-request-id": "abc-123"})
        assert checked(given, 404)["instance"] == "abc-123"
        made = {
            (await http.get("/v1/keys", headers=headers)).headers["x-request-id"]
            for headers in ({}, {}, {"x-request-id": "a" * 129}, {"x-request-id": "a b"})
        }
        assert len(made) == 4
        assert "a b" not in made


async def test_every_kind_of_problem_has_a_page(api: Served) -> None:
    used = {
        node.args[1].value
        for path in API.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "Problem"
        and len(node.args) > 1
        and isinstance(node.args[1], ast.Constant)
    }
    assert used <= KINDS.keys()
    async with api.client() as http:
        for kind, (title, _) in KINDS.items():
            page = await http.get(f"/problems/{kind}")
            assert page.status_code == 200
            assert page.text.startswith(title)
        checked(await http.get("/problems/no_such_kind"), 404)


def test_depth_is_found_without_recursion() -> None:
    for deep in (b"[" * 101 + b"]" * 101, b'{"a":[' * 60 + b"]}" * 60, b"[{}," * 150):
        assert bodies._is_deep(deep)
    flat = (
        b"[" + b"{}," * 100_000 + b"{}]",
        b"[" * 100 + b"]" * 100,
        b'["' + b"[" * 1000 + b'"]',
        b'["\\"' + b"[" * 1000 + b'"]',
    )
    for body in flat:
        assert not bodies._is_deep(body)


async def test_the_database_is_not_described_to_clients(api: Served) -> None:
    """A last line of defence: what no check has seen is still no 500, and says nothing of ours."""
    async with api.client() as http:
        await api.rows("alter table sexton.api_key add constraint odd check (name <> 'odd')")
        answer = await http.post("/v1/keys", json={**KEY, "name": "odd"})
        found = checked(answer, 422)
        assert "api_key" not in found["detail"]
        await api.rows("alter table sexton.api_key rename column shown to hidden")
        found = checked(await http.post("/v1/keys", json=KEY), 500)
        assert "column" not in found["detail"]
        await api.rows("alter table sexton.api_key rename column hidden to shown")
        assert (await http.post("/v1/keys", json=KEY)).status_code == 201
