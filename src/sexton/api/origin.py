"""Where a request comes from, and whether it may be taken for one of this host's own."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from starlette.types import Scope

from sexton.api.problems import Problem
from sexton.errors import ConfigurationError

Networks = tuple[IPv4Network | IPv6Network, ...]
_FORWARDED = (b"x-forwarded-for", b"forwarded", b"x-real-ip", b"via")


@dataclass(frozen=True, slots=True)
class Origin:
    """What the audit log says of a request besides who made it; and the trace it is part of."""

    address: str = "-"
    request_id: str = "-"
    trace: str | None = None  # as its traceparent has it


def networks(text: str | None) -> Networks:
    """Of a setting: addresses and networks with commas between them."""
    try:
        return tuple(
            ip_network(each.strip(), strict=False)
            for each in (text or "").split(",")
            if each.strip()
        )
    except ValueError as error:
        raise ConfigurationError(f"trusted_proxies: {error}") from None


@functools.lru_cache(maxsize=1000)
def is_loopback(host: str) -> bool:
    """Whether nobody but this host can be there; names other than localhost are not looked up."""
    try:
        return ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"


def address_of(scope: Scope, trusted: Networks) -> str:
    """The client's address. What a header says of it counts only as far as proxies are trusted."""
    client = scope.get("client")
    address = client[0] if client else "local"
    if not trusted or not _within(address, trusted):
        return str(address)
    # Each proxy adds whom it heard: read from the right, the first that is none of ours.
    for heard in reversed(_forwarded_for(scope["headers"])):
        if not _is_address(heard):
            break
        address = heard
        if not _within(heard, trusted):
            break
    return str(address)


def demand_local(scope: Scope, headers: Mapping[bytes, bytes], host: str) -> None:
    """Without a key: only programs of this host, and no browser that another site has sent.

    A page may name its own host so that it leads to this one (DNS rebinding); the Host header then
    still has its name. A request that came through a proxy is not this host's own either.
    """
    server, client = scope.get("server"), scope.get("client")
    for side in (server, client):
        if side and side[1] is not None and not is_loopback(side[0]):
            raise _foreign("send a key: without one, only this host itself is answered")
    if any(name in headers for name in _FORWARDED):
        raise _foreign("send a key: this came through a proxy")
    named = _host(headers.get(b"host", b""))
    if not is_loopback(named) and named != host.lower():
        raise _foreign(f"send a key: this host is not called {named!r}")
    if headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
        raise _foreign("a page of another site has sent this")
    origin = headers.get(b"origin")
    if origin is not None and origin.partition(b"://")[2] != headers.get(b"host"):
        raise _foreign("a page of another site has sent this")


def _foreign(detail: str) -> Problem:
    return Problem(403, "cross_site", detail)


def _host(header: bytes) -> str:
    try:
        return (urlsplit(f"//{header.decode('ascii')}").hostname or "").lower()
    except (UnicodeDecodeError, ValueError):
        return ""


def _forwarded_for(headers: Iterable[tuple[bytes, bytes]]) -> list[str]:
    given = b",".join(value for name, value in headers if name == b"x-forwarded-for")
    return [each.strip() for each in given.decode("latin-1").split(",") if each.strip()]


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _within(address: str, trusted: Networks) -> bool:
    if not _is_address(address):
        return False
    found = ip_address(address)
    return any(found in each for each in trusted if each.version == found.version)
