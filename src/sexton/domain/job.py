"""A job as it is asked for, as it is claimed, and as it is looked at."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

FireKind = Literal["due", "catch_up", "backfill", "trigger"]
State = Literal["waiting", "ready", "running", "succeeded", "cancelled", "dead"]
LIVE_STATES: tuple[State, ...] = ("waiting", "ready", "running")
PRIORITIES = range(-5, 6)
# A priority is worth a head start of a minute for each step, so the largest difference of ten
# steps lets no job be overtaken by one that became due ten minutes after it.
AGEING = 60.0
_1970 = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class NewJob:
    """A job to be enqueued; every field already checked."""

    task: str
    payload: str
    queue: str
    priority: int | None = 0  # None and an empty queue: as the task was declared to the database
    at: datetime | None = None
    delay: float | None = None
    key: str | None = None
    key_held_for: float | None = None
    limited: bool = False
    limit_key: str | None = None
    tags: Sequence[str] | None = None
    expires_in: float | None = None
    tenant: int = 1


class Enqueued(msgspec.Struct, frozen=True, gc=False):
    """The answer to an enqueue; a duplicate carries the id of the job that holds the key."""

    id: int
    duplicate: bool = False


class PreviousFire(msgspec.Struct, frozen=True):
    """The fire of the same schedule before this one that made a job, and what became of it."""

    fire_at: datetime
    job_id: int
    state: State | None  # None: history does not go back so far
    result: Any = None
    error: str | None = None


class Fire(msgspec.Struct, frozen=True):
    """The fire that made a job: `scheduled_at` by the rule, `fire_at` with its jitter."""

    schedule: str
    fire_at: datetime
    scheduled_at: datetime
    kind: FireKind
    previous: PreviousFire | None = None

    @property
    def catch_up(self) -> bool:
        """It was missed at its time, and is made up for now."""
        return self.kind == "catch_up"

    @property
    def backfill(self) -> bool:
        """Somebody asked for a stretch of the past."""
        return self.kind == "backfill"


class Claim(msgspec.Struct, gc=False):
    """One claim of a job: the right to run it until the worker's lease ends.

    A Struct with instants as seconds since 1970 (by the database's clock), because a worker makes
    tens of thousands of these in a second.
    """

    id: int
    fence: int
    attempt: int
    tries: int
    priority: int
    task: str
    payload: str
    key: str | None
    created: float
    due: float
    claimed: float
    expires: float | None
    schedule_id: int | None = None
    fire_at: float | None = None
    tenant: int = 1
    fire: Fire | None = None  # looked up for tasks that take a Job


def instant(since_1970: float) -> datetime:
    """The exact microsecond that PostgreSQL kept."""
    return _1970 + timedelta(microseconds=round(since_1970 * 1_000_000))


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a job, as history keeps it."""

    attempt: int
    outcome: str
    fence: int
    worker: str | None
    claimed_at: datetime | None
    finished_at: datetime
    error: str | None
    result: Any


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as anyone may look at it, live or not."""

    id: int
    state: State
    task: str
    queue: str
    priority: int | None
    payload: dict[str, Any]
    key: str | None
    tags: tuple[str, ...]
    attempt: int
    created_at: datetime
    due_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    progress: Any
    cancel_requested: bool
    result: Any
    error: str | None
    schedule: str | None = None  # whose fire made it
    fire_at: datetime | None = None
    after_job: int | None = None  # it waits for this one, and is not due before that has ended
    attempts: tuple[Attempt, ...] = field(default=())
    tenant: int = 1


@dataclass(frozen=True, slots=True)
class DeadJob:
    """A job that will not be tried again by itself."""

    id: int
    task: str
    queue: str
    payload: dict[str, Any]
    key: str | None
    tags: tuple[str, ...]
    attempt: int
    reason: str
    error: str | None
    created_at: datetime
    died_at: datetime
    tenant: int = 1


@dataclass(frozen=True, slots=True)
class StuckJobs:
    """Running jobs of one task whose worker has not renewed its lease for a while."""

    task: str
    jobs: int
    worker_id: int
    worker: str
    silent_for: float
    longest: float
    ids: tuple[int, ...]
