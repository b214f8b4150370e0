"""The path of a job: enqueue, claim, settle, cancel, redrive."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from sexton.domain.job import Claim, Enqueued, Fire, NewJob, PreviousFire
from sexton.domain.retry import Retry
from sexton.domain.transitions import Settlement
from sexton.store.claims import BEGINNING, Claims, Place
from sexton.store.due import Guard
from sexton.store.source import Row

__all__ = ["BEGINNING", "Counted", "Jobs", "Orphan", "Place"]

_MICROSECOND = timedelta(microseconds=1)
_COPY_ALWAYS = ("id", "due_at", "task", "queue", "payload")
_COPY_TIMES = {"at": None, "delay": None, "expires_in": None}
_COPY_SOMETIMES = {
    **{"priority": 0, "limited": False, "limit_key": None, "tags": None, "tenant": 1},
    **_COPY_TIMES,
}
_COLUMNS = {"tenant": "tenant_id"}  # where a field is called otherwise


@dataclass(frozen=True, slots=True)
class Orphan:
    """A running job whose worker is gone, with the policy that says where it goes."""

    id: int
    fence: int
    queue: str
    tenant: int
    tries: int
    worker: str
    expires_in: float | None
    retry: Retry
    task: str = ""
    remote: bool = False  # its worker claimed through the service


@dataclass(frozen=True, slots=True)
class Counted:
    """A tenant's live jobs, counted up to its quota."""

    tenant: int
    jobs: int
    was_over: bool
    is_over: bool


