"""Ports for those who must find theirs again after a restart."""

import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST, _USUAL_LOW, _LAST = 20_000, 32_768, 65_535
_given: set[int] = set()


def free_port() -> int:
    """One that nobody listens on, and that the kernel gives to no near end of a connection.

    Whoever tries a closed port among those again and again takes it away from its owner in the end,
    by being connected to itself.
    """
    chance = random.SystemRandom()
    while True:
        port = chance.randint(*_outside())
        if port not in _given and _is_free(port):
            _given.add(port)
            return port


def _outside() -> tuple[int, int]:
    low, high = _USUAL_LOW, 60_999
    if _RANGE.exists():
        low, high = map(int, _RANGE.read_text().split())
    if low > _FIRST + 1000:
        return _FIRST, low - 1
    return (high + 1, _LAST) if high < _LAST - 1000 else (1024, _LAST)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
