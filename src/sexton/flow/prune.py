"""Keeping the past within bounds: buckets made ahead, old ones dropped whole."""

import logging

from sexton.store import Store

log = logging.getLogger("sexton.prune")

BATCH = 5000  # small enough for a statement that nobody waits long for


async def run_once(store: Store) -> None:
    """Any process may do this at any time, many at once."""
    await store.history.make_buckets()
    while (bucket := await store.history.drop_bucket()) is not None:
        log.info("dropped %s: it is older than the retention", bucket)
    while await store.history.prune(BATCH):
        pass
    while await store.history.prune_gaps(BATCH) == BATCH:
        pass
