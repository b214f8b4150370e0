"""A fault-injecting TCP proxy that knows where PostgreSQL's messages begin and end."""

from .faults import (
    Blackhole,
    Fault,
    HalfOpen,
    Latency,
    LoseReply,
    Refuse,
    Tally,
    Trip,
    Tripped,
)
from .proxies import Proxies, ProxyError, Superseded
from .wire import shortened

__all__ = [
    "Blackhole",
    "Fault",
    "HalfOpen",
    "Latency",
    "LoseReply",
    "Proxies",
    "ProxyError",
    "Refuse",
    "Superseded",
    "Tally",
    "Trip",
    "Tripped",
    "shortened",
]
