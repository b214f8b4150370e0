"""Jobs that a newer fire replaces: asked to end, even if whoever fired did not live to ask."""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence

import asyncpg

from sexton.flow.keep import QUICKLY, took_too_long
from sexton.flow.wake import CANCEL
from sexton.store import Store
from sexton.store.connection import ITS_FAULT, is_lost, is_transient, say

log = logging.getLogger("sexton.replace")

AT_ONCE = 500
# Whom somebody has locked, as who claims it has for a millisecond: asked again so often by whoever
# fired, and then by the leader.
TRIES = 5
AGAIN_AFTER = 0.05
# Whom PostgreSQL will not have asked, as a trigger of the user's own says: not tried all the time.
REFUSED_FOR = 60.0
MANY_REFUSED = 10_000

Asked = dict[int, int | None]  # each with the worker that is to end it; None: it has ended


class Replacer:
    """After the fire and not with it: whoever holds those jobs must not hold up a batch of fires.

    A fire writes down whom it replaces, in its own transaction. Whoever fired asks them right away,
    and the leader asks whoever is still written down. The new job waits for the old one in any
    case, so what is asked late is late and nothing else; and to ask twice is to ask once.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._at_once = AT_ONCE  # fewer while it takes too long
        self._noted: dict[int, int] = {}  # how often each is to be tried yet
        self._refused: dict[int, float] = {}  # until when each is not tried
        self._turn = asyncio.Lock()
        self.wake = asyncio.Event()

    def note(self, jobs: Iterable[int]) -> None:
        """These are to be asked soon."""
        self._note(dict.fromkeys(jobs, TRIES))

    def _note(self, tries: Mapping[int, int]) -> None:
        for job, left in tries.items():
            self._noted[job] = max(left, self._noted.get(job, 0))
        self.wake.set()

    async def ask(self) -> None:
        """Whom this node has noted; if it fails, the leader will."""
        async with self._turn:
            self.wake.clear()
            noted, self._noted = self._noted, {}
            jobs = sorted(noted)
            while jobs:
                batch, jobs = jobs[: self._at_once], jobs[self._at_once :]
                _, held = await self._ask(batch)
                if again := {job: noted[job] - 1 for job in held if noted[job] > 1}:
                    asyncio.get_running_loop().call_later(AGAIN_AFTER, self._note, again)

    async def ask_the_rest(self) -> int:
        """Whoever is written down; how many of them lived. For the leader, now and then."""
        last = lived = 0
        while jobs := await self._store.due.replaced(last, self._at_once):
            asked, _ = await self._ask(jobs)
            lived += len(asked)
            last = jobs[-1]
        return lived

    async def _ask(self, jobs: Sequence[int]) -> tuple[Asked, set[int]]:
        """Who was asked, and whom somebody has locked: they hold up nobody, and wait."""
        to_ask = await self._store.due.to_ask(jobs)
        held = await self._store.jobs.locked(to_ask) if to_ask else set()
        now = time.monotonic()
        free = [job for job in to_ask if job not in held and self._refused.get(job, now) <= now]
        asked, taken = await self._cancel(free)
        if workers := {worker for worker in asked.values() if worker is not None}:
            await self._store.jobs.notify([f"{CANCEL}{worker}" for worker in sorted(workers)])
        await self._store.due.cross_out(jobs)
        return asked, held | taken

    async def _cancel(self, jobs: Sequence[int]) -> tuple[Asked, set[int]]:
        """The same, of those that were free; one that cannot be asked holds up no other."""
        if not jobs:
            return {}, set()
        began = time.monotonic()
        try:
            asked = await self._store.jobs.cancel(jobs)
        except Exception as error:
            if took_too_long(error):  # fewer the next time; it may have been done after all
                self._at_once = max(1, len(jobs) // 2)
                if len(jobs) == 1:
                    self._refuse(jobs[0], error)
            if is_lost(error) or not (is_transient(error) or isinstance(error, ITS_FAULT)):
                raise
            return await self._cancel_fewer(jobs, error)
        if time.monotonic() - began < QUICKLY:
            self._at_once = min(AT_ONCE, 2 * self._at_once)
        return asked, set()

    async def _cancel_fewer(self, jobs: Sequence[int], error: Exception) -> tuple[Asked, set[int]]:
        """Without those that are locked; if that is none, one half and then the other."""
        if isinstance(error, asyncpg.LockNotAvailableError) and (
            held := await self._store.jobs.locked(jobs)
        ):
            asked, taken = await self._cancel(await self._still([*{*jobs} - held]))
            return asked, held | taken
        if len(jobs) == 1:
            if is_transient(error):
                return {}, {*jobs}
            self._refuse(jobs[0], error)
            return {}, set()
        middle = len(jobs) // 2
        one, held_one = await self._cancel(await self._still(jobs[:middle]))
        two, held_two = await self._cancel(await self._still(jobs[middle:]))
        return one | two, held_one | held_two

    async def _still(self, jobs: Sequence[int]) -> list[int]:
        """Those that are to be asked, after a while: others may have ended and been redriven."""
        return await self._store.due.to_ask(jobs) if jobs else []

    def _refuse(self, job: int, error: Exception) -> None:
        now = time.monotonic()
        if job not in self._refused:
            log.error("job %d is to be replaced, and cannot be asked to end: %s", job, say(error))
            if len(self._refused) >= MANY_REFUSED:
                self._refused = {job: at for job, at in self._refused.items() if at > now}
        self._refused[job] = now + REFUSED_FOR
