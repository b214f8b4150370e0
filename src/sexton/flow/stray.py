"""Claims in a worker's name that it does not know of: nobody else puts them back while it lives."""

import logging
import time
from collections.abc import Iterable, Mapping

from sexton.domain.transitions import RELEASED
from sexton.flow.fetch import Fetcher
from sexton.flow.outage import Outage
from sexton.store import Store

log = logging.getLogger("sexton.worker")

# A claim whose answer was lost may be committed a while after that.
EVERY = 10.0
AFTER_OUTAGE = 600.0
# Without an outage nothing should have gone astray.
SELDOM = 60.0


class Strays:
    """Looks for them, and puts back those of which it is certain.

    That is what was suspected the time before too and is no claim that has been on its way since:
    a task may have blocked the loop between the answer and our hearing it.
    """

    def __init__(
        self,
        store: Store,
        held: Mapping[int, object],
        fetchers: Iterable[Fetcher],
        outage: Outage,
        patience: float,
    ) -> None:
        self._store = store
        self._held = held  # by fence
        self._fetchers = fetchers
        self._outage = outage
        self._patience = patience
        self._suspects: set[int] = set()
        self._looked_at = -SELDOM

    async def run_once(self, worker: int | None) -> None:
        now = time.monotonic()
        often = self._suspects or self._outage.within(AFTER_OUTAGE)
        if worker is None or (not often and now < self._looked_at + SELDOM):
            return
        found = await self._store.jobs.strays(worker, list(self._held), self._patience + EVERY)
        strays = [(id, fence) for id, fence in found if fence not in self._held]
        claiming = [each.claiming_since for each in self._fetchers]
        if any(since is not None and since <= self._looked_at for since in claiming):
            return
        certain = [(id, fence) for id, fence in strays if fence in self._suspects]
        self._suspects, self._looked_at = {fence for _, fence in strays}, now
        if certain:
            log.warning(
                "%d claims were made but never heard of here; putting them back", len(certain)
            )
            await self._store.jobs.settle([(id, fence, RELEASED) for id, fence in certain])
