"""Looking at jobs and operating on them: everything that is neither enqueueing nor working."""

from datetime import datetime
from typing import Literal

from sexton.client import Client
from sexton.domain.duration import Duration, seconds
from sexton.domain.job import LIVE_STATES, DeadJob, JobView, State, StuckJobs
from sexton.errors import ConfigurationError, UnknownJob, did_you_mean
from sexton.store.history import Counts, Redriven
from sexton.store.workers import WorkerView


class Operations:
    """The part of the application object that an operator uses."""

    async def client(self) -> Client:
        """The connections of the running loop."""
        raise NotImplementedError

    async def job(self, id: int) -> JobView:
        """State, result, error and every attempt of a job."""
        if isinstance(id, bool) or not isinstance(id, int) or not 0 < id < 2**63:
            raise UnknownJob(f"{id!r} is not a job's id, which is a whole number")
        view = await (await self.client()).store.history.job(id)
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
        if limit < 1:
            raise ConfigurationError(f"limit is {limit}; it must be at least 1")
        history = (await self.client()).store.history
        return await history.jobs(
            task=task, queue=queue, state=state, tag=tag, before=before, limit=limit
        )

    async def counts(self) -> dict[str, Counts]:
        """Live jobs by queue and state."""
        return await (await self.client()).store.history.counts()

    async def live_count(self, queue: str | None = None) -> int:
        counts = await (await self.client()).store.history.counts(queue)
        return sum(each.live for each in counts.values())

    async def cancel(self, *ids: int) -> dict[int, bool]:
        """For each live job: True if it ended at once, False if its worker was asked to end it."""
        client = await self.client()
        answers = await client.store.jobs.cancel(ids)
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
        history = (await self.client()).store.history
        return await history.dead(task=task, queue=queue, before=before, limit=limit)

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
        """Give dead jobs another life: these, or those that the filters choose."""
        if not ids and not any((task, queue, error, since, until)):
            raise ConfigurationError(
                "redrive needs ids or a filter: task, queue, error, since, until"
            )
        client = await self.client()
        redriven = await client.store.history.redrive(
            ids=ids or None,
            task=task,
            queue=queue,
            error=error,
            since=since,
            until=until,
            limit=limit,
            dry_run=dry_run,
        )
        for name in {each.queue for each in redriven if each.revived}:
            client.waker.wake(name)
        return redriven

    async def purge(self, *ids: int) -> list[int]:
        """Throw dead jobs away for good."""
        return await (await self.client()).store.history.purge(ids)

    async def stuck(self, silent_for: Duration = 60) -> list[StuckJobs]:
        """Running jobs, by task, whose worker has not renewed its lease for a while."""
        return await (await self.client()).store.history.stuck(seconds(silent_for))

    async def workers(self) -> list[WorkerView]:
        return await (await self.client()).store.workers.living()

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
        kept = None if retention is None else _days(retention)
        buried = None if dead in (None, "forever") else _days(dead)
        history = (await self.client()).store.history
        return await history.set_retention(kept, buried, dead is not None)


def _days(length: Duration) -> float:
    if seconds(length) < 86400:
        raise ConfigurationError(f"history is kept in days: {length!r} is less than one")
    return seconds(length)
