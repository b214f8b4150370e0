"""Workers that speak through the service: their leases, what they hold, what may follow."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import msgspec

from sexton.domain.job import NewJob, State
from sexton.domain.retry import Retry
from sexton.store.statements import Statements


@dataclass(frozen=True, slots=True)
class RemoteWorker:
    """A tenant's own worker, as its row says."""

    id: int
    name: str
    queues: tuple[str, ...]
    version: str
    started_at: datetime
    renewed_at: datetime
    lease_until: datetime
    lease: float
    left_for: float  # seconds; what is left of the lease
    idle: tuple[str, ...]
    gone_at: datetime | None
    gone_why: Literal["left", "lost"] | None


class WorkerLine(msgspec.Struct, frozen=True):
    """A worker that lives, as one line of a list; `running` counts only the tenant's jobs."""

    id: int
    name: str
    queues: list[str]
    version: str
    started_at: datetime
    renewed_at: datetime
    lease_until: datetime
    remote: bool
    running: int


@dataclass(frozen=True, slots=True)
class Held:
    """A claim that is still the one its fence belongs to, with the policy for what follows."""

    id: int
    fence: int
    queue: str
    tries: int
    expires_in: float | None
    retry: Retry


class Remote:
    """Statements about remote workers, and about jobs whose tasks only the database knows."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements

    async def register(
        self, tenant: int, name: str, queues: Sequence[str], version: str, lease: float
    ) -> tuple[int, datetime]:
        row = await self._run.row(
            "remote_register", tenant, name, queues, version, lease, self._run.now()
        )
        assert row is not None
        return row["id"], row["lease_until"]

    async def live(self, tenant: int, at_most: int) -> int:
        """How many workers of its own a tenant has, counted no further than that."""
        counted: int = await self._run.value("remote_live", tenant, at_most)
        return counted

    async def worker(self, worker: int, tenant: int) -> RemoteWorker | None:
        row = await self._run.row("remote_worker", worker, tenant, self._run.now())
        if row is None:
            return None
        return RemoteWorker(
            row["id"],
            row["name"],
            tuple(row["queues"]),
            row["version"],
            row["started_at"],
            row["renewed_at"],
            row["lease_until"],
            row["lease"],
            row["left_for"],
            tuple(row["idle"]),
            row["gone_at"],
            row["gone_why"],
        )

    async def workers(self, tenant: int, after: int, limit: int) -> list[WorkerLine]:
        rows = await self._run.rows("tenant_workers", tenant, after, limit)
        return [WorkerLine(*row) for row in rows]

    async def renew(self, worker: int, tenant: int) -> datetime | None:
        """Until when the lease holds now; None if the worker is gone."""
        until: datetime | None = await self._run.value(
            "remote_renew", worker, tenant, self._run.now()
        )
        return until

    async def cancelled(self, worker: int) -> list[tuple[int, int]]:
        """Id and fence of those that somebody wants cancelled."""
        rows = await self._run.rows("remote_cancelled", worker)
        return [(row["id"], row["fence"]) for row in rows]

    async def claims(
        self, claims: Sequence[tuple[int, int]], tenant: int, worker: int | None
    ) -> list[Held]:
        """Of these ids and fences those that still hold, in any worker's hands or in this one's."""
        rows = await self._run.rows(
            "remote_claims",
            [id for id, _ in claims],
            [fence for _, fence in claims],
            *(tenant, worker, self._run.now()),
        )
        return [
            Held(
                row["id"],
                row["fence"],
                row["queue"],
                row["tries"],
                row["expires_in"],
                Retry()
                if row["max_attempts"] is None
                else Retry(
                    row["max_attempts"], row["retry_base"], row["retry_cap"], row["retry_factor"]
                ),
            )
            for row in rows
        ]

    async def held(
        self, worker: int, tenant: int, known: Sequence[int] = (), older_than: float = 0.0
    ) -> list[tuple[int, int, str]]:
        """Id, fence and queue of what it has claimed, but for the fences that are known."""
        rows = await self._run.rows(
            "remote_held", worker, tenant, known, older_than, self._run.now()
        )
        return [(row["id"], row["fence"], row["queue"]) for row in rows]

    async def limits(self, queue: str) -> dict[str, bool]:
        """The tasks with a limit; True for those that are declared for this queue."""
        return {row["name"]: row["here"] for row in await self._run.rows("remote_limits", queue)}

    async def hurry(self, job: int, tenant: int) -> str | None:
        """Make a waiting job ready now; its queue, or None if it does not wait by itself."""
        queue: str | None = await self._run.value("hurry", job, tenant, self._run.now())
        return queue

    async def payload(self, job: int, tenant: int) -> str | None:
        """Of a job that has ended, as its text; None if history does not have it."""
        text: str | None = await self._run.value("job_payload", job, tenant)
        return text

    async def say_progress(self, job: int, tenant: int, fence: int, progress: str) -> int | None:
        """Which attempt says so; None if the fence is not the job's any more."""
        attempt: int | None = await self._run.value("say_progress", job, tenant, fence, progress)
        return attempt

    async def progress(self, job: int, tenant: int) -> tuple[State, int, str | None] | None:
        """State, attempt, and what it last said, as JSON; None if it is not live."""
        row = await self._run.row("job_progress", job, tenant, self._run.now())
        return None if row is None else (row["state"], row["attempt"], row["progress"])

    async def enqueue_batch(self, tenant: int, jobs: Sequence[NewJob]) -> list[tuple[int, str]]:
        """Jobs without keys, whose tasks the database knows; id and queue of each, in order."""
        rows = await self._run.rows(
            "enqueue_batch",
            tenant,
            [job.task for job in jobs],
            [job.payload for job in jobs],
            [job.queue or None for job in jobs],
            [job.priority for job in jobs],
            [job.at for job in jobs],
            [job.delay for job in jobs],
            [job.limit_key for job in jobs],
            [_json(job.tags) for job in jobs],
            [job.expires_in for job in jobs],
            self._run.now(),
        )
        return [(row["id"], row["queue"]) for row in rows]


def _json(tags: Sequence[str] | None) -> str | None:
    return None if tags is None else msgspec.json.encode(tags).decode()
