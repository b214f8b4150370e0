"""The ledger as an audit and an explanation read it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from sexton.domain.audit import Stray
from sexton.domain.change import VersionView
from sexton.domain.expected import Version
from sexton.domain.facts import Entry, Lived, Passage
from sexton.store.source import Row
from sexton.store.statements import Statements

# Begins a transaction in which everything is read as of one instant: what is fired meanwhile
# cannot look like a violation. Pages are read by the order of their index, whatever the statistics
# say: sorting would read everything for every page.
SNAPSHOT = "; ".join(
    [
        "set transaction isolation level repeatable read, read only",
        "set local plan_cache_mode = force_custom_plan",
        "set local enable_bitmapscan = off",
        "set local enable_sort = off",
        "set local jit = off",
        "set local work_mem = '64MB'",
    ]
)
# Of an entry among those of its schedule: its instant, its last one, and when it was decided.
Place = tuple[datetime, datetime, datetime]
# No schedule has a larger id.
LAST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Window:
    """Fires of these instants, half open, and of schedules after one up to another."""

    from_: datetime
    to: datetime
    after: int = 0
    until: int = LAST


@dataclass(frozen=True, slots=True)
class Bounds:
    """The clock, from when on the ledger is whole, whether fires before that are gone, how far
    jitter may move a fire, from when on nothing can be gone while it is read, and whether any node
    leads."""

    now: datetime
    kept_from: datetime
    dropped: bool
    jitter: float
    certain_from: datetime
    led: bool


class Ledger:
    """Statements about what was promised and what was decided."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements

    async def bounds(self, from_: datetime) -> Bounds:
        row = await self._run.row("audit_bounds", from_, self._run.now())
        assert row is not None, "the installation's one row is made by a migration"
        return Bounds(*row)

    async def versions(
        self, window: Window, schedules: int, certain_from: datetime
    ) -> list[Version]:
        """Of the next so many schedules; the current one of each is always there, and last."""
        rows = await self._run.rows(
            "audit_versions",
            *(window.from_, window.to, window.after, window.until, schedules, certain_from),
        )
        return [Version(*row) for row in rows]

    async def fires(self, window: Window, after: tuple[int, float], limit: int) -> Sequence[Row]:
        """The next rows after a schedule and a fire of it (s since 1970): schedule, `Decided`."""
        return await self._run.rows(
            "audit_fires", window.from_, window.to, *after, window.until, limit
        )

    async def gaps(self, window: Window) -> Sequence[Row]:
        """Schedule, and what `Passed` has."""
        return await self._run.rows(
            "audit_gaps", window.from_, window.to, window.after, window.until
        )

    async def strays(self, window: Window, limit: int) -> list[Stray]:
        rows = await self._run.rows(
            "audit_strays", window.from_, window.to, window.after, window.until, limit
        )
        return sorted(Stray(*row) for row in rows)

    async def lost(self, window: Window, certain_from: datetime, limit: int) -> Sequence[Row]:
        """Schedule, fire, and the job that is nowhere, or None."""
        return await self._run.rows(
            "audit_lost",
            *(window.from_, window.to, window.after, window.until, certain_from, limit),
        )

    async def names(self, schedules: Collection[int]) -> dict[int, str]:
        rows = await self._run.rows("audit_names", list(schedules))
        return {row["id"]: row["name"] for row in rows}

    # ── one schedule ────────────────────────────────────────────────────────

    async def page(
        self,
        schedule: int,
        *,
        from_: datetime,
        to: datetime,
        decision: str | None,
        after: Place,
        limit: int,
        look_at: int,
    ) -> tuple[list[Entry | Passage], Place | None]:
        """Newest first; the place that was reached if so many were looked at and fewer fitted."""
        rows = await self._run.rows(
            "schedule_fires", schedule, from_, to, decision, *after, limit, look_at
        )
        reached = rows[0]["reached"]
        found = [_decided(row) for row in rows if row["at"] is not None]
        return found, None if reached is None else (reached[0], reached[1], reached[2])

    # ── one fire ────────────────────────────────────────────────────────────

    async def said(self, schedule: int) -> list[tuple[VersionView, int]]:
        """Every version, newest first, with its rule."""
        decode = msgspec.json.decode
        return [
            (
                VersionView(
                    *(row["version"], row["since"], row["until"], row["state"], row["reason"]),
                    *(row["task"], decode(row["payload"]), decode(row["said"])),
                    *(row["anchor"], row["ended_by"]),
                ),
                row["rule_id"],
            )
            for row in await self._run.rows("explain_versions", schedule)
        ]

    async def entries(
        self, schedule: int, from_: datetime, to: datetime | None, limit: int
    ) -> list[Entry]:
        """The first fires of [from_, to), whatever was decided."""
        rows = await self._run.rows("explain_fires", schedule, from_, to, limit)
        return [Entry(*row) for row in rows]

    async def passage(self, schedule: int, scheduled_at: datetime) -> Passage | None:
        row = await self._run.row("explain_gap", schedule, scheduled_at)
        return None if row is None else Passage(*row)

    async def lived(self, schedule: int, before: datetime, at: datetime) -> list[Lived]:
        """Jobs of fires before this one that lived at an instant."""
        rows = await self._run.rows("explain_living", schedule, before, at)
        return [Lived(*row) for row in rows]


def _decided(row: Row) -> Entry | Passage:
    by = (row["term"], row["node_id"], row["node"])
    if row["kind"] is None:
        return Passage(
            *(row["at"], row["last_at"], row["decided_at"], row["fires"], row["decision"]), *by
        )
    return Entry(
        *(row["at"], row["scheduled_at"], row["decided_at"], row["decision"], row["kind"]),
        *(row["job_id"], *by),
    )
