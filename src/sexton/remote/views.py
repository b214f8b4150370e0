"""What the service answers, as values."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from sexton.domain.job import State

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some of a list; `next` is the cursor of the page that follows, None if this is the last."""

    items: list[T]
    next: str | None = None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class Attempt(msgspec.Struct, frozen=True):
    """One try at a job."""

    attempt: int
    outcome: str
    fence: int
    worker: str | None
    claimed_at: datetime | None
    finished_at: datetime
    error: str | None
    result: Any


class JobLine(msgspec.Struct, frozen=True, kw_only=True):
    """A job as one line of a list."""

    id: int
    state: State
    task: str
    queue: str
    priority: int | None
    key: str | None
    tags: list[str]
    attempt: int
    created_at: datetime
    due_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    cancel_requested: bool
    error: str | None
    schedule: str | None
    fire_at: datetime | None
    after_job: int | None


class Job(JobLine, frozen=True, kw_only=True):
    """A job with everything that is known of it."""

    target: dict[str, Any]
    payload: Any
    progress: Any
    result: Any
    attempts: list[Attempt]


class DeadLine(msgspec.Struct, frozen=True, kw_only=True):
    """A dead job as one line of a list."""

    id: int
    task: str
    queue: str
    priority: int | None
    key: str | None
    tags: list[str]
    attempt: int
    reason: str
    error: str | None
    created_at: datetime
    died_at: datetime
    schedule: str | None
    fire_at: datetime | None


class Dead(DeadLine, frozen=True, kw_only=True):
    """A dead job with everything that is known of it."""

    target: dict[str, Any]
    payload: Any
    attempts: list[Attempt]


class Cancelled(msgspec.Struct, frozen=True):
    """What became of a cancel: cancelled, or running and its worker asked."""

    id: int
    state: State


class Retried(msgspec.Struct, frozen=True):
    """What became of a retry: `id` is the job that will run, the same one or a new one."""

    id: int
    state: State
    retried: int


class Redriven(msgspec.Struct, frozen=True):
    """A dead job that was chosen; one whose key is held stays dead."""

    id: int
    queue: str
    revived: bool
    held: bool = False


class Redrive(msgspec.Struct, frozen=True):
    """What became of a redrive."""

    dry_run: bool
    chosen: int
    redriven: int
    jobs: list[Redriven]


class Purge(msgspec.Struct, frozen=True):
    """What became of a purge."""

    dry_run: bool
    chosen: int
    purged: int
    ids: list[int]


class Queue(msgspec.Struct, frozen=True):
    """The live jobs of one queue, and for how many seconds the oldest has been ready."""

    queue: str
    waiting: int
    ready: int
    running: int
    oldest_ready_for: float | None


class Progress(msgspec.Struct, frozen=True):
    """How far a job is."""

    id: int
    state: State
    attempt: int
    progress: Any


class Worker(msgspec.Struct, frozen=True):
    """A worker that lives."""

    id: int
    name: str
    queues: list[str]
    version: str
    started_at: datetime
    renewed_at: datetime
    lease_until: datetime
    remote: bool
    running: int


class Line(msgspec.Struct, frozen=True):
    """What became of one of many: created, updated, exists, duplicate, or an error."""

    line: int
    status: str
    id: int | None = None
    name: str | None = None
    error: dict[str, Any] | None = None


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule: what it says, and how it stands."""

    id: int
    name: str
    version: int
    state: str
    reason: str | None
    until: datetime | None
    target: dict[str, Any]
    payload: dict[str, Any]
    timezone: str
    misfire: str
    grace: float
    overlap: str
    tags: list[str]
    created_at: datetime
    since: datetime
    next_fire_at: datetime | None
    last_fire_at: datetime | None
    late: bool
    declared_by: str | None
    cron: str | None = None
    dialect: str | None = None
    every: float | None = None
    anchor: datetime | None = None
    at: datetime | None = None
    rrule: str | None = None
    any: list[str | dict[str, Any]] | None = None
    dst: str | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    jitter: float | None = None
    jitter_kind: str | None = None
    exclude: list[str] | None = None
    only: list[str] | None = None
    when_excluded: str | None = None
    max_queued: int | None = None
    max_running: int | None = None
    queue: str | None = None
    priority: int | None = None
    expires_in: float | None = None
    max_fires: int | None = None


class Planned(msgspec.Struct, frozen=True):
    """A fire to come."""

    fire_at: datetime
    scheduled_at: datetime
    note: str | None


class Difference(msgspec.Struct, frozen=True):
    """Something that a schedule says, now and after a change."""

    field: str
    before: Any
    after: Any


class Plan(msgspec.Struct, frozen=True):
    """What a change would do to a schedule's fires."""

    changes: list[Difference]
    before: list[Planned]
    after: list[Planned]
    gone: list[datetime]
    new: list[datetime]


class Decision(msgspec.Struct, frozen=True):
    """A decision of the ledger: about one fire, or about many that were passed over together."""

    fire_at: datetime
    last_at: datetime
    fires: int | None
    scheduled_at: datetime | None
    decided_at: datetime
    decision: str
    kind: str | None
    job: int | None
    term: int | None
    node_id: int | None
    node: str | None
    lag: float | None


class Nearby(msgspec.Struct, frozen=True):
    """A fire before or after the instant that was asked about."""

    fire_at: datetime
    scheduled_at: datetime
    verdict: str
    note: str | None


class Explanation(msgspec.Struct, frozen=True):
    """What became of a fire, in one word and in sentences."""

    at: datetime
    verdict: str
    sentences: list[str]
    fire_at: datetime | None
    scheduled_at: datetime | None
    note: str | None
    version: int | None
    decision: Decision | None
    job: int | None
    before: Nearby | None
    after: Nearby | None


class Version(msgspec.Struct, frozen=True):
    """What a schedule said from one instant to another."""

    version: int
    since: datetime
    until: datetime | None
    state: str
    reason: str | None
    ended_by: str | None
    target: dict[str, Any]
    payload: dict[str, Any]
    said: dict[str, Any]


class Backfill(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """A stretch of the past that is fired where it was not."""

    id: int
    from_: datetime
    to: datetime
    reached: datetime
    rate: float
    created_at: datetime
    finished_at: datetime | None
    cancelled: bool
    fired: int
    skipped: int


class Calendar(msgspec.Struct, frozen=True, omit_defaults=True):
    """A calendar in its newest version."""

    name: str
    version: int
    since: datetime
    dates: list[str]
    ranges: list[str]
    windows: list[str]
    timezone: str | None
    recomputed: int | None = None  # after a change: how many schedules have a new version by it
