"""Connections of strangers: nobody holds one for nothing, or fills the memory before it is known
who it is."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from .served import Served

POST = b"POST /v1/keys HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
BULK = (
    b"POST /v1/jobs/bulk HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


@asynccontextmanager
async def connected(
    api: Served,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, port = api.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Everything until the service hangs up."""
    async with asyncio.timeout(10):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


def problem(answer: bytes) -> tuple[int, dict[str, Any]]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head, answer
    return int(head.split()[1]), json.loads(body)


@pytest.mark.parametrize("field", [b"X-Long: ", b""], ids=["a value", "the line"])
async def test_a_head_without_end_is_cut_off(api: Served, field: bytes) -> None:
    async with connected(api) as (_, writer):
        writer.write(b"GET /healthz HTTP/1.1\r\n" + field if field else b"GET /")
        with pytest.raises(ConnectionError):
            for _ in range(300):
                writer.write(b"a" * 65_536)
                await writer.drain()
                await asyncio.sleep(0.005)


async def test_more_headers_than_a_hundred_are_refused(api: Served) -> None:
    for many, status in ((90, 200), (200, 431)):
        async with connected(api) as (reader, writer):
            fields = b"".join(b"X-%d: 1\r\n" % n for n in range(many))
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n" + fields)
            writer.write(b"\r\n")
            answer = await ended(reader)
            assert answer.startswith(b"HTTP/1.1 %d " % status), answer
    assert problem(answer)[1]["type"] == "/problems/bad_request"


@pytest.mark.parametrize("said", [b"\x16\x03\x01 hello\r\n\r\n", b"GET\r\n\r\n", b"\xff" * 4])
async def test_what_is_not_http_is_refused_in_the_shape_of_all_else(
    api: Served, said: bytes
) -> None:
    async with connected(api) as (reader, writer):
        writer.write(said)
        status, found = problem(await ended(reader))
    assert (status, found["status"], found["type"]) == (400, 400, "/problems/bad_request")
    assert found["instance"]


async def test_who_connects_and_says_nothing_is_not_waited_for(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sexton.api.connection.WITHIN", 0.2)
    async with connected(api) as (reader, _):
        assert await ended(reader) == b""


@pytest.mark.parametrize("before", [b"", b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"])
async def test_a_head_that_comes_byte_by_byte_is_not_waited_for(
    api: Served, monkeypatch: pytest.MonkeyPatch, before: bytes
) -> None:
    """The first of a connection, and one after an answer; empty lines count for nothing."""
    monkeypatch.setattr("sexton.api.connection.WITHIN", 0.3)
    async with connected(api) as (reader, writer):
        writer.write(before)
        if before:
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            await reader.readexactly(len(b'{"alive":true}'))
        reading = asyncio.create_task(ended(reader))
        for n in range(200):
            if reading.done():
                break
            writer.write(b"\r\n" if n % 2 else b"G" if n == 20 else b"\r\n")
            await asyncio.sleep(0.02)
        assert not await asyncio.wait_for(reading, 20) or n < 199


async def test_a_body_of_which_nothing_ever_comes_is_given_up(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sexton.api.bodies.WITHIN", 0.2)
    async with connected(api) as (reader, writer):
        writer.write(POST + b"Content-Length: 10\r\n\r\n")
        async with asyncio.timeout(10):
            head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 "), head


async def test_a_bulk_that_falls_silent_is_given_up(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sexton.api.ndjson.STALLED", 0.3)
    async with connected(api) as (reader, writer):
        line = b'{"task": "t"}\n'
        writer.write(BULK + b"%x\r\n%s\r\n" % (len(line), line))
        answer = await ended(reader)
    assert b'"created"' in answer, "what came was done, and answered"


async def test_what_follows_a_body_is_no_header(api: Served) -> None:
    """Trailers: whoever sends one does not change who he is, or what his request is called."""
    key = await api.key("admin")
    async with connected(api) as (reader, writer):
        writer.write(POST + b"Authorization: Bearer " + key.encode())
        writer.write(b"\r\nTransfer-Encoding: chunked\r\nTrailer: Idempotency-Key\r\n\r\n")
        body = json.dumps({"name": "k", "role": "viewer"}).encode()
        writer.write(b"%x\r\n%s\r\n" % (len(body), body))
        writer.write(b"0\r\nIdempotency-Key: late\r\nConnection: close\r\n\r\n")
        async with asyncio.timeout(10):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 201")
    assert await api.rows("select from sexton.request") == []