class Jobs(Claims):
    """Statements about live jobs."""

    async def enqueue_one(self, job: NewJob, wake: bool = False) -> Enqueued:
        """A job without a key: a bare insert; its commit may carry a notification."""
        id = await self._run.value(
            "enqueue_one",
            job.task,
            job.payload,
            job.queue,
            job.priority,
            job.at,
            job.delay,
            job.limited,
            job.limit_key,
            job.tags,
            job.expires_in,
            wake,
            job.tenant,
            self._run.now(),
        )
        return Enqueued(id)

    async def reserve(self, count: int) -> tuple[datetime, list[int]]:
        """The database's clock, and ids for a COPY."""
        row = await self._run.row("reserve", count, self._run.now())
        assert row is not None
        return row["now"], row["ids"]

    async def enqueue_plain(
        self, now: datetime, ids: Sequence[int], jobs: Sequence[NewJob]
    ) -> None:
        """Jobs without keys, by COPY, with only the columns that somebody set.

        Each is due a microsecond after the one before, so that they are claimed in this order
        and claiming can begin in the middle of them.
        """
        extras = [
            name
            for name, usual in _COPY_SOMETIMES.items()
            if any(getattr(job, name) != usual for job in jobs)
        ]
        instant = now - timedelta(microseconds=len(jobs))
        rows: Iterable[tuple[Any, ...]]
        if not extras and self._run.now() is None:
            rows = (
                (id, instant := instant + _MICROSECOND, job.task, job.queue, job.payload)
                for id, job in zip(ids, jobs, strict=True)
            )
            await self._run.copy("job", _COPY_ALWAYS, rows)
            return
        plain = [name for name in extras if name not in _COPY_TIMES]
        rows = (
            (
                *(id, _due_at(job, now, instant := instant + _MICROSECOND)),
                *(job.task, job.queue, job.payload, now, _expires_at(job, now)),
                *(getattr(job, name) for name in plain),
            )
            for id, job in zip(ids, jobs, strict=True)
        )
        columns = [_COLUMNS.get(name, name) for name in plain]
        await self._run.copy("job", (*_COPY_ALWAYS, "created_at", "expires_at", *columns), rows)

    async def enqueue_keyed(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Jobs with keys: the answer says which were made and which job holds the others' key."""
        rows = await self._run.rows(
            "enqueue_keyed",
            [job.task for job in jobs],
            [job.payload for job in jobs],
            [job.queue or None for job in jobs],
            [job.priority for job in jobs],
            [job.at for job in jobs],
            [job.delay for job in jobs],
            [job.limit_key for job in jobs],
            [None if job.tags is None else _json(job.tags) for job in jobs],
            [job.expires_in for job in jobs],
            [job.key for job in jobs],
            [job.key_held_for for job in jobs],
            [job.tenant for job in jobs],
            self._run.now(),
        )
        return [Enqueued(*row) for row in rows]

    async def fires(self, claims: Sequence[Claim]) -> dict[int, Fire]:
        """The fires that made these jobs, by job, each with the one before it."""
        rows = await self._run.rows(
            "fires_of_jobs",
            [claim.id for claim in claims],
            [claim.schedule_id for claim in claims],
            [claim.fire_at for claim in claims],
        )
        return {row["id"]: _fire(row) for row in rows}

    async def settle_succeeded(self, ids: Sequence[int], fences: Sequence[int]) -> set[int]:
        """Claims that succeeded without a result; returns the ids that were still ours."""
        [row] = await self._run.into_history("settle_succeeded", ids, fences, self._run.now())
        return set(ids if row["ours"] is None else row["ours"])

    async def settle(self, settled: Sequence[tuple[int, int, Settlement]]) -> set[int]:
        """Record (id, fence, settlement) of each claim; returns the ids that were still ours."""
        # In the order in which cancelling locks them: the two cannot wait for each other.
        settled = sorted(settled, key=_id)
        ours: set[int] = set()
        while settled:
            # What was committed while the statement waited for its row, a cancel or its progress,
            # is not in the statement's snapshot, and yet the row is no longer where it was found.
            # Another statement sees what there is.
            done, changed = await self._settle(settled)
            ours |= done
            settled = [each for each in settled if each[0] in changed]
        return ours

    async def _settle(
        self, settled: Sequence[tuple[int, int, Settlement]]
    ) -> tuple[set[int], set[int]]:
        """Those that are settled, and those of ours that somebody changed meanwhile."""
        ids, fences, settlements = zip(*settled, strict=True)
        rows = await self._run.into_history(
            "settle",
            ids,
            fences,
            [each.outcome for each in settlements],
            [each.next for each in settlements],
            [each.delay for each in settlements],
            [each.reason for each in settlements],
            [each.error for each in settlements],
            [each.result for each in settlements],
            self._run.now(),
        )
        done = {row["id"] for row in rows if row["settled"]}
        return done, {row["id"] for row in rows if not row["settled"]}

    async def orphans(self, limit: int, gone_for: float | None) -> list[Orphan]:
        """Of workers that are gone no longer than so many seconds; None: of all."""
        rows = await self._run.rows("orphans", limit, gone_for, self._run.now())
        return [
            Orphan(
                row["id"],
                row["fence"],
                row["queue"],
                row["tenant_id"],
                row["tries"],
                row["worker"],
                row["expires_in"],
                Retry()
                if row["max_attempts"] is None
                else Retry(
                    row["max_attempts"], row["retry_base"], row["retry_cap"], row["retry_factor"]
                ),
                row["task"],
                row["remote"],
            )
            for row in rows
        ]

    async def strays(
        self, worker: int, held: Sequence[int], older_than: float
    ) -> list[tuple[int, int]]:
        rows = await self._run.rows("strays", worker, held, older_than)
        return [(row["id"], row["fence"]) for row in rows]

    async def locked(self, ids: Sequence[int]) -> set[int]:
        """Those that somebody else has locked."""
        return {row[0] for row in await self._run.rows("locked", ids)}

    async def long_unknown(self, reasons: Mapping[int, str], longer_than: float) -> set[int]:
        """Of these jobs, each with what is said of an unknown task: those given up."""
        rows = await self._run.rows(
            "long_unknown", list(reasons), list(reasons.values()), longer_than, self._run.now()
        )
        return {row[0] for row in rows}

    async def progress(self, said: Mapping[int, tuple[int, str]]) -> set[int]:
        """Id and JSON by fence; returns the fences whose job somebody else has locked."""
        rows = await self._run.rows(
            "progress",
            [id for id, _ in said.values()],
            list(said),
            [text for _, text in said.values()],
        )
        return {row[0] for row in rows}

    async def cancel(self, ids: Sequence[int], tenant: int | None = None) -> dict[int, int | None]:
        """For each live job: None if it ended here, or the worker that was asked to end it."""
        rows = await self._run.into_history("cancel", ids, tenant, self._run.now())
        return {row["id"]: row["worker_id"] for row in rows}

    async def traces(self, ids: Sequence[int]) -> dict[int, str]:
        """The spans that enqueued these jobs, of those that were traced."""
        return {row["id"]: row["trace"] for row in await self._run.rows("traces_of_jobs", ids)}

    async def live_in(self, tenant: int, at_most: int) -> int:
        """How many live jobs a tenant has; no more than so many are counted."""
        live: int = await self._run.value("live_in", tenant, at_most)
        return live

    async def quotas(self) -> dict[int, int | None]:
        """How many live jobs a tenant may have; None: as many as it likes, though it was over."""
        rows = await self._run.rows("quotas")
        return {row["id"]: row["max_live_jobs"] for row in rows}

    async def count_quotas(self, tenants: Sequence[int]) -> list[Counted]:
        """How many live jobs each has, as far as its quota, and whether it is over that."""
        return [Counted(*row) for row in await self._run.rows("quotas_count", tenants)]

    async def mark_quotas(self, guard: Guard, counted: Sequence[Counted]) -> set[int]:
        """Say so in the database; returns the tenants of whom something else was said before."""
        ids, over = [each.tenant for each in counted], [each.is_over for each in counted]
        rows = await self._run.rows("quotas_mark", guard.node, guard.term, ids, over)
        return {row["id"] for row in rows}

    async def notify_idle(
        self, queues: Sequence[str], tenants: Sequence[int] | None = None
    ) -> None:
        """Wake who sleeps on these queues, each for a tenant; None: for the caller's own."""
        await self._run.rows("notify_idle", queues, tenants or [None] * len(queues))

    async def notify(self, payloads: Sequence[str]) -> bool:
        """Whether any worker lives that could have heard it."""
        return bool(await self._run.value("notify", payloads))


def _fire(row: Row) -> Fire:
    previous = None
    if row["previous_job"] is not None:
        previous = PreviousFire(
            row["previous_fire_at"],
            row["previous_job"],
            row["previous_state"],
            None if row["previous_result"] is None else msgspec.json.decode(row["previous_result"]),
            row["previous_error"],
        )
    return Fire(row["schedule"], row["fire_at"], row["scheduled_at"], row["kind"], previous)


def _id(settled: tuple[int, int, Settlement]) -> int:
    return settled[0]


def _due_at(job: NewJob, now: datetime, instant: datetime) -> datetime:
    due_at = instant if job.delay is None else now + timedelta(seconds=job.delay)
    return due_at if job.at is None else max(due_at, job.at)


def _expires_at(job: NewJob, now: datetime) -> datetime | None:
    return None if job.expires_in is None else now + timedelta(seconds=job.expires_in)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
