"""What every request passes before it reaches a route, and its answer on the way back."""

import logging
import re
import secrets
import time
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sexton.api import bodies
from sexton.api.limits import Header
from sexton.api.origin import address_of
from sexton.api.paths import keep_segments
from sexton.api.problems import Problem, answer, problem_of
from sexton.api.service import Service

access_log = logging.getLogger("sexton.api.access")

_REQUEST_ID = re.compile(rb"[!-~]{1,128}")
_JSON_IS_FINE = re.compile(
    rb"(?:^|,)\s*(?:\*/\*|application/(?:\*|(?:[\w.+-]+\+)?json|x-ndjson))", re.I
)
_GONE = 499  # in the log: the client went away, and was not answered


class Front:
    """Names the request, finds out who makes it, counts it, and reads its body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        state = scope["app"].state
        passage = _Passage(scope, receive, send, state.service, state.max_body_bytes)
        try:
            await passage.through(self._app)
        except ClientDisconnect:
            passage.status = _GONE
        except Exception as error:
            if passage.status is not None:  # half of an answer cannot be taken back
                raise
            await answer(problem_of(error), passage.id)(scope, receive, passage.send)
        finally:
            passage.log(time.perf_counter() - began)


class _Passage:
    """One request on its way through."""

    __slots__ = ("_headers", "_limits", "_most", "_receive", "_scope", "_send", "_service", "id",
                 "status")  # fmt: skip

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, service: Service, most: int
    ) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._service = service
        self._most = most
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self._limits: tuple[Header, ...] = ()
        self.status: int | None = None
        given = self._headers.get(b"x-request-id", b"")
        self.id = given.decode() if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)

    async def through(self, app: ASGIApp) -> None:
        scope, headers, service = self._scope, self._headers, self._service
        state: dict[str, Any] = scope.setdefault("state", {})
        state["request_id"] = self.id
        state["address"] = address_of(scope, service.trusted_proxies)
        state["principal"] = None
        state["body"] = b""
        keep_segments(scope)
        if b"%00" in scope["query_string"]:
            raise Problem(400, "malformed", "the query holds a NUL character, which nothing can")
        if scope["path"].startswith("/v1/"):
            principal = await service.access.principal(scope, headers)
            self._limits = service.limits.request(principal)
            state["principal"] = principal
            accept = headers.get(b"accept")
            if accept is not None and not _JSON_IS_FINE.search(accept):
                raise Problem(406, "not_acceptable", "the answer would be application/json")
        receive = self._receive
        has_body = b"content-length" in headers or b"transfer-encoding" in headers
        if has_body and (scope["method"], scope["path"]) not in bodies.STREAMED:
            state["body"] = body = await bodies.read(scope, headers, receive, self._most)
            receive = _again(body, receive)
        await app(scope, receive, self.send)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [
                *message.get("headers", ()),
                *self._limits,
                (b"x-request-id", self.id.encode("ascii")),
            ]
        await self._send(message)

    def log(self, took: float) -> None:
        if access_log.isEnabledFor(logging.INFO):
            scope, state = self._scope, self._scope.get("state", {})
            principal = state.get("principal")
            access_log.info(
                "%s %s %s %s %.1f ms, %s %s",
                state.get("address", "-"),
                scope["method"],
                scope.get("raw_path", b"").decode("latin-1"),
                self.status or _GONE,
                took * 1000,
                "-" if principal is None else f"{principal.tenant}/{principal.actor}",
                self.id,
            )


def _again(body: bytes, receive: Receive) -> Receive:
    """What was read is read again by the route; after it comes whatever comes."""
    unread = True

    async def receive_again() -> Message:
        nonlocal unread
        if unread:
            unread = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return receive_again
