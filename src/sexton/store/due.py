"""The path of a fire: what is due, fired, late."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import asyncpg
import msgspec

from sexton.domain.fires import LATE_AFTER
from sexton.domain.schedule import FireKind
from sexton.domain.when.calendar import Calendar, CalendarRef
from sexton.store.statements import Statements


class DueRow(msgspec.Struct, gc=False):
    """A schedule as it was read, with instants as seconds since 1970."""

    id: int
    stamp: int
    rule: int
    next_fire: float
    scheduled: float | None
    anchor: float
    fires_left: int | None
    last_job: int | None
    live: str | None
    tenant: int = 1


@dataclass(slots=True)
class Batch:
    """Decisions about many schedules, a list for each column as `sexton.fire` wants them."""

    ids: list[int] = field(default_factory=list)
    stamps: list[int] = field(default_factory=list)
    were_due: list[float] = field(default_factory=list)
    firing: list[bool] = field(default_factory=list)
    fires_at: list[float] = field(default_factory=list)
    scheduled_for: list[float] = field(default_factory=list)
    next_at: list[float | None] = field(default_factory=list)
    next_scheduled: list[float | None] = field(default_factory=list)
    stay_late: list[bool] = field(default_factory=list)
    latest_jobs: list[int | None] = field(default_factory=list)
    other_jobs: list[str | None] = field(default_factory=list)
    live_limits: list[int | None] = field(default_factory=list)
    serials: list[bool] = field(default_factory=list)
    gap_ids: list[int] = field(default_factory=list)
    gaps_first: list[float] = field(default_factory=list)
    gaps_last: list[float] = field(default_factory=list)
    gaps_fires: list[int | None] = field(default_factory=list)
    gaps_decision: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def again_at(self) -> float:
        """When the first of these schedules is due again."""
        return min((each for each in self.next_at if each is not None), default=math.inf)

    def columns(self) -> list[list[object]]:
        return [getattr(self, name) for name in _SCHEDULES + _GAPS]

    def halves(self) -> tuple["Batch", "Batch"]:
        """The same decisions in two batches."""
        middle = len(self) // 2
        return self.part(0, middle), self.part(middle, len(self))

    def part(self, first: int, end: int) -> "Batch":
        return self._with({name: getattr(self, name)[first:end] for name in _SCHEDULES})

    def only(self, ids: Collection[int]) -> "Batch":
        """The decisions about these schedules."""
        wanted = set(ids)
        lines = [n for n, id in enumerate(self.ids) if id in wanted]
        return self._with({name: [getattr(self, name)[n] for n in lines] for name in _SCHEDULES})

    def unfired(self) -> "Batch":
        """The same, moved on without a fire."""
        return replace(self, firing=[False] * len(self))

    def _with(self, columns: dict[str, list[Any]]) -> "Batch":
        ours = set(columns["ids"])
        kept = [n for n, id in enumerate(self.gap_ids) if id in ours]
        gaps = {name: [getattr(self, name)[n] for n in kept] for name in _GAPS}
        return Batch(**columns, **gaps)


_SCHEDULES = (
    *("ids", "stamps", "were_due", "firing", "fires_at", "scheduled_for", "next_at"),
    *("next_scheduled", "stay_late", "latest_jobs", "other_jobs", "live_limits", "serials"),
)
_GAPS = ("gap_ids", "gaps_first", "gaps_last", "gaps_fires", "gaps_decision")


@dataclass(frozen=True, slots=True)
class Guard:
    """Who fires: a node by its epoch, or the leader (no epoch) by its term."""

    node: int
    epoch: int | None
    term: int


@dataclass(frozen=True, slots=True)
class Fired:
    """How many schedules were moved on, how many jobs that made, and which lived already."""

    moved: int
    jobs: int
    still_live: tuple[int, ...]


class Due:
    """Statements about schedules that are due."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements

    async def due(
        self,
        partitions: Sequence[int],
        *,
        ahead: float,
        late: float,
        each: int,
        tenant: int | None = None,
    ) -> list[DueRow]:
        """What is due now or within a moment, at most `each` of a partition, oldest first."""
        rows = await self._run.rows("due", partitions, ahead, late, each, tenant, self._run.now())
        return [DueRow(*row) for row in rows]

    async def due_of(
        self, limits: Mapping[int, int], partitions: Sequence[int], *, ahead: float, late: float
    ) -> list[DueRow]:
        """The oldest of each of these tenants, so many of each and perhaps some more."""
        rows: list[DueRow] = []
        if (first := limits.get(1)) is not None:
            each = -(-first // len(partitions))
            rows = await self.due(partitions, ahead=ahead, late=late, each=each, tenant=1)
        others = {tenant: most for tenant, most in limits.items() if tenant != 1}
        found = await self._run.rows(
            "due_of_tenants",
            *(list(others), list(others.values()), partitions, ahead, late, self._run.now()),
        )
        return rows + [DueRow(*row) for row in found]

    async def next_in(
        self, partitions: Sequence[int], *, within: float, late: float = LATE_AFTER
    ) -> float | None:
        """Seconds until the next is due, or since it was; None: none is within so long."""
        due_in: float | None = await self._run.value(
            "due_next", partitions, late, within, self._run.now()
        )
        return due_in

    async def fire(self, guard: Guard, kind: FireKind, batch: Batch) -> Fired:
        """Move on, record and make jobs, all or nothing; whoever lost its right does nothing."""
        try:
            return await self._fire(guard, kind, batch)
        except asyncpg.CheckViolationError as error:
            if error.constraint_name is not None:  # a row without a bucket violates no named one
                raise
            fires = zip(batch.fires_at, batch.firing, strict=True)
            for day in sorted({_day(at) for at, fired in fires if fired}):
                await self.make_buckets(day, day)
            return await self._fire(guard, kind, batch)

    async def _fire(self, guard: Guard, kind: FireKind, batch: Batch) -> Fired:
        row = await self._run.row(
            "fire",
            *(guard.node, guard.epoch, guard.term, kind),
            *batch.columns(),
            self._run.now(),
        )
        assert row is not None
        return Fired(row["moved"], row["fired"], tuple(row["still_live"] or ()))

    async def make_buckets(self, first: date, last: date) -> None:
        await self._run.rows("make_fire_buckets", first, last)

    async def unlocked(self, ids: Sequence[int]) -> list[int]:
        """Those that nobody else holds."""
        return [row["schedule_id"] for row in await self._run.rows("unlocked", ids)]

    async def mark_late(
        self, guard: Guard, partitions: Sequence[int], late: float, each: int
    ) -> int:
        """Hand what is behind to the leader; returns how many schedules."""
        marked: int = await self._run.value(
            "mark_late", guard.node, guard.epoch, partitions, late, each, self._run.now()
        )
        return marked

    async def late(self, limit: int, after_tenant: int = 0) -> list[DueRow]:
        """What is to be caught up next: every tenant has its turn, and in it the oldest."""
        return [DueRow(*row) for row in await self._run.rows("late", limit, after_tenant)]

    async def quarantine(self, guard: Guard, row_id: int, stamp: int, why: str) -> str | None:
        """The name of the schedule that was taken out; None if it has changed meanwhile."""
        name: str | None = await self._run.value(
            "quarantine",
            *(guard.node, guard.epoch, guard.term, row_id, stamp, why, self._run.now()),
        )
        return name

    async def rules(self, ids: Collection[int]) -> dict[int, str]:
        return {row["id"]: row["definition"] for row in await self._run.rows("rules", list(ids))}

    async def calendars(self, refs: Collection[CalendarRef]) -> Mapping[CalendarRef, Calendar]:
        texts = await self.calendar_texts(refs)
        return {ref: Calendar.from_json(text) for ref, text in texts.items()}

    async def calendar_texts(self, refs: Collection[CalendarRef]) -> dict[CalendarRef, str]:
        if not refs:
            return {}
        rows = await self._run.rows("calendars_by_version", [ref.version for ref in refs])
        return {
            CalendarRef(row["name"], row["version"]): row["definition"]
            for row in rows
            if row["definition"]
        }

    async def let_go(self, after: int, limit: int) -> tuple[int, int | None]:
        """Free those that wait for one that is no more, of so many that wait; returns how many they
        are, and after whom to go on, or None at the end."""
        row = await self._run.row("let_go", after, limit, self._run.now())
        assert row is not None
        return row["freed"], row["last"]

    async def replaced(self, after: int, limit: int) -> list[int]:
        """Jobs that are written down as replaced by newer fires, in their order."""
        return [row["id"] for row in await self._run.rows("replaced", after, limit)]

    async def to_ask(self, jobs: Sequence[int]) -> list[int]:
        """Those of them that still are what the fire wanted replaced."""
        return [row["id"] for row in await self._run.rows("replaced_to_ask", jobs)]

    async def cross_out(self, jobs: Sequence[int]) -> None:
        """Forget those of them that have been asked to end, or are no more."""
        await self._run.rows("replaced_cross_out", jobs)

    async def rates(self, usual: float | None = None) -> tuple[float, float | None]:
        """The usual rate of fires, newly measured if given, and the rate to catch up with."""
        row = await self._run.row("catch_up_rate", usual)
        assert row is not None
        return row["usual_rate"], row["catch_up_rate"]

    async def set_rate(self, rate: float | None) -> None:
        """The rate to catch up with; None: by what is usual."""
        await self._run.rows("set_catch_up_rate", rate)


def _day(since_1970: float) -> date:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=since_1970)).date()
