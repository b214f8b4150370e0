"""Jobs that a newer fire replaces: asked to end, even if whoever fired did not live to ask."""

import asyncio
from collections.abc import Iterable, Sequence

import asyncpg

from sexton.flow.wake import CANCEL
from sexton.store import Store

AT_ONCE = 500


class Replacer:
    """After the fire and not with it: whoever holds those jobs must not hold up a batch of fires.

    A fire writes down whom it replaces, in its own transaction. Whoever fired asks them right away,
    and the leader asks whoever is still written down. The new job waits for the old one in any
    case, so what is asked late is late and nothing else; and to ask twice is to ask once.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._noted: set[int] = set()
        self.wake = asyncio.Event()

    def note(self, jobs: Iterable[int]) -> None:
        """These are to be asked soon."""
        self._noted.update(jobs)
        self.wake.set()

    async def ask(self) -> None:
        """Whom this node has noted; if it fails, the leader will."""
        self.wake.clear()
        jobs, self._noted = sorted(self._noted), set()
        for first in range(0, len(jobs), AT_ONCE):
            await self._ask(jobs[first : first + AT_ONCE])

    async def ask_the_rest(self) -> int:
        """Whoever is written down; how many of them lived. For the leader, now and then."""
        last = lived = 0
        while jobs := await self._store.due.replaced(last, AT_ONCE):
            lived += await self._ask(jobs)
            last = jobs[-1]
        return lived

    async def _ask(self, jobs: Sequence[int]) -> int:
        """All but those that somebody has locked: they are asked next time, and hold up nobody."""
        locked = await self._store.jobs.locked(jobs)
        free = [job for job in jobs if job not in locked]
        if not free:
            return 0
        try:
            asked = await self._store.jobs.cancel(free)
        except asyncpg.LockNotAvailableError:
            return 0  # just now
        workers = {worker for worker in asked.values() if worker is not None}
        await self._store.jobs.notify([f"{CANCEL}{worker}" for worker in sorted(workers)])
        await self._store.due.asked(free)
        return len(asked)
