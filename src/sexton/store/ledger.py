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
    """The clock, from when on the ledger is whole, whether fires before that are gone, and how
    far jitter may move a fire."""

    now: datetime
    kept_from: datetime
    dropped: bool
    jitter: float


class Ledger:
    """Statements about what was promised and what was decided."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements

    async def bounds(self, from_: datetime) -> Bounds:
        row = await self._run.row("audit_bounds", from_, self._run.now())
        assert row is not None, "the installation's one row is made by a migration"
        return Bounds(*row)

    async def versions(self, window: Window, schedules: int) -> list[Version]:
        """Of the next so many schedules; the current one of each is always there, and last."""
        rows = await self._run.rows(
            "audit_versions", window.from_, window.to, window.after, window.until, schedules
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

    async def names(self, schedules: Collection[int]) -> dict[int, str]:
        rows = await self._run.rows("audit_names", list(schedules))
        return {row["id"]: row["name"] for row in rows}

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
