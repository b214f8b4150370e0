"""Keeping the past within bounds: buckets made ahead, old ones dropped whole."""

import logging

from sexton.store import Store

log = logging.getLogger("sexton.prune")

BATCH = 5000  # small enough for a statement that nobody waits long for


async def run_once(store: Store) -> None:
    """Any process may do this at any time, many at once."""
    await store.history.make_buckets()
    dropped = await store.history.drop_buckets()
    if dropped:
        log.info("dropped %d days of history that are older than the retention", dropped)
    while await store.history.prune(BATCH):
        pass
