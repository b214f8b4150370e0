"""Looking at jobs, live and past, and keeping the past within bounds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from sexton.domain.job import Attempt, DeadJob, JobView, State, StuckJobs
from sexton.store.source import Row
from sexton.store.statements import DAYS_AHEAD, Statements

# So many errors are read through in a tenth of a second.
LOOK_AT_DEAD = 10_000


@dataclass(frozen=True, slots=True)
class Redriven:
    """A dead job that was chosen; if its key is held, by a live job or by another of those that
    were chosen, it stays dead."""

    id: int
    queue: str
    revived: bool
    tenant: int = 1
    held: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """What is set for the whole installation, in seconds and in fires a second."""

    retention: float
    dead_retention: float | None  # None: for ever
    catch_up_rate: float | None  # None: twice what is usual
    usual_rate: float


@dataclass(frozen=True, slots=True)
class Counts:
    """The live jobs of one queue."""

    waiting: int
    ready: int
    running: int

    @property
    def live(self) -> int:
        return self.waiting + self.ready + self.running


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt that ended a moment ago, for somebody who watches."""

    job: int
    fence: int
    attempt: int
    outcome: str
    next: str
    task: str
    queue: str
    claimed_at: datetime | None
    finished_at: datetime
    error: str | None


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of the attempts of one queue, from one look to the next."""

    succeeded: int
    failed: int
    dead: int


class History:
    """Statements about what is and what was."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements

    async def job(self, id: int, tenant: int | None = None) -> JobView | None:
        row = await self._run.row("job", id, tenant, self._run.now())
        if row is None:
            return None
        attempts = tuple(
            Attempt(
                each["attempt"],
                each["outcome"],
                each["fence"],
                each["worker"],
                each["claimed_at"],
                each["finished_at"],
                each["error"],
                _loads(each["result"]),
            )
            for each in await self._run.rows("attempts", id, tenant)
        )
        view = _view(row)
        if view.error is None and attempts:
            view = replace(view, error=attempts[-1].error)
        return replace(view, attempts=attempts)

    async def jobs(
        self,
        *,
        task: str | None = None,
        queue: str | None = None,
        state: State | None = None,
        tag: str | None = None,
        before: int | None = None,
        limit: int = 50,
        tenant: int | None = None,
    ) -> list[JobView]:
        rows = await self._run.rows(
            "jobs", task, queue, state, tag, before, limit, tenant, self._run.now()
        )
        return [_view(row) for row in rows]

    async def dead(
        self,
        *,
        task: str | None = None,
        queue: str | None = None,
        before: DeadJob | None = None,
        limit: int = 50,
        tenant: int | None = None,
    ) -> list[DeadJob]:
        rows = await self._run.rows(
            "dead", task, queue, before and before.died_at, before and before.id, limit, tenant
        )
        return [
            DeadJob(
                row["job_id"],
                row["task"],
                row["queue"],
                _loads(row["payload"]),
                row["key"],
                tuple(row["tags"] or ()),
                row["attempt"],
                row["reason"],
                row["error"],
                row["created_at"],
                row["died_at"],
                row["tenant_id"],
            )
            for row in rows
        ]

    async def redrive(
        self,
        *,
        ids: Sequence[int] | None = None,
        task: str | None = None,
        queue: str | None = None,
        error: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 1000,
        dry_run: bool = False,
        tenant: int | None = None,
    ) -> list[Redriven]:
        """These, if they are like that, or the `limit` of those that are which died first."""
        if ids is None:
            ids = await self._like(task, queue, error, since, until, limit, tenant)
        rows = await self._run.rows(
            "redrive", *(ids, task, queue, error, since, until, dry_run, tenant, self._run.now())
        )
        return [
            Redriven(row["job_id"], row["queue"], row["revived"], row["tenant_id"], row["held"])
            for row in rows
        ]

    async def _like(
        self,
        task: str | None,
        queue: str | None,
        error: str | None,
        since: datetime | None,
        until: datetime | None,
        limit: int,
        tenant: int | None,
    ) -> list[int]:
        found: list[int] = []
        reach: tuple[datetime | None, int] | None = since, 0
        while reach is not None and len(found) < limit:
            row = await self._run.row(
                "dead_like",
                *(task, queue, error, *reach, until, LOOK_AT_DEAD, limit - len(found), tenant),
            )
            assert row is not None
            found += row["ids"]
            reach = None if row["reach_at"] is None else (row["reach_at"], row["reach_id"])
        return found

    async def purge(self, ids: Sequence[int], tenant: int | None = None) -> list[int]:
        return [row[0] for row in await self._run.rows("purge", ids, tenant)]

    async def counts(
        self, queue: str | None = None, tenant: int | None = None
    ) -> dict[str, Counts]:
        rows = await self._run.rows("live_counts", queue, tenant, self._run.now())
        return {row["queue"]: Counts(row["waiting"], row["ready"], row["running"]) for row in rows}

    async def clock(self) -> datetime:
        now: datetime = await self._run.value("clock", self._run.now())
        return now

    async def recent(self, since: datetime, limit: int, tenant: int | None = None) -> list[Ended]:
        """The latest attempts that ended, newest first."""
        rows = await self._run.rows("recent_attempts", since, limit, tenant)
        return [
            Ended(
                row["job_id"],
                row["fence"],
                row["attempt"],
                row["outcome"],
                row["next"],
                row["task"],
                row["queue"],
                row["claimed_at"],
                row["finished_at"],
                row["error"],
            )
            for row in rows
        ]

    async def tally(self, since: datetime, lag: float) -> tuple[datetime, dict[str, Tally]]:
        """How many attempts ended from `since` to the instant returned, by queue."""
        rows = await self._run.rows("attempt_tally", since, lag, self._run.now())
        by_queue = {
            row["queue"]: Tally(row["succeeded"], row["failed"], row["dead"])
            for row in rows
            if row["queue"] is not None
        }
        return rows[0]["until"], by_queue

    async def stuck(self, silent_for: float, tenant: int | None = None) -> list[StuckJobs]:
        rows = await self._run.rows("stuck", silent_for, tenant, self._run.now())
        return [
            StuckJobs(
                row["task"],
                row["jobs"],
                row["worker_id"],
                row["worker"],
                row["silent_for"],
                row["longest"],
                tuple(row["ids"]),
            )
            for row in rows
        ]

    async def make_buckets(self) -> int:
        made: int = await self._run.value("make_buckets", DAYS_AHEAD, self._run.now())
        return made

    async def drop_bucket(self) -> str | None:
        """A day of history or of the ledger that is older than the retention; None: none is."""
        dropped: str | None = await self._run.value("drop_bucket", self._run.now())
        return dropped

    async def prune_gaps(self, limit: int) -> int:
        """Let go of fires passed over long ago, at most so many; returns how many."""
        gone: int = await self._run.value("prune_gaps", limit, self._run.now())
        return gone

    async def prune(self, limit: int) -> bool:
        """At most so many of each kind; whether there may be more."""
        row = await self._run.row("prune", limit, self._run.now())
        assert row is not None
        return bool(max(row["keys"], row["workers"], row["dead"]) == limit)

    async def kept(self) -> Kept:
        row = await self._run.row("installation_kept")
        assert row is not None, "the installation's one row is made by a migration"
        return Kept(**row)

    async def set_retention(
        self, retention: float | None, dead_retention: float | None, change_dead: bool
    ) -> tuple[float, float | None]:
        row = await self._run.row("set_retention", retention, dead_retention, change_dead)
        assert row is not None, "the installation's one row is made by the first migration"
        return row["retention"], row["dead_retention"]


def _view(row: Row) -> JobView:
    return JobView(
        row["id"],
        row["state"],
        row["task"],
        row["queue"],
        row["priority"],
        _loads(row["payload"]),
        row["key"],
        tuple(row["tags"] or ()),
        row["attempt"],
        row["created_at"],
        row["due_at"],
        row["finished_at"],
        row["worker"],
        _loads(row["progress"]),
        row["cancel_requested"],
        _loads(row["result"]),
        row["error"],
        row["schedule"],
        row["fire_at"],
        row["after_job"],
        tenant=row["tenant"],
    )


def _loads(text: str | None) -> Any:
    """PostgreSQL keeps JSON that Python cannot read, nested very deeply or with huge numbers."""
    try:
        return None if text is None else msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return {"unreadable": f"{text:.1000}"}
