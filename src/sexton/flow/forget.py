"""Endpoints that were written out as a target: kept as long as anything may still go there."""

import logging

from sexton.store import Store

log = logging.getLogger("sexton.http")

EVERY = 3600.0
UNUSED_FOR = 30 * 86_400.0
AT_ONCE = 10_000


async def forget_endpoints(store: Store, rules: object, guard: object) -> int:
    """The leader's errand. Two leaders at once do no harm."""
    forgotten = await store.endpoints.prune(UNUSED_FOR, AT_ONCE)
    if forgotten:
        log.info("%d endpoints that nobody has used for a month are forgotten", forgotten)
    return forgotten
