"""The path of a job: enqueue, claim, settle, cancel, redrive."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from sexton.domain.job import AGEING, Claim, Enqueued, Fire, NewJob, PreviousFire
from sexton.domain.retry import Retry
from sexton.domain.transitions import Settlement
from sexton.store.source import Row
from sexton.store.statements import Statements

BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_COPY_ALWAYS = ("id", "due_at", "task", "queue", "payload")
_COPY_TIMES = {"at": None, "delay": None, "expires_in": None}
_COPY_SOMETIMES = {"priority": 0, "limited": False, "limit_key": None, "tags": None, **_COPY_TIMES}


@dataclass(frozen=True, slots=True)
class Orphan:
    """A running job whose worker is gone, with the policy that says where it goes."""

    id: int
    fence: int
    queue: str
    tries: int
    worker: str
    expires_in: float | None
    retry: Retry


@dataclass(frozen=True, slots=True)
class Place:
    """Where the next claim of one limited task begins, in time and among its limit keys."""

    task: str
    due_for: float = 0.0  # only what has been due for so long
    since: datetime = BEGINNING
    after_key: str | None = None
    until_key: str | None = None


class Jobs:
    """Statements about live jobs."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements

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
        await self._run.copy("job", (*_COPY_ALWAYS, "created_at", "expires_at", *plain), rows)

    async def enqueue_keyed(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Jobs with keys: the answer says which were made and which job holds the others' key."""
        rows = await self._run.rows(
            "enqueue_keyed",
            [job.task for job in jobs],
            [job.payload for job in jobs],
            [job.queue for job in jobs],
            [job.priority for job in jobs],
            [job.at for job in jobs],
            [job.delay for job in jobs],
            [job.limit_key for job in jobs],
            [None if job.tags is None else _json(job.tags) for job in jobs],
            [job.expires_in for job in jobs],
            [job.key for job in jobs],
            [job.key_held_for for job in jobs],
            self._run.now(),
        )
        return [Enqueued(*row) for row in rows]

    async def claim(
        self,
        queue: str,
        limit: int,
        worker: int,
        priorities: Sequence[int],
        since: Sequence[datetime],
    ) -> list[Claim]:
        rows = await self._run.rows(
            "claim", queue, limit, worker, priorities, since, AGEING, self._run.now()
        )
        return [Claim(*row) for row in rows]

    async def claim_limited(
        self, queue: str, limit: int, worker: int, places: Sequence[Place]
    ) -> tuple[list[Claim], list[Place], bool]:
        """Also how far each task came, and whether it is worth looking again soon."""
        rows = await self._run.rows(
            "claim_limited",
            queue,
            limit,
            worker,
            [place.task for place in places],
            [place.due_for for place in places],
            [place.since for place in places],
            [place.after_key for place in places],
            [place.until_key for place in places],
            AGEING,
            self._run.now(),
        )
        claims = [Claim(*row[:14]) for row in rows if row["id"] is not None]
        came_to = [row for row in rows if row["id"] is None]
        reached = [
            Place(row["task"], 0.0, row["first_at"], row["went_to"], row["goes_to"])
            for row in came_to
        ]
        return claims, reached, any(row["again"] for row in came_to)

    async def claim_one(self, id: int, worker: int) -> Claim | None:
        """This job, due or not; None if it is not there to be claimed."""
        row = await self._run.row("claim_one", id, worker, self._run.now())
        return None if row is None else Claim(*row)

    async def mark_limited(self, claims: Sequence[Claim]) -> set[int]:
        """Put back, untried, jobs that were enqueued without knowing of their task's limit.

        Returns the ids of those that are; the others must be settled.
        """
        rows = await self._run.rows(
            "mark_limited", [claim.id for claim in claims], [claim.fence for claim in claims]
        )
        return {row["id"] for row in rows}

    async def limited_tasks(self, queue: str) -> dict[str, datetime]:
        """The tasks with jobs that only the limited claim finds, and when the first is due."""
        return {row["task"]: row["due_at"] for row in await self._run.rows("limited_tasks", queue)}

    async def outlook(
        self, queue: str, priorities: Sequence[int], since: Sequence[datetime]
    ) -> dict[int, tuple[datetime, float]]:
        """For each lane that has a job: when the first is due, and in how many seconds."""
        rows = await self._run.rows("outlook", queue, priorities, since, self._run.now())
        return {row["priority"]: (row["due_at"], row["due_in"]) for row in rows}

    async def outlook_limited(self, queue: str, tasks: Sequence[str]) -> float | None:
        due_in: float | None = await self._run.value(
            "outlook_limited", queue, tasks, self._run.now()
        )
        return due_in

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
        ours = await self._settle(settled)
        if len(ours) < len(settled):
            # A cancel that was committed while the statement waited for its row is not in the
            # statement's snapshot, and yet the row is as the cancel left it: neither of the two
            # that a job may go on to takes it. Another statement sees what there is.
            waits = [each for each in settled if each[2].next == "waiting" and each[0] not in ours]
            if waits:
                ours |= await self._settle(waits)
        return ours

    async def _settle(self, settled: Sequence[tuple[int, int, Settlement]]) -> set[int]:
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
        return {row[0] for row in rows}

    async def orphans(self, limit: int, gone_for: float | None) -> list[Orphan]:
        """Of workers that are gone no longer than so many seconds; None: of all."""
        rows = await self._run.rows("orphans", limit, gone_for, self._run.now())
        return [
            Orphan(
                row["id"],
                row["fence"],
                row["queue"],
                row["tries"],
                row["worker"],
                row["expires_in"],
                Retry()
                if row["max_attempts"] is None
                else Retry(
                    row["max_attempts"], row["retry_base"], row["retry_cap"], row["retry_factor"]
                ),
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

    async def cancel(self, ids: Sequence[int]) -> dict[int, int | None]:
        """For each live job: None if it ended here, or the worker that was asked to end it."""
        rows = await self._run.into_history("cancel", ids, self._run.now())
        return {row["id"]: row["worker_id"] for row in rows}

    async def notify_idle(self, queues: Sequence[str]) -> None:
        await self._run.rows("notify_idle", queues)

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
