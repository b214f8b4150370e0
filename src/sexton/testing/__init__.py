"""For the tests of applications that use Sexton: the real engine, driven by hand.

    async def test_an_invoice_is_sent(sexton_harness):
        harness = sexton_harness(app)                  # its own database, a clock that stands still
        await place_order(7)                           # enqueues
        await harness.assert_enqueued(send_invoice, arguments={"invoice_id": 7})
        await harness.exhaust()                        # runs it, its retries and what it enqueues

Names are imported when they are first used: pytest loads this package in every project it is
installed in, whether that project's tests use Sexton or not.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sexton.testing.binding import bound
    from sexton.testing.blocking import BlockingHarness
    from sexton.testing.clock import ManualClock
    from sexton.testing.databases import DatabaseServer
    from sexton.testing.harness import Harness
    from sexton.testing.plugin import HarnessFactory
    from sexton.testing.ran import Endless, HarnessError, Ran, TaskFailed

__all__ = [
    "BlockingHarness",
    "DatabaseServer",
    "Endless",
    "Harness",
    "HarnessError",
    "HarnessFactory",
    "ManualClock",
    "Ran",
    "TaskFailed",
    "bound",
]

_HOMES = {
    "BlockingHarness": "blocking",
    "DatabaseServer": "databases",
    "Endless": "ran",
    "Harness": "harness",
    "HarnessError": "ran",
    "HarnessFactory": "plugin",
    "ManualClock": "clock",
    "Ran": "ran",
    "TaskFailed": "ran",
    "bound": "binding",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
