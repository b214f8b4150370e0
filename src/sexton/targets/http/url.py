"""Where a delivery goes, as its author wrote it: read once, by the parser that also connects.

Two parsers that disagree about a URL are how checks are got around, so what is odd is refused, even
where it would mean something harmless.
"""

import ipaddress
import re
from dataclasses import dataclass

from yarl import URL

from sexton.domain.address import NAME, Allowed, why_refused
from sexton.errors import InvalidTarget

LONGEST = 2000
_SHAPE = re.compile(r"(https?)://([^/?#]*)([/?#].*)?", re.IGNORECASE | re.DOTALL)
# Spaces, control characters, and what some take for a slash.
_NEVER = re.compile(r"[\x00-\x20\x7f-\xa0\\\u2028\u2029\ufeff\ud800-\udfff]")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_LONGEST_HOST = 253
_THIS_HOST = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


@dataclass(frozen=True, slots=True)
class Destination:
    """A URL that may be connected to, as far as can be told without asking for its addresses."""

    url: URL
    host: str
    literal: bool  # the host is an address, and is checked already

    @property
    def place(self) -> str:
        """The host with its port: what answers or does not, whatever the path."""
        return f"{self.host}:{self.url.port}"


def destination(text: str, allowed: Allowed) -> Destination:
    """Read a URL, or say what is wrong with it."""
    if not isinstance(text, str) or not text:
        raise InvalidTarget("url: give a URL that begins with https:// or http://")
    if len(text) > LONGEST:
        raise InvalidTarget(f"url: {len(text):,} characters are more than the {LONGEST:,} allowed")
    if _NEVER.search(text):
        raise InvalidTarget("url: spaces, control characters and backslashes are not allowed")
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        raise InvalidTarget("url: it must begin with https:// or http:// and name a host")
    authority = shape[2]
    if "@" in authority:
        raise InvalidTarget(
            "url: a name and a password do not belong there: put them into a header, such as "
            "Authorization"
        )
    if "%" in authority:
        raise InvalidTarget("url: the host is written without % and without the name of a link")
    try:
        url = URL(text).with_fragment(None)
        host, port = (url.raw_host or "").lower(), url.port
    except (ValueError, TypeError) as error:
        raise InvalidTarget(f"url: {error}") from None
    if not port:
        raise InvalidTarget("url: 0 is not a port")
    address = _address(host, authority)
    if address is None:
        _check_name(host, authority, allowed)
    elif (why := why_refused([address], allowed)) is not None:
        raise InvalidTarget(f"url: {why}; {_WHAT_TO_DO}")
    return Destination(url, host, address is not None)


def _address(host: str, authority: str) -> str | None:
    """The address that the host is, or None for a name; odd ways to write one are refused."""
    if authority.startswith("["):
        try:
            return str(ipaddress.IPv6Address(host))
        except ValueError:
            raise InvalidTarget(f"url: {host!r:.60} is not an IPv6 address") from None
    last = host.removesuffix(".").rpartition(".")[2]
    if not _NUMBER.fullmatch(last):
        return None
    try:
        return str(ipaddress.IPv4Address(host))
    except ValueError:
        raise InvalidTarget(
            f"url: {host!r:.60} looks like an address and is none: write it like 192.0.2.1"
        ) from None


def _check_name(host: str, authority: str, allowed: Allowed) -> None:
    if host.endswith("."):
        raise InvalidTarget("url: write the host without the dot at its end")
    if len(host) > _LONGEST_HOST or not NAME.fullmatch(host):
        raise InvalidTarget(f"url: {host!r:.60} is not the name of a host")
    if not authority.isascii() and "xn--" not in host:
        # Signs that only look like letters, digits or dots, and become some.
        raise InvalidTarget(f"url: write the host as {host!r:.60}, in plain letters")
    local = host in _THIS_HOST or host.endswith(".localhost")
    if local and not allowed.host(host):
        raise InvalidTarget(f"url: {host} is this host itself; {_WHAT_TO_DO}")


_WHAT_TO_DO = "only the operator can allow that, with SEXTON_HTTP_ALLOW"
