"""Headers of somebody's own: those that change nothing about the request but itself."""

import base64
import binascii
import re
from collections.abc import Mapping
from urllib.parse import quote, quote_plus

from sexton.errors import InvalidTarget

MOST, MOST_BYTES = 50, 8192
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,100}")
_VALUE = re.compile(r"[\x20-\x7e\t]*")
_OURS = re.compile(
    r"accept-encoding|connection|content-(encoding|length|type)|date|expect|host|idempotency-key"
    r"|keep-alive|te|trailer|transfer-encoding|upgrade|user-agent|via|(sexton|webhook|proxy)-.*"
)
# Those that say nothing secret, and what is short, may be found in any answer by chance.
_OPEN = ("accept", "accept-charset", "accept-language", "cache-control", "origin", "pragma")
_LEAST_TO_HIDE = 8
HIDDEN = "[hidden]"


def checked(headers: Mapping[str, str]) -> dict[str, str]:
    """What may be sent, or an error that names the header and never shows its value."""
    if len(headers) > MOST:
        raise InvalidTarget(f"headers: {len(headers)} are more than the {MOST} allowed")
    seen: set[str] = set()
    size = 0
    for name, value in headers.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise InvalidTarget(f"headers: {name!r:.60} is not the name of a header")
        small = name.lower()
        if _OURS.fullmatch(small):
            raise InvalidTarget(f"headers: {name} is set by Sexton itself")
        if small in seen:
            raise InvalidTarget(f"headers: {name} is there twice")
        seen.add(small)
        if not isinstance(value, str) or not _VALUE.fullmatch(value) or value != value.strip():
            raise InvalidTarget(
                f"headers: the value of {name} must be printable ASCII in one line, without "
                "spaces around it"
            )
        size += len(name) + len(value)
    if size > MOST_BYTES:
        raise InvalidTarget(f"headers: {size:,} bytes are more than the {MOST_BYTES:,} allowed")
    return dict(headers)


class Hiding:
    """Takes an endpoint's secrets out of what it answered: some answer with what they were sent."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        found: set[str] = set()
        for name, value in headers.items():
            if name.lower() not in _OPEN:
                found |= {value, value.partition(" ")[2], *_inside(value)}
        hidden = {form for each in found if len(each) >= _LEAST_TO_HIDE for form in _forms(each)}
        self._values = sorted(hidden, key=len, reverse=True)

    def __bool__(self) -> bool:
        return bool(self._values)

    def text(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, HIDDEN)
        return text

    def value(self, value: object) -> object:
        """The same for all strings of a JSON value."""
        match value:
            case str():
                return self.text(value)
            case list():
                return [self.value(each) for each in value]
            case dict():
                return {self.text(name): self.value(each) for name, each in value.items()}
            case _:
                return value


def _forms(value: str) -> set[str]:
    """As it stands in JSON, in that of those who also escape slashes, and in a URL."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return {value, escaped, escaped.replace("/", "\\/"), quote(value, safe=""), quote_plus(value)}


def _inside(value: str) -> set[str]:
    """The name and the password of basic authentication."""
    scheme, _, rest = value.partition(" ")
    if scheme.lower() != "basic":
        return set()
    try:
        plain = base64.b64decode(rest, validate=True).decode()
    except (binascii.Error, ValueError):
        return set()
    return {plain, plain.partition(":")[2]}
