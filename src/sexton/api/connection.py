"""A client's connection: uvicorn's, with the bounds that a stranger is not to pass.

Nobody is known before the head of a request is read, so nobody may take long over it, or make it
as long as he likes.
"""

import asyncio
import secrets
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sexton.api.problems import Problem, answer

# Of a head, or of anything else that does not come to its end, trailers for example.
MOST_BYTES = 65_536
MOST_HEADERS = 100
# Seconds for a head, from its first byte on; of the first one, from when the connection is there.
WITHIN = 30.0


class TooManyHeaders(Exception):
    """Raised into the parser, which then reads no further."""


class Connection(HttpToolsProtocol):
    """One connection, for as many requests as the client sends."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._waiting: asyncio.TimerHandle | None = None  # for the rest of a head
        self._in_head = False
        self._unfinished = 0  # bytes since something came to its end
        self._too_many = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unfinished += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._unfinished > MOST_BYTES:
            self._refuse(431, f"what stands before the body has more than {MOST_BYTES:,} bytes")
        elif self.cycle is not None and not self.cycle.response_complete:
            self._wait_no_more()
        elif self._waiting is None:
            self._wait()

    # ── what the parser says ────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer: the request has begun without it
        if len(self.headers) >= MOST_HEADERS:
            self._too_many = True
            raise TooManyHeaders
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._unfinished = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unfinished = 0
        super().on_body(body)

    # ── bounds ──────────────────────────────────────────────────────────────

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(WITHIN, self._give_up)

    def _wait_no_more(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if not self.transport.is_closing():
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """What cannot be read is refused in the shape of all else."""
        if self._too_many:
            self._refuse(431, f"there are more than {MOST_HEADERS} headers")
        else:
            self._refuse(400, "this is not HTTP/1.1")

    def _refuse(self, status: int, detail: str) -> None:
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            response = answer(Problem(status, "bad_request", detail), secrets.token_hex(8))
            lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
            lines += [name + b": " + value for name, value in response.raw_headers]
            lines += [b"connection: close", b"", bytes(response.body)]
            self.transport.write(b"\r\n".join(lines))
        self.transport.close()
