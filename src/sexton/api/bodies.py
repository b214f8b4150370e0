"""Bodies: read whole, within bounds, and looked at before anything recursive sees them."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope

from sexton.api.problems import Problem

# These read their bodies themselves, line by line, and bound each line. With another method the
# path is that of a schedule which is called so, and its body is a body like any other.
STREAMED = frozenset({("POST", "/v1/schedules/bulk"), ("POST", "/v1/jobs/bulk")})
# What an attempt says of itself is cleaned, not refused: else its job would be lost with it.
CLEANED = re.compile(r"/v1/(?:workers/[^/]+/settle|jobs/[^/]+/(?:succeed|fail|snooze))")
DEEPEST = 100
# Who sends so slowly holds a place that others want.
WITHIN = 30.0
_JSON = re.compile(rb"\s*application/(?:json|[\w.+-]+\+json)\s*(?:;(.*))?", re.I | re.S)
_UTF_8 = re.compile(rb"\s*charset\s*=\s*\"?utf-?8\"?\s*", re.I)
# To its end or, if it has none, to that of the body: never looked at twice.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.S)
_NOT_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))
_SQUARE = bytes.maketrans(b"{}", b"[]")


async def read(scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, most: int) -> bytes:
    """The whole body; a Problem if it is not one that a route could read."""
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length) > most:
        raise _too_large(most)
    body = await _whole(receive, most)
    if len(body) > most:
        raise _too_large(most)
    if body:
        _demand_json(headers)
        _demand_sound(body, CLEANED.fullmatch(scope["path"]) is not None)
    return body


async def _whole(receive: Receive, most: int) -> bytes:
    """To its end, or until it is more than may be."""
    parts: list[bytes] = []
    size, more = 0, True
    try:
        async with asyncio.timeout(WITHIN):
            while more and size <= most:
                message = await _next(receive)
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                more = message.get("more_body", False)
    except TimeoutError:
        raise Problem(408, "timeout", f"the body did not arrive within {WITHIN:g} s") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _next(receive: Receive) -> Message:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    return message


def _too_large(most: int) -> Problem:
    return Problem(413, "too_large", f"the body is larger than {most:,} bytes")


def _demand_json(headers: Mapping[bytes, bytes]) -> None:
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise Problem(415, "unsupported_media_type", "send the body uncompressed")
    kind = _JSON.fullmatch(headers.get(b"content-type", b""))
    if kind is None:
        raise Problem(415, "unsupported_media_type", "send Content-Type: application/json")
    for each in (kind[1] or b"").split(b";"):
        if b"charset" in each.lower() and not _UTF_8.fullmatch(each):
            raise Problem(415, "unsupported_media_type", "send the body in UTF-8")


def _demand_sound(body: bytes, cleaned: bool) -> None:
    """JSON that everything behind it can take."""
    if body.count(b"[") + body.count(b"{") > DEEPEST and _is_deep(body):
        raise Problem(400, "malformed", f"the body is nested deeper than {DEEPEST} levels")
    try:
        value = msgspec.json.decode(body)
    except UnicodeDecodeError:
        raise Problem(400, "malformed", "the body is not UTF-8") from None
    except RecursionError:
        raise Problem(400, "malformed", "the body is nested too deeply") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise Problem(400, "malformed", f"the body is not JSON: {_said(error)}") from None
    if not cleaned and b"\\u0000" in body and (place := _nul(value)) is not None:
        raise Problem(
            422, "invalid", f"{place}: holds a NUL character, which cannot be kept", field=place
        )


def _is_deep(body: bytes) -> bool:
    """Each turn takes the innermost pairs away; without recursion, and without a step for each."""
    brackets = _STRING.sub(b"", body).translate(_SQUARE, _NOT_BRACKETS)
    for _ in range(DEEPEST):
        if not brackets:
            return False
        fewer = brackets.replace(b"[]", b"")
        if len(fewer) == len(brackets):
            return len(brackets) > DEEPEST  # not JSON; what is left may still be deep
        brackets = fewer
    return bool(brackets)


def _nul(value: Any) -> str | None:
    """The path to a text that holds a NUL; `body` if it is not in an object."""
    to_look_at: list[tuple[str, Any]] = [("", value)]
    while to_look_at:
        path, each = to_look_at.pop()
        match each:
            case str() if "\x00" in each:
                return path or "body"
            case dict():
                for name, inner in each.items():
                    if "\x00" in name:
                        return path or "body"
                    to_look_at.append((f"{path}.{name}" if path else name, inner))
            case list():
                to_look_at += [(f"{path}.{n}" if path else str(n), e) for n, e in enumerate(each)]
    return None


def _said(error: Exception) -> str:
    return str(error).removeprefix("JSON is malformed: ") or type(error).__name__
