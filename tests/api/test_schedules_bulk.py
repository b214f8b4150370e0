"""Schedules by the thousand: a line in, a line out, and no bad one stops the others."""

import asyncio
import itertools
import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from .served import Served

RING = {"task": "ring"}
NDJSON = {"content-type": "application/x-ndjson"}


def line(name: Any, **said: Any) -> dict[str, Any]:
    return {"name": name, "cron": "0 6 * * *", "target": RING, **said}


def body(lines: Iterable[Any]) -> bytes:
    return b"".join(
        each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in lines
    )


async def send(
    http: httpx.AsyncClient, content: Any, mode: str = "create", **headers: str
) -> list[dict[str, Any]]:
    answer = await http.post(
        "/v1/schedules/bulk", params={"mode": mode}, content=content, headers=NDJSON | headers
    )
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(each) for each in answer.text.splitlines()]


async def count(api: Served) -> int:
    [row] = await api.rows("select count(*) from sexton.schedule where state = 'active'")
    found: int = row[0]
    return found


async def test_each_line_is_answered_in_order_and_bad_ones_stop_none(api: Served) -> None:
    bad: list[tuple[Any, int, str | None]] = [
        (b"{\n", 400, None),
        (b"[]\n", 422, None),
        (b"\xff\xfe\n", 400, None),
        (b'{"name": NaN}\n', 400, None),
        (b"[" * 1000 + b"]" * 1000 + b"\n", 400, None),
        (line("deep", payload=json.loads("[" * 150 + "]" * 150)), 400, None),
        (line(None), 422, "name"),
        (line(".."), 422, "name"),
        (line("nul\x00"), 422, "name"),
        (line("long" * 51), 422, "name"),
        (line("x", cron="61 * * * *"), 422, "cron"),
        (line("x", cron=5), 422, "cron"),
        (line("x", every=5), 422, "when"),
        (line("x", colour="red"), 422, "colour"),
        (line("x", arguments={}), 422, "arguments"),
        (line("x", self=1), 422, None),
        (line("x", target="ring"), 422, "target"),
        (line("x", target={}), 422, "target"),
        (line("x", target={"task": "http:1"}), 422, None),
        (line("x", payload=[1]), 422, "payload"),
        (line("x", payload={"a": "\x00"}), 422, "payload"),
        (line("x", cron=None, at="2001-01-01T00:00:00Z"), 422, "when"),
        (line("x", cron=None, at="9999-01-01T00:00:00Z"), 422, "at"),
        (line("x", timezone="Mars/Olympus"), 422, "timezone"),
        (line("x", timezone=["UTC"]), 422, None),
        (line("x", exclude=["nowhere"]), 422, None),
        (line("x", exclude=["\x00"]), 422, None),
        (line("x", tags="a"), 422, "tags"),
        (line("x", priority=True), 422, "priority"),
        (line("x", max_fires=10**30), 422, "max_fires"),
        (line("x", cron=None, every=0.5), 422, "every"),
        (line("x", payload={"a": "x" * 300_000}), 422, "payload"),
        (line("x", payload={"a": "x" * 400_000}), 413, None),
        (line("x", grace=10**400), 422, "grace"),
        (line("x", cron=None, any=[{"every": None}]), 422, "any"),
    ]
    lines: list[Any] = []
    for n, (wrong, _, _) in enumerate(bad):
        lines += [line(f"good {n}"), wrong]
    async with api.caller("operator", "acme") as http:
        told = await send(http, body(lines))
    assert [each["line"] for each in told] == [*range(1, 2 * len(bad) + 1)]
    good, refused = told[::2], told[1::2]
    assert [each["status"] for each in good] == ["created"] * len(bad)
    assert len({each["id"] for each in good}) == len(bad)
    for (wrong, status, field), each in zip(bad, refused, strict=True):
        problem = each["error"]
        assert each["status"] == "error", wrong
        assert problem["status"] == status, (str(wrong)[:300], problem)
        if field is not None:
            assert problem["field"] == field, (str(wrong)[:300], problem)
        assert problem["type"].startswith("/problems/")
    assert await count(api) == len(bad)


async def test_ten_thousand_lines_with_every_tenth_broken(api: Served) -> None:
    lines = [
        b"{broken\n" if n % 10 == 9 else line(f"s{n}", cron=f"{n % 60} {n % 24} * * *")
        for n in range(10_000)
    ]
    async with api.caller("operator", "acme") as http:
        told = await send(http, body(lines))
        assert [each["line"] for each in told] == [*range(1, 10_001)]
        for n, each in enumerate(told):
            assert each["status"] == ("error" if n % 10 == 9 else "created")
        assert await count(api) == 9_000
        made = (await http.get("/v1/schedules/s17")).json()
        assert (made["id"], made["cron"]) == (told[17]["id"], "17 17 * * *")


