"""Numbers about the whole installation, each at a cost that has an end."""

from collections.abc import Sequence
from dataclasses import dataclass

from sexton.domain.partition import PARTITIONS
from sexton.store.statements import Statements

# So many rows are counted one by one; of more, as many pages are drawn at random.
MOST_ROWS = 20_000
MOST_PAGES = 1_000
MOST_NAMES = 100
MOST_LANES = 2_000
MOST_AMISS = 100_000
SILENT_FOR = 60.0


@dataclass(frozen=True, slots=True)
class Counted:
    """How many, by some names; `part` is how much of them was looked at."""

    rows: Sequence[tuple[tuple[str, ...], float]]
    part: float = 1.0

    @property
    def total(self) -> float:
        return sum(many for _, many in self.rows)


@dataclass(frozen=True, slots=True)
class Installation:
    """The cluster, and what is amiss with schedules."""

    nodes: int
    term: int
    leads: bool
    unowned: int
    late: int
    quarantined: int


class Gauges:
    """Statements for those who watch."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements

    async def jobs(self, at_most: int = MOST_ROWS) -> Counted | None:
        """By queue, task and state; None: there are more than that."""
        rows = await self._run.rows("gauge_jobs", at_most, MOST_NAMES, self._run.now())
        if rows and rows[0]["looked_at"] > at_most:
            return None
        return Counted([((row["queue"], row["task"], row["state"]), row["jobs"]) for row in rows])

    async def jobs_sampled(self, pages: int = MOST_PAGES) -> Counted:
        rows = await self._run.rows("gauge_jobs_sampled", pages, MOST_NAMES, self._run.now())
        return Counted(
            [((row["queue"], row["task"], row["state"]), row["jobs"]) for row in rows],
            rows[0]["part"] if rows else 1.0,
        )

    async def dead(self, at_most: int = MOST_ROWS) -> Counted | None:
        """By task; None: there are more than that."""
        rows = await self._run.rows("gauge_dead", at_most, MOST_NAMES)
        if rows and rows[0]["looked_at"] > at_most:
            return None
        return Counted([((row["task"],), row["jobs"]) for row in rows])

    async def dead_sampled(self, pages: int = MOST_PAGES) -> Counted:
        rows = await self._run.rows("gauge_dead_sampled", pages, MOST_NAMES)
        return Counted([((row["task"],), row["jobs"]) for row in rows])

    async def ages(self) -> list[tuple[str, float]]:
        """How long the oldest ready job of each queue has been due, the oldest first."""
        rows = await self._run.rows("gauge_queues", MOST_LANES, self._run.now())
        return [(row["queue"], row["age"]) for row in rows]

    async def workers(self) -> list[tuple[str, int]]:
        """How many live, by queue."""
        rows = await self._run.rows("gauge_workers", self._run.now())
        return [(row["queue"], row["workers"]) for row in rows]

    async def stuck(self) -> list[tuple[str, int]]:
        """Running jobs of silent workers, by task."""
        rows = await self._run.rows("gauge_stuck", SILENT_FOR, self._run.now())
        return [(row["task"], row["jobs"]) for row in rows]

    async def installation(self) -> Installation:
        row = await self._run.row("gauge_installation", PARTITIONS, MOST_AMISS, self._run.now())
        assert row is not None, "the leader's one row is made by a migration"
        return Installation(
            row["nodes"],
            row["term"],
            row["leads"],
            row["unowned"],
            row["late"],
            row["quarantined"],
        )
