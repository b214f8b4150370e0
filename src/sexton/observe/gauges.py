"""What is true of the whole installation, asked of the database: seldom, and in bounded time."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator

import asyncpg
from prometheus_client.core import Metric

from sexton.errors import Unavailable
from sexton.flow.keep import took_too_long
from sexton.observe.catalogue import number, numbers
from sexton.store import Store
from sexton.store.connection import say
from sexton.store.gauges import MOST_NAMES, MOST_ROWS, Counted, Installation

log = logging.getLogger("sexton.observe")

EVERY = 10.0
# A scrape does not wait longer than this; what took longer is there the next time, or left out.
SCRAPE_WAITS = 4.0
OTHER = "other"


class Gauges:
    """At most one look every ten seconds, however often and by whomever it is asked for.

    Every worker and node would see the same, so only some look: `wanted` is told what is known of
    the cluster, and says whether this process is one of them.
    """

    def __init__(self, store: Store, wanted: Callable[[Installation], bool]) -> None:
        self._store = store
        self._wanted = wanted
        self._families: list[Metric] = []
        self._looked_at = -EVERY
        self._took = 0.0
        self._errors = 0
        self._looking: asyncio.Task[None] | None = None
        # What was too much to be counted one by one the last time is not tried that way again.
        self._many: set[str] = set()

    async def fresh(self) -> None:
        """Look, unless that was done a moment ago; never raises."""
        if self._looking is None or self._looking.done():
            if time.monotonic() - self._looked_at < EVERY:
                return
            self._looking = asyncio.create_task(self._look())
        await asyncio.wait([self._looking], timeout=SCRAPE_WAITS)

    def collect(self) -> Iterator[Metric]:
        if time.monotonic() - self._looked_at < 3 * EVERY:  # nothing is better than long ago
            yield from self._families
        yield number("sexton_database_errors", self._errors)

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _look(self) -> None:
        began = time.monotonic()
        try:
            families = await self._families_now()
        except (Unavailable, asyncpg.PostgresError, OSError) as error:
            self._errors += 1
            log.info("the database could not be looked at: %s", say(error))
            return
        self._looked_at = time.monotonic()
        if families:
            families.append(number("sexton_database_seconds", self._looked_at - began))
        self._families = families

    async def _families_now(self) -> list[Metric]:
        gauges = self._store.gauges
        known = await gauges.installation()
        if not self._wanted(known):
            return []
        families = [
            number("sexton_nodes", known.nodes),
            number("sexton_leader", known.leads),
            number("sexton_leader_term", known.term),
            number("sexton_partitions_unowned", known.unowned),
            number("sexton_schedules_late", known.late),
            number("sexton_schedules_quarantined", known.quarantined),
        ]
        jobs = await self._counted("jobs", gauges.jobs, gauges.jobs_sampled)
        dead = await self._counted("dead", gauges.dead, gauges.dead_sampled)
        served = await gauges.workers()
        ages = _folded(_of_every_queue(await gauges.ages(), served), max)
        workers = _folded(served, max)
        stuck = _folded(await gauges.stuck(), lambda one, two: one + two)
        families += [
            numbers("sexton_jobs", jobs.rows),
            number("sexton_jobs_sampled", jobs.part),
            numbers("sexton_dead", dead.rows),
            numbers("sexton_queue_age_seconds", ages),
            numbers("sexton_workers", workers),
            numbers("sexton_stuck", stuck or [((OTHER,), 0)]),
        ]
        return families

    async def _counted(
        self,
        what: str,
        all_of_them: Callable[[], Awaitable[Counted | None]],
        sample: Callable[[], Awaitable[Counted]],
    ) -> Counted:
        if what not in self._many:
            try:
                counted = await all_of_them()
            except (Unavailable, asyncpg.QueryCanceledError) as error:
                if not took_too_long(error):
                    raise
                counted = None  # dead rows by the million, under somebody's snapshot
            if counted is not None:
                return counted
            self._many.add(what)
        counted = await sample()
        if counted.total < MOST_ROWS:
            self._many.discard(what)
        return counted


def _of_every_queue(
    ages: list[tuple[str, float]], served: list[tuple[str, int]]
) -> list[tuple[str, float]]:
    """A queue that somebody serves and that is empty is not behind: whoever starts workers by its
    age must be told so, or would never end one."""
    behind = {queue for queue, _ in ages}
    return ages + [(queue, 0.0) for queue, _ in served if queue not in behind]


def _folded(
    rows: list[tuple[str, float]] | list[tuple[str, int]], fold: Callable[[float, float], float]
) -> list[tuple[tuple[str], float]]:
    """The first hundred by name, all others as one."""
    kept: dict[str, float] = {}
    for nth, (name, value) in enumerate(rows):
        shown = name if nth < MOST_NAMES and not name.startswith("http:") else OTHER
        kept[shown] = fold(kept[shown], value) if shown in kept else value
    return [((name,), value) for name, value in kept.items()]
