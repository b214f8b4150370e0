"""Jobs that a newer fire replaces: asked to end, even if whoever fired did not live to ask."""

from collections.abc import Sequence

from sexton.flow.wake import CANCEL
from sexton.store import Store

# So far back a leader looks each time; when it has just become one, or failed, at all there are.
RECENT = 120.0


class Replacer:
    """After the fire and not with it: whoever holds those jobs must not hold up a batch of fires.

    The new job waits for the old one in any case, so what is asked late is late and nothing else.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._looked_in: int | None = None  # in which term all was well

    async def replace(self, jobs: Sequence[int]) -> None:
        """Cancel these; a newer one waits for each of them to end."""
        asked = await self._store.jobs.cancel(jobs)
        workers = {worker for worker in asked.values() if worker is not None}
        await self._store.jobs.notify([f"{CANCEL}{worker}" for worker in sorted(workers)])

    async def ask_again(self, term: int) -> int:
        """Those that nobody asked; how many that were. For the leader, now and then."""
        recent = RECENT if self._looked_in == term else None
        self._looked_in = None
        jobs = await self._store.due.unreplaced(recent)
        if jobs:
            await self.replace(jobs)
        self._looked_in = term
        return len(jobs)
