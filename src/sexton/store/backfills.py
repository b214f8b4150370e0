"""Backfills: asking for the past, and how far it has come."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sexton.domain.backfill import BackfillView, PastFire
from sexton.domain.schedule import ScheduleState
from sexton.store.due import Guard
from sexton.store.statements import Statements


@dataclass(frozen=True, slots=True)
class OpenBackfill:
    """A backfill under way, and what its schedule says now."""

    id: int
    schedule_id: int
    to_at: datetime
    next_at: datetime
    rate: float
    version: int
    state: ScheduleState
    known_from: datetime | None  # what was fired before that is not known any more


@dataclass(frozen=True, slots=True)
class PastVersion:
    """What a schedule said from one instant to another."""

    since: datetime
    until: datetime | None
    state: ScheduleState
    rule_id: int
    anchor: datetime
    task: str
    payload: str


class Backfills:
    """Statements about backfills."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements

    async def add(self, schedule: int, first: datetime, end: datetime, rate: float) -> int:
        id: int = await self._run.value("backfill_add", schedule, first, end, rate, self._run.now())
        return id

    async def list(
        self,
        tenant: int,
        *,
        name: str | None = None,
        id: int | None = None,
        under_way: bool = False,
        limit: int,
    ) -> list[BackfillView]:
        """Newest first."""
        rows = await self._run.rows("backfills", tenant, name, id, under_way, limit)
        return [BackfillView(**row) for row in rows]

    async def page(self, schedule: int, before: int, limit: int) -> Sequence[BackfillView]:
        """Those of a schedule, newest first, before one of them."""
        rows = await self._run.rows("backfills_page", schedule, before, limit)
        return [BackfillView(**row) for row in rows]

    async def cancel(self, tenant: int, id: int) -> bool:
        return await self._run.value("backfill_cancel", tenant, id, self._run.now()) is not None

    async def known_from(self, schedule: int, first: datetime, end: datetime) -> datetime | None:
        """From when on it is known what was fired of this stretch; None: of all of it."""
        known: datetime | None = await self._run.value(
            "backfill_bounds", schedule, first, end, self._run.now()
        )
        return known

    async def under_way(self, limit: int, *, after: int = 0) -> Sequence[OpenBackfill]:
        """Oldest first, from the one after `after` on."""
        rows = await self._run.rows("backfill_open", after, limit, self._run.now())
        return [OpenBackfill(**row) for row in rows]

    async def versions(self, schedule: int) -> Sequence[PastVersion]:
        """Oldest first; the last one is in effect."""
        return [PastVersion(**row) for row in await self._run.rows("backfill_versions", schedule)]

    async def fire(
        self,
        guard: Guard,
        backfill: OpenBackfill,
        fires: Sequence[PastFire],
        *,
        next_at: datetime,
        over: bool,
    ) -> int | None:
        """How many were fired; None: we do not lead any more, or somebody else went on with it."""
        for day in sorted({each.planned.fire_at.date() for each in fires}):
            await self._run.rows("make_fire_buckets", day, day)
        fired: int | None = await self._run.value(
            "backfill_fire",
            *(guard.node, guard.term, backfill.id, backfill.schedule_id, backfill.next_at),
            *(next_at, over),
            [each.planned.fire_at for each in fires],
            [each.planned.scheduled_at for each in fires],
            [each.task for each in fires],
            [each.payload for each in fires],
            self._run.now(),
            backfill.version,
        )
        return fired
