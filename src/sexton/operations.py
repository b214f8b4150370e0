"""Looking at jobs and operating on them: everything that is neither enqueueing nor working."""

import contextlib
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Literal, TypeVar

import asyncpg

from sexton.client import Client
from sexton.domain import given
from sexton.domain.audit import Audit
from sexton.domain.duration import Duration
from sexton.domain.explain import Explanation
from sexton.domain.job import LIVE_STATES, DeadJob, JobView, State, StuckJobs
from sexton.domain.spec import checked_instant
from sexton.errors import ConfigurationError, UnknownJob, did_you_mean
from sexton.flow.audit import audit
from sexton.flow.explain import explain
from sexton.store.history import Counts, Redriven
from sexton.store.schedules import DEFAULT_TENANT
from sexton.store.workers import WorkerView

T = TypeVar("T")
TRIES = 5
MOST_A_SECOND = 1_000_000


class Operations:
    """The part of the application object that an operator uses."""

    async def client(self) -> Client:
        """The connections of the running loop."""
        raise NotImplementedError

    async def job(self, id: int) -> JobView:
        """State, result, error and every attempt of a job."""
        view = await (await self.client()).store.history.job(given.checked_id(id))
        if view is None:
            raise UnknownJob(f"no job {id}, live, dead or in the history that is kept")
        return view

    async def jobs(
        self,
        *,
        task: str | None = None,
        queue: str | None = None,
        state: State | None = None,
        tag: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[JobView]:
        """Live jobs, newest first; `before` is the last id of the page before."""
        if state is not None and state not in LIVE_STATES:
            hint = did_you_mean(state, LIVE_STATES)
            raise ConfigurationError(f"no live job is {state!r}: one of {LIVE_STATES}{hint}")
        history = (await self.client()).store.history
        return await history.jobs(
            task=given.checked_text(task, "task"),
            queue=given.checked_text(queue, "queue"),
            state=state,
            tag=given.checked_text(tag, "tag"),
            before=None if before is None else given.checked_id(before),
            limit=given.checked_limit(limit),
        )

    async def counts(self) -> dict[str, Counts]:
        """Live jobs by queue and state."""
        return await (await self.client()).store.history.counts()

    async def live_count(self, queue: str | None = None) -> int:
        history = (await self.client()).store.history
        counts = await history.counts(given.checked_text(queue, "queue"))
        return sum(each.live for each in counts.values())

    async def cancel(self, *ids: int) -> dict[int, bool]:
        """For each live job: True if it ended at once, False if its worker was asked to end it."""
        wanted = given.checked_ids(ids)
        client = await self.client()
        answers = await without_deadlock(lambda: client.store.jobs.cancel(wanted))
        for worker in {worker for worker in answers.values() if worker is not None}:
            client.waker.tell(worker)
        return {id: worker is None for id, worker in answers.items()}

    async def dead(
        self,
        *,
        task: str | None = None,
        queue: str | None = None,
        before: DeadJob | None = None,
        limit: int = 50,
    ) -> list[DeadJob]:
        """Dead jobs, newest first; `before` is the last one of the page before."""
        if before is not None and not isinstance(before, DeadJob):
            raise ConfigurationError(
                f"before is {before!r:.100}; it must be the last dead job of the page before"
            )
        history = (await self.client()).store.history
        return await history.dead(
            task=given.checked_text(task, "task"),
            queue=given.checked_text(queue, "queue"),
            before=before,
            limit=given.checked_limit(limit),
        )

    async def redrive(
        self,
        *ids: int,
        task: str | None = None,
        queue: str | None = None,
        error: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 1000,
        dry_run: bool = False,
    ) -> list[Redriven]:
        """Give dead jobs another life: these, or the oldest `limit` that the filters choose."""
        wanted = given.checked_ids(ids)
        if not ids and not any((task, queue, error, since, until)):
            raise ConfigurationError(
                "redrive needs ids or a filter: task, queue, error, since, until"
            )
        client = await self.client()
        redriven = await client.store.history.redrive(
            ids=wanted or None,
            task=given.checked_text(task, "task"),
            queue=given.checked_text(queue, "queue"),
            error=given.checked_text(error, "error"),
            since=given.checked_instant(since, "since"),
            until=given.checked_instant(until, "until"),
            limit=max(given.checked_limit(limit), len(wanted)),
            dry_run=dry_run,
        )
        for name, tenant in {(each.queue, each.tenant) for each in redriven if each.revived}:
            client.waker.wake(name, tenant)
        return redriven

    async def purge(self, *ids: int) -> list[int]:
        """Throw dead jobs away for good."""
        wanted = given.checked_ids(ids)
        return await (await self.client()).store.history.purge(wanted)

    async def stuck(self, silent_for: Duration = 60) -> list[StuckJobs]:
        """Running jobs, by task, whose worker has not renewed its lease for a while."""
        silent = given.checked_length(silent_for, "silent_for")
        return await (await self.client()).store.history.stuck(silent)

    async def workers(self) -> list[WorkerView]:
        return await (await self.client()).store.workers.living()

    async def audit(
        self,
        from_: datetime,
        to: datetime,
        *,
        schedule: str | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> Audit:
        """Every fire of [from_, to) that the schedules promised, compared with the ledger."""
        begins, ends = checked_instant(from_, "from"), checked_instant(to, "to")
        client = await self.client()
        async with client.pool.demanded():
            return await audit(client.store, client.pool, begins, ends, schedule, tenant)

    async def explain(
        self, schedule: str, at: datetime, *, tenant: str = DEFAULT_TENANT
    ) -> Explanation:
        """In words what became of a schedule's fire at an instant, or of those next to it."""
        client = await self.client()
        instant = checked_instant(at, "at")
        async with client.pool.demanded():
            return await explain(client.store, client.pool, schedule, instant, tenant)

    async def keep_history(
        self,
        retention: Duration | None = None,
        *,
        dead: Duration | Literal["forever"] | None = None,
    ) -> tuple[float, float | None]:
        """Set how long this installation keeps attempts (90 days) and dead jobs (for ever).

        Both in whole days, at least one; None leaves one as it is. Returns what holds now, in
        seconds.
        """
        kept = None if retention is None else _days(retention, "retention")
        buried = None if dead in (None, "forever") else _days(dead, "dead")
        history = (await self.client()).store.history
        return await history.set_retention(kept, buried, dead is not None)

    async def catch_up_at(self, rate: float | Literal["usual"]) -> float | None:
        """Set at how many fires a second this installation catches up what is late; `usual` is
        twice as many as it fires usually. Returns what holds now, None for `usual`.
        """
        wanted = None if rate == "usual" else _rate(rate)
        await (await self.client()).store.due.set_rate(wanted)
        return wanted


async def without_deadlock(work: Callable[[], Awaitable[T]]) -> T:
    """Settlements lock the same jobs, and follow from one to another: one of two gives in."""
    for _ in range(TRIES - 1):
        with contextlib.suppress(asyncpg.DeadlockDetectedError):
            return await work()
    return await work()


def _rate(rate: float) -> float:
    wrong = isinstance(rate, bool) or not isinstance(rate, int | float)
    if wrong or not 0 < rate <= MOST_A_SECOND:
        raise ConfigurationError(
            f"rate is {rate!r:.100}; it must be a number of fires a second, or 'usual'"
        )
    return float(rate)


def _days(length: Duration, field: str) -> float:
    days = given.checked_length(length, field)
    if days < 86400:
        raise ConfigurationError(f"{field}: history is kept in days; {length!r} is less than one")
    return days