async def test_the_kinds_of_line_ends_and_blank_lines(api: Served) -> None:
    text = (
        json.dumps(line("a"))
        + "\r\n\n   \n"
        + json.dumps(line("b"))
        + "\n\t\n"
        + json.dumps(line("c", payload={"two": "lines\nor"}))
    )
    async with api.client() as http:
        told = await send(http, text.encode())
        assert [(each["line"], each["name"]) for each in told] == [(1, "a"), (4, "b"), (6, "c")]
        assert await send(http, b"") == []


async def test_names_that_are_taken_stay_as_they_are_or_say_this(api: Served) -> None:
    async with api.caller("admin", "acme") as http:
        first = await send(http, body([line("a"), line("b"), line("a", priority=1), line("gone")]))
        assert [each["status"] for each in first] == ["created", "created", "exists", "created"]
        assert first[0]["id"] == first[2]["id"]
        await http.delete("/v1/schedules/gone")
        again = body([line("a", priority=2), line("new"), line("b"), line("gone")])
        stayed = await send(http, again)
        assert [each["status"] for each in stayed] == ["exists", "created", "exists", "created"]
        assert "priority" not in (await http.get("/v1/schedules/a")).json()
        await http.delete("/v1/schedules/gone")
        put = body(
            [
                line("a", priority=2),
                line("b"),
                line("newer"),
                line("newer", priority=3),
                line("gone"),
                line("a", priority=4),
                line("b", max_fires=10**20),
            ]
        )
        told = await send(http, put, "upsert")
        statuses = [each["status"] for each in told]
        assert statuses == [
            "updated",
            "exists",
            "created",
            "updated",
            "created",
            "updated",
            "error",
        ]
        assert (await http.get("/v1/schedules/a")).json()["priority"] == 4
        assert (await http.get("/v1/schedules/newer")).json()["priority"] == 3
        assert (await http.get("/v1/schedules/gone")).json()["state"] == "active"
        log = (await http.get("/v1/audit-log", params={"limit": 1})).json()["items"][0]
        assert log["action"] == "schedule.bulk"
        assert log["after"] == {
            "created": ["newer", "gone"],
            "updated": ["a", "newer", "a"],
        }


async def test_the_answers_come_while_the_lines_are_sent(api: Served) -> None:
    """A client that waits for its answers before it sends more is not left waiting."""
    reader, writer = await asyncio.open_connection(*_address(api))
    try:
        writer.write(_head())
        for n in range(3):
            writer.write(_chunk(body([line(f"s{n}")])))
            await writer.drain()
            told = await _line(reader)
            assert (told["line"], told["status"]) == (n + 1, "created")
            assert await count(api) == n + 1
        writer.write(b"0\r\n\r\n")
        assert b"0\r\n" in await reader.readuntil(b"\r\n\r\n")
    finally:
        writer.close()


async def test_a_client_that_waits_to_be_told_to_go_on_is_told(api: Served) -> None:
    lines = body([line(f"s{n}") for n in range(3)])
    reader, writer = await asyncio.open_connection(*_address(api))
    try:
        writer.write(_head({"Expect": "100-continue"}))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        writer.write(_chunk(lines) + b"0\r\n\r\n")
        told = [await _line(reader) for _ in range(3)]
        assert [each["status"] for each in told] == ["created"] * 3
    finally:
        writer.close()


async def test_a_client_that_goes_away_leaves_whole_chunks(api: Served) -> None:
    reader, writer = await asyncio.open_connection(*_address(api))
    writer.write(_head({"Idempotency-Key": "half"}))
    lines = [line(f"s{n}") for n in range(5_000)]
    writer.write(_chunk(body(lines)))
    await writer.drain()
    told = await _line(reader)
    assert told["status"] == "created"
    writer.transport.abort()
    async with api.client() as http:
        whole = await send(http, body(lines), **{"Idempotency-Key": "half"})
    statuses = [each["status"] for each in whole]
    assert statuses == ["created"] * 5_000, (
        "what was done was answered as it was, and the rest done"
    )
    assert await count(api) == 5_000


