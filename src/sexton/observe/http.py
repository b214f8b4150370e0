"""A tiny HTTP server for probes and scrapes: GET and HEAD, one answer each, small limits."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from sexton.errors import ConfigurationError

log = logging.getLogger("sexton.observe")

READ_WITHIN = 5.0
ANSWER_WITHIN = 15.0
LARGEST_HEAD = 16_384
# More than this at once are not probes.
MOST_CONNECTIONS = 64
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a path answers."""

    body: bytes
    status: int = 200
    content_type: str = JSON


Path = Callable[[], Awaitable[Answer]]


def listening(host: str, port: int) -> socket.socket:
    """Bound at once, so that a port that is taken is an error where it was asked for."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address[:2], family=family, backlog=MOST_CONNECTIONS)
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(
            f"observe: cannot listen on {host or '*'}:{port} ({error}); choose another address "
            "with --observe or SEXTON_OBSERVE"
        ) from None


class Server:
    """Serves some paths over a socket, in the running loop."""

    def __init__(self, bound: socket.socket, paths: Mapping[str, Path]) -> None:
        self._bound = bound
        self._paths = paths
        self._open = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(
            self._connected, sock=self._bound, limit=LARGEST_HEAD
        )

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= MOST_CONNECTIONS:
                writer.write(await self._answered(reader))
                async with asyncio.timeout(ANSWER_WITHIN):
                    await writer.drain()
        except (TimeoutError, OSError):
            pass  # whoever asked has gone
        except Exception:
            log.exception("a probe or a scrape could not be answered")
        finally:
            self._open -= 1
            writer.close()
            with contextlib.suppress(Exception):
                await writer.wait_closed()

    async def _answered(self, reader: asyncio.StreamReader) -> bytes:
        try:
            async with asyncio.timeout(READ_WITHIN):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _response(_said(431, "too many headers"))
        except asyncio.IncompleteReadError:
            return _response(_said(400, "this is not HTTP"))
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _response(_said(400, "this is not HTTP/1"))
        method, path = words[0], words[1].partition(b"?")[0].decode("latin-1")
        if method not in (b"GET", b"HEAD"):
            return _response(_said(405, "only GET and HEAD"), extra="Allow: GET, HEAD\r\n")
        answer = self._paths.get(path)
        if answer is None:
            return _response(_said(404, "there are " + ", ".join(self._paths)))
        async with asyncio.timeout(ANSWER_WITHIN):
            return _response(await answer(), body=method == b"GET")


def _said(status: int, text: str) -> Answer:
    return Answer(text.encode() + b"\n", status, "text/plain; charset=utf-8")


def _response(answer: Answer, *, body: bool = True, extra: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n"
        f"Content-Type: {answer.content_type}\r\nContent-Length: {len(answer.body)}\r\n"
        f"Cache-Control: no-store\r\nConnection: close\r\n{extra}\r\n"
    )
    return head.encode("ascii") + (answer.body if body else b"")
