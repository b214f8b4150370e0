"""What an API process does beside answering: it notes which keys are used, and forgets what is old.

Every process does so; two at once do no harm.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from sexton.api.access import Access
from sexton.api.idempotency import KEPT_FOR
from sexton.flow.keep import keep_doing
from sexton.store import Store

log = logging.getLogger("sexton.api")

NOTE_EVERY = 10.0
FORGET_EVERY = 600.0
LOG_KEPT_FOR = 400 * 86400.0
AT_ONCE = 5000


def errands(store: Store, access: Access, stop: asyncio.Event) -> list[Coroutine[Any, Any, None]]:
    """As the owner of the tables, for all tenants."""

    async def note() -> None:
        if used := access.used():
            await store.keys.used(used)

    loops: tuple[tuple[str, Callable[[], Awaitable[object]], float], ...] = (
        ("noting which keys are used", note, NOTE_EVERY),
        ("forgetting old answers", lambda: forget_answers(store), FORGET_EVERY),
        ("forgetting old lines of the log", lambda: forget_log(store), FORGET_EVERY),
    )
    return [keep_doing(name, step, every=s, stop=stop, log=log) for name, step, s in loops]


async def forget_answers(store: Store, older_than: float = KEPT_FOR) -> int:
    """Answers to requests with an Idempotency-Key; how many."""
    return await _until_few(lambda: store.requests.forget(older_than, AT_ONCE))


async def forget_log(store: Store, older_than: float = LOG_KEPT_FOR) -> int:
    """Lines of the audit log; how many."""
    return await _until_few(lambda: store.requests.forget_log(older_than, AT_ONCE))


async def _until_few(some: Callable[[], Awaitable[int]]) -> int:
    """Some at a time, each time in a transaction of its own."""
    all = 0
    while (many := await some()) > 0:
        all += many
        if many < AT_ONCE:
            break
    return all