async def test_a_client_that_does_not_read_is_not_read_from(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers that nobody takes are not heaped up: the lines behind them stay where they are."""
    monkeypatch.setattr("sexton.api.ndjson.UNREAD_CHUNKS", 2)
    part = _chunk((b"{" + b" " * 998 + b"\n") * 1000)
    sent = 0
    _, writer = await asyncio.open_connection(*_address(api), limit=2**10)
    try:
        writer.write(_head())
        writer.transport.set_write_buffer_limits(high=0)
        with pytest.raises(TimeoutError):
            while sent < 2**30:
                async with asyncio.timeout(2):
                    writer.write(part)
                    await writer.drain()
                sent += len(part)
        assert sent < 2**28, "what is between two kernels, and a few chunks"
    finally:
        writer.transport.abort()


async def test_sent_again_with_its_key_it_does_nothing_again(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        lines = body([line(f"s{n}") for n in range(2_500)] + [b"{\n"])
        first = await send(http, lines, **{"Idempotency-Key": "k"})
        assert [each["status"] for each in first] == ["created"] * 2_500 + ["error"]
        assert await send(http, lines, **{"Idempotency-Key": "k"}) == first
        other = await send(http, body([line("other")]), **{"Idempotency-Key": "k"})
        assert other[0]["error"]["type"] == "/problems/idempotency_key_reused"
        assert [each["status"] for each in await send(http, lines)][:3] == ["exists"] * 3


async def test_what_the_quota_leaves_room_for_is_made(api: Served) -> None:
    async with api.caller("operator", "acme", max_schedules=37) as http:
        lines = body([line(f"s{n}") for n in range(100)])
        told = await send(http, lines)
        assert [each["status"] for each in told] == ["created"] * 37 + ["error"] * 63
        assert {each["error"]["type"] for each in told[37:]} == {"/problems/quota_exceeded"}
        again = await send(http, lines)
        assert [each["status"] for each in again] == ["exists"] * 37 + ["error"] * 63
        put = await send(http, lines, "upsert")
        assert [each["status"] for each in put] == ["exists"] * 37 + ["error"] * 63
        assert await count(api) == 37


async def test_two_at_once_with_the_same_names_make_each_of_them_once(api: Served) -> None:
    async with api.caller("operator", "acme") as http, api.caller("operator", "other") as theirs:
        forth = body([line(f"s{n}", cron=f"{n % 60} * * * *") for n in range(3_000)])
        back = body([line(f"s{n}", cron=f"{n % 60} * * * *") for n in reversed(range(3_000))])
        both = await asyncio.gather(
            send(http, forth), send(http, back, "upsert"), send(theirs, forth)
        )
        made = [each["name"] for each in itertools.chain(*both[:2]) if each["status"] == "created"]
        assert len(made) == len(set(made)) == 3_000
        assert {each["status"] for each in both[2]} == {"created"}
        assert await count(api) == 6_000


@pytest.mark.parametrize(
    ("headers", "params", "status"),
    [
        ({"content-type": "application/json"}, {}, 415),
        ({"content-type": "text/plain"}, {}, 415),
        (NDJSON | {"content-encoding": "gzip"}, {}, 415),
        (NDJSON, {"mode": "replace"}, 422),
        (NDJSON | {"idempotency-key": "a b"}, {}, 400),
    ],
)
async def test_what_is_not_a_bulk_is_refused_before_anything_is_read(
    api: Served, headers: dict[str, str], params: dict[str, str], status: int
) -> None:
    async with api.client() as http:
        answer = await http.post(
            "/v1/schedules/bulk", params=params, headers=headers, content=body([line("x")])
        )
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
    assert await count(api) == 0


async def test_schedules_that_go_by_calendars_are_enrolled_with_them(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        await http.put("/v1/calendars/weekends", json={"windows": ["sat,sun"]})
        told = await send(
            http, body([line(f"s{n}", exclude=["weekends"] if n % 2 else None) for n in range(10)])
        )
        assert {each["status"] for each in told} == {"created"}
        users = (await http.get("/v1/calendars/weekends/users")).json()["items"]
        assert [each["name"] for each in users] == ["s1", "s3", "s5", "s7", "s9"]


# ── by hand ─────────────────────────────────────────────────────────────────


def _address(api: Served) -> tuple[str, int]:
    parts = urlsplit(api.url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def _head(headers: dict[str, str] | None = None) -> bytes:
    said = {"Host": "127.0.0.1", "Transfer-Encoding": "chunked"} | NDJSON | (headers or {})
    lines = ["POST /v1/schedules/bulk HTTP/1.1", *(f"{k}: {v}" for k, v in said.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _chunk(part: bytes) -> bytes:
    return f"{len(part):x}\r\n".encode() + part + b"\r\n"


async def _line(reader: asyncio.StreamReader) -> dict[str, Any]:
    """The next line of the answer, past the frames that it comes in."""
    while True:
        found = await reader.readuntil(b"\n")
        if found.startswith(b"{"):
            told: dict[str, Any] = json.loads(found)
            return told
