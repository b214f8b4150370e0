"""Workers, their leases, and what their code declares."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sexton.domain.duration import seconds
from sexton.domain.retry import Retry
from sexton.store.statements import Statements


@dataclass(frozen=True, slots=True)
class Declaration:
    """What the database is told of a task."""

    name: str
    queue: str
    priority: int
    retry: Retry
    max_running: int | None
    max_running_per_key: int | None


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker that lives, as anyone may look at it."""

    id: int
    name: str
    queues: tuple[str, ...]
    version: str
    started_at: datetime
    renewed_at: datetime
    lease_until: datetime
    idle: tuple[str, ...]


class Workers:
    """Statements about workers."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements

    async def register(
        self,
        name: str,
        queues: Sequence[str],
        version: str,
        lease: float,
        tenant: int | None = None,
    ) -> int:
        """A worker of one tenant, or, without one, of all."""
        id: int = await self._run.value(
            "register_worker", name, queues, version, lease, tenant, self._run.now()
        )
        return id

    async def installation(self) -> str:
        """A short name of this installation, different from any other's."""
        id = await self._run.value("installation")
        return str(id).replace("-", "")[:12]

    async def renew(self, worker: int) -> list[int] | None:
        """The fences somebody wants cancelled; None if the worker was declared lost."""
        renewed = await self.renew_and_tell(worker, None)
        return None if renewed is None else renewed[1]

    async def renew_and_tell(
        self, worker: int, skew: float | None
    ) -> tuple[datetime, list[int]] | None:
        """The same for one that has a clock: what the database's says, and how far off its is."""
        row = await self._run.row("renew", worker, skew, self._run.now())
        return None if row is None else (row["now"], list(row["cancelled"]))

    async def cancel_requests(self, worker: int) -> list[int]:
        return [row[0] for row in await self._run.rows("cancel_requests", worker)]

    async def mark_idle(self, worker: int, idle: Sequence[str]) -> None:
        await self._run.rows("mark_idle", worker, idle)

    async def leave(self, worker: int) -> None:
        await self._run.rows("leave", worker, self._run.now())

    async def lose_expired(self) -> list[tuple[int, str]]:
        rows = await self._run.rows("lose_workers", self._run.now())
        return [(row["id"], row["name"]) for row in rows]

    async def living(self) -> list[WorkerView]:
        rows = await self._run.rows("workers")
        return [
            WorkerView(
                row["id"],
                row["name"],
                tuple(row["queues"]),
                row["version"],
                row["started_at"],
                row["renewed_at"],
                row["lease_until"],
                tuple(row["idle"]),
            )
            for row in rows
        ]

    async def declared_without(self, task: str, queue: str | None, tenant: int) -> list[str]:
        """The tasks that workers know, where this one is none of theirs."""
        return [row["name"] for row in await self._run.rows("declared", task, queue, tenant)]

    async def declare(self, tasks: Sequence[Declaration]) -> None:
        await self._run.rows(
            "declare_tasks",
            [task.name for task in tasks],
            [task.queue for task in tasks],
            [task.priority for task in tasks],
            [task.retry.max_attempts for task in tasks],
            [seconds(task.retry.base) for task in tasks],
            [task.retry.factor for task in tasks],
            [seconds(task.retry.cap) for task in tasks],
            [None if task.retry.max_age is None else seconds(task.retry.max_age) for task in tasks],
            [task.max_running for task in tasks],
            [task.max_running_per_key for task in tasks],
            self._run.now(),
        )
