"""The tiny server against those who do not speak HTTP, or too much of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from sexton.errors import ConfigurationError
from sexton.observe.http import MOST_CONNECTIONS, Answer, Server, listening
from sexton.settings import Settings, host_and_port


async def hello() -> Answer:
    return Answer(b'{"hello":true}')


@asynccontextmanager
async def serving() -> AsyncIterator[int]:
    bound = listening("127.0.0.1", 0)
    server = Server(bound, {"/hello": hello})
    await server.start()
    try:
        yield bound.getsockname()[1]
    finally:
        await server.close()


async def said(port: int, sent: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    if not sent.endswith(b"\r\n\r\n"):
        writer.write_eof()
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n", 200),
        (b"GET /hello?x=1 HTTP/1.0\r\n\r\n", 200),
        (b"GET /other HTTP/1.1\r\n\r\n", 404),
        (b"GET /../hello HTTP/1.1\r\n\r\n", 404),
        (b"POST /hello HTTP/1.1\r\nContent-Length: 3\r\n\r\n", 405),
        (b"GET /hello HTTP/2.0\r\n\r\n", 400),
        (b"\x16\x03\x01 nonsense\r\n\r\n", 400),
        (b"GET /hello HTTP/1.1\r\n", 400),
        (b"", 400),
        (b"GET /hello HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", 431),
    ],
)
async def test_whatever_is_sent_gets_an_answer_or_a_refusal(sent: bytes, status: int) -> None:
    async with serving() as port:
        answer = await said(port, sent)
        # Who is refused in the middle of a long header may not get to read why.
        assert answer.startswith(f"HTTP/1.1 {status} ".encode()) or (status == 431 and not answer)
        assert b"hello" in await said(port, b"GET /hello HTTP/1.1\r\n\r\n")


async def test_head_says_how_long_the_answer_would_be_and_no_more() -> None:
    async with serving() as port:
        head = await said(port, b"HEAD /hello HTTP/1.1\r\n\r\n")
        assert b"Content-Length: 14\r\n" in head
        assert head.endswith(b"\r\n\r\n")


async def test_connections_that_say_nothing_do_not_keep_out_probes_for_ever() -> None:
    async with serving() as port:
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_CONNECTIONS)]
        for _, writer in idle:
            writer.close()
        assert b"hello" in await said(port, b"GET /hello HTTP/1.1\r\n\r\n")


def test_a_port_that_is_taken_is_an_error_at_once() -> None:
    bound = listening("127.0.0.1", 0)
    try:
        with pytest.raises(ConfigurationError, match="choose another address"):
            listening("127.0.0.1", bound.getsockname()[1])
    finally:
        bound.close()


@pytest.mark.parametrize("text", ["9464", "localhost", "localhost:http", "localhost:70000", "x:-1"])
def test_where_to_listen_is_checked_at_the_door(text: str) -> None:
    with pytest.raises(ConfigurationError, match="write it like"):
        Settings.load({}, observe=text)


def test_where_to_listen_may_be_every_address_or_one_of_ipv6() -> None:
    assert host_and_port("observe", ":9464") == ("", 9464)
    assert host_and_port("observe", "[::1]:9464") == ("::1", 9464)
