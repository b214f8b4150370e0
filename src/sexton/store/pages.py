"""Lists that cost the same on every page, whatever is filtered and however far down it is."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Generic, TypeVar

import msgspec

from sexton.domain.job import State
from sexton.store.source import Row
from sexton.store.statements import Statements

T = TypeVar("T")

# A filter may leave nothing of a million jobs: a page looks at so many of each kind at most, and
# the next one goes on from there.
LOOK_AT = 10_000
# Of fires fewer, because each has its job looked up.
LOOK_AT_FIRES = 1_000
LAST_ID = 2**63 - 1
BEGINNING_OF_TIME = datetime(1, 1, 2, tzinfo=UTC)
END_OF_TIME = datetime(9999, 1, 1, tzinfo=UTC)
# Where an instant lies among the ids need not be known any better.
_NEAR_ENOUGH = 500
FINISHED: tuple[State, ...] = ("succeeded", "cancelled")
# These lists are walks along an index, and history has a bucket for every day: planning each anew
# would take ten times as long as the walk. Of two indexes the one that has fewer rows to walk over
# is right, however well the other's are sorted on disk.
PLANNED = "; ".join(
    f"set local {name} = {value}"
    for name, value in (
        ("plan_cache_mode", "force_generic_plan"),
        ("enable_seqscan", "off"),
        ("enable_bitmapscan", "off"),
        ("enable_hashjoin", "off"),
        ("enable_mergejoin", "off"),
        ("max_parallel_workers_per_gather", "0"),
        ("random_page_cost", "0"),
        ("seq_page_cost", "0"),
        ("jit", "off"),
    )
)


class JobLine(msgspec.Struct, frozen=True):
    """A job as one line of a list: what it is and where it stands, without what it carries."""

    id: int
    state: State
    task: str
    queue: str
    priority: int | None
    key: str | None
    tags: list[str]
    attempt: int
    created_at: datetime
    due_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    cancel_requested: bool
    error: str | None  # its beginning
    schedule: str | None
    fire_at: datetime | None
    after_job: int | None


class DeadLine(msgspec.Struct, frozen=True):
    """A dead job as one line of a list."""

    id: int
    task: str
    queue: str
    priority: int
    key: str | None
    tags: list[str]
    attempt: int
    reason: str
    error: str | None  # its beginning
    created_at: datetime
    died_at: datetime
    schedule: str | None
    fire_at: datetime | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the jobs of a list have in common; None: whatever it is."""

    state: State | None = None
    task: str | None = None
    queue: str | None = None
    tag: str | None = None
    key: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class WantedDead:
    """What the dead jobs of a list have in common; None: whatever it is."""

    task: str | None = None
    queue: str | None = None
    tag: str | None = None
    key: str | None = None
    reason: str | None = None
    error: str | None = None
    died_from: datetime | None = None
    died_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some lines, and where the next page begins: None if there is none."""

    lines: list[T] = field(default_factory=list)
    beyond: tuple[int | datetime, ...] | None = None


class QueueCounts(msgspec.Struct, frozen=True):
    """The live jobs of one queue, and for how many seconds the first has been ready."""

    queue: str
    waiting: int
    ready: int
    running: int
    oldest_ready_for: float | None


class Pages:
    """Statements about many jobs at a time."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements

    async def jobs(
        self,
        tenant: int,
        wanted: Wanted,
        *,
        before: int = LAST_ID,
        down_to: int = 0,
        looks_down_to: int = 0,
        limit: int,
        look_at: int = LOOK_AT,
    ) -> Page[JobLine]:
        """Newest first. `down_to` is where the list ends, `looks_down_to` where this page must.

        The cursor is the id before which the next page begins. Those that live are read first: one
        that ends meanwhile is seen twice rather than never.
        """
        place = tenant, before, max(down_to, looks_down_to), limit, look_at
        filters = wanted.state, wanted.task, wanted.queue, wanted.tag, wanted.key
        created = wanted.created_from, wanted.created_to
        reach = place[2]
        seen: dict[int, JobLine] = {}
        if wanted.state not in FINISHED:
            rows = await self._run.rows("jobs_page", *place, *filters, *created, self._run.now())
            reach = max(reach, rows[0]["reach"])
            seen = {row["id"]: _job(row) for row in rows if row["id"] is not None}
        if wanted.state in (None, *FINISHED):
            name = "finished_page_first" if tenant == 1 else "finished_page"
            rows = await self._run.rows(name, *place, *filters, *created)
            reach = max(reach, rows[0]["reach"])
            seen |= {row["id"]: _job(row) for row in rows if row["id"] is not None}
        lines = [seen[id] for id in sorted(seen, reverse=True) if id >= reach]
        if len(lines) > limit:
            lines = lines[:limit]
            reach = lines[-1].id
        return Page(lines, (reach,) if reach > down_to else None)

    async def jobs_of_schedule(
        self,
        schedule: int,
        tenant: int,
        wanted: Wanted,
        *,
        before: datetime = END_OF_TIME,
        limit: int,
        look_at: int = LOOK_AT_FIRES,
    ) -> Page[JobLine]:
        """The latest fire first; the cursor is the fire before which the next page begins."""
        rows = await self._run.rows(
            "schedule_jobs_page",
            *(schedule, tenant, before, limit, look_at),
            *(wanted.state, wanted.task, wanted.queue, wanted.tag, wanted.key),
            *(wanted.created_from, wanted.created_to, self._run.now()),
        )
        if not rows:
            return Page()
        reach = rows[0]["reach"]
        lines = [_job(row) for row in rows if row["id"] is not None]
        return Page(lines, None if reach is None else (reach,))

    async def dead(
        self,
        tenant: int,
        wanted: WantedDead,
        *,
        before: tuple[datetime, int] | None = None,
        limit: int,
        look_at: int = LOOK_AT,
    ) -> Page[DeadLine]:
        """The latest death first; the cursor is that of the last one looked at, and its id."""
        place = before or (END_OF_TIME, LAST_ID)
        if wanted.died_to is not None:
            place = min(place, (wanted.died_to, 0))
        rows = await self._run.rows(
            "dead_page",
            *(tenant, *place, limit, look_at),
            *(wanted.task, wanted.queue, wanted.tag, wanted.key, wanted.reason, wanted.error),
            wanted.died_from or BEGINNING_OF_TIME,
        )
        lines = [_dead(row) for row in rows if row["id"] is not None]
        reach = rows[0]["reach_at"], rows[0]["reach_id"]
        return Page(lines, None if reach[0] is None else reach)

    async def why_dead(self, tenant: int, id: int) -> str | None:
        reason: str | None = await self._run.value("dead_why", id, tenant)
        return reason

    async def queues(self, tenant: int) -> list[QueueCounts]:
        rows = await self._run.rows("queue_counts", tenant, self._run.now())
        return [QueueCounts(*row) for row in rows]

    # ── what only the owner of the tables can be asked ──────────────────────

    async def floor(self, before: int, look_at: int = LOOK_AT) -> int:
        """The id that so many rows, of all tenants, lie above."""
        floor: int = await self._run.value("page_floor", before, look_at)
        return floor

    async def only_tenant(self) -> bool:
        return bool(await self._run.value("only_tenant"))

    async def id_at(self, instant: datetime, *, after: bool = False) -> int:
        """An id near those that were handed out at an instant: before them, or after them."""
        row = await self._run.row("id_at", instant, _NEAR_ENOUGH)
        assert row is not None
        id: int = row["high" if after else "low"]
        return id

    async def names(self, schedules: Sequence[int]) -> dict[int, str]:
        rows = await self._run.rows("schedule_names", schedules)
        return {row["id"]: row["name"] for row in rows}


def _job(row: Row) -> JobLine:
    return JobLine(
        row["id"],
        row["state"],
        row["task"],
        row["queue"],
        row["priority"],
        row["key"],
        row["tags"] or [],
        row["attempt"],
        row["created_at"],
        row["due_at"],
        row["finished_at"],
        row["worker"],
        row["cancel_requested"],
        row["error"],
        row["schedule"],
        row["fire_at"],
        row["after_job"],
    )


def _dead(row: Row) -> DeadLine:
    return DeadLine(
        row["id"],
        row["task"],
        row["queue"],
        row["priority"],
        row["key"],
        row["tags"] or [],
        row["attempt"],
        row["reason"],
        row["error"],
        row["created_at"],
        row["died_at"],
        row["schedule"],
        row["fire_at"],
    )
