"""The service from afar: a client for it, and a worker that needs nothing but its URL and a key.

Everything here goes over the documented HTTP API, and anything else could be written the same way.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sexton.remote.errors import Busy, Conflict, Denied, Invalid, NotFound, Refused, Stale
    from sexton.remote.job import RemoteJob
    from sexton.remote.server import Server
    from sexton.remote.worker import RemoteWorker

__all__ = [
    "Busy",
    "Conflict",
    "Denied",
    "Invalid",
    "NotFound",
    "Refused",
    "RemoteJob",
    "RemoteWorker",
    "Server",
    "Stale",
]

# Imported when first used: the command line has the errors and values of this package also where
# it speaks to no service.
_HOMES = {"RemoteJob": "job", "RemoteWorker": "worker", "Server": "server"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(f"{__name__}.{_HOMES.get(name, 'errors')}")
    value = globals()[name] = getattr(home, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
