"""Which addresses jobs may be delivered to: the open Internet, and what the operator allows.

A target is somebody's input, and the worker that connects to it stands inside a network: without
this, a schedule could be pointed at the database, a neighbour or the cloud's metadata service.
"""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from sexton.errors import ConfigurationError

IPv4 = ipaddress.IPv4Address
IPv6 = ipaddress.IPv6Address
Address = IPv4 | IPv6
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# IANA's registry of special-purpose addresses, without what is meant to be reached from anywhere,
# and one address that a cloud keeps for itself among the public ones.
_NOT_PUBLIC_V4 = [
    (ipaddress.IPv4Network(network), why)
    for network, why in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by a carrier's customers"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "a cloud's own"),
        ("169.254.0.0/16", "link-local, where clouds keep their metadata"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "a relay to 6to4"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
]
# Of IPv6 only one eighth is given out at all; the rest of the table is for what to say.
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC_V6 = [
    (ipaddress.IPv6Network(network), why)
    for network, why in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::ffff:0:0/96", "an IPv4 address in disguise"),
        ("::ffff:0:0:0/96", "an IPv4 address in disguise"),
        ("::/96", "an IPv4 address in disguise"),
        ("64:ff9b:1::/48", "a translated one of a private network"),
        ("100::/64", "discarded"),
        ("2001::/32", "a Teredo tunnel"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "for documentation"),
        ("2002::/16", "a 6to4 tunnel"),
        ("3fff::/20", "for documentation"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
]
# Where a network has no IPv4 of its own, every IPv4 host is reached through this prefix.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_ISATAP = (0x00005EFE, 0x02005EFE)
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")


def why_not_public(address: Address) -> str | None:
    """What is special about an address that not everybody on the Internet could reach."""
    if isinstance(address, IPv4):
        return next((why for network, why in _NOT_PUBLIC_V4 if address in network), None)
    if address.scope_id is not None:
        return "of one link only"
    if address in _NAT64:
        return why_not_public(_last_32(address))
    for network, why in _NOT_PUBLIC_V6:
        if address in network:
            return why
    if address not in _GLOBAL_V6:
        return "reserved"
    if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
        return why_not_public(_last_32(address))
    return None


def _last_32(address: IPv6) -> IPv4:
    return IPv4(int(address) & 0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class Allowed:
    """The operator's exceptions: host names, `*.` and the end of one, addresses and networks."""

    hosts: frozenset[str] = frozenset()
    ends: tuple[str, ...] = ()
    networks: tuple[Network, ...] = ()

    @classmethod
    def read(cls, text: str | None) -> Self:
        """From a list with commas, as the setting http_allow has it."""
        hosts, ends, networks = set(), [], []
        for word in re.split(r"[,\s]+", text or ""):
            if not word:
                continue
            network = _network(word)
            if network is not None:
                networks.append(network)
            elif not NAME.fullmatch(word.lower().removeprefix("*.")):
                raise ConfigurationError(
                    f"http_allow: {word!r} is neither a host, as in hooks.example.com or "
                    "*.example.com, nor an address or a network, as in 10.1.0.0/16"
                )
            elif word.startswith("*."):
                ends.append(word[1:].lower())
            else:
                hosts.add(word.lower())
        return cls(frozenset(hosts), tuple(ends), tuple(networks))

    def host(self, name: str) -> bool:
        """Whether the operator vouches for whatever address this name has."""
        return name in self.hosts or name.endswith(self.ends)

    def address(self, address: Address) -> bool:
        return any(
            address.version == network.version and address in network for network in self.networks
        )


def why_refused(addresses: Iterable[str], allowed: Allowed) -> str | None:
    """Why not to connect to a host with these addresses; one that is wrong is enough.

    Whoever answers for the name might give the good one today and the other tomorrow.
    """
    for text in addresses:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return f"{text!r:.60} is not an address"
        why = None if allowed.address(address) else why_not_public(address)
        if why is not None:
            return f"{address} is {why}"
    return None


def _network(word: str) -> Network | None:
    try:
        return ipaddress.ip_network(word)
    except ValueError as error:
        if "/" in word:
            raise ConfigurationError(f"http_allow: {word!r} is not a network ({error})") from None
        return None
