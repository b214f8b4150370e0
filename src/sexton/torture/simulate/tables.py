"""The rows of the modelled database: what the protocol reads and writes, and no more.

Instants are seconds since 1970 by the database's clock. Rows that are gone are kept apart, so
that a statement walks over the living only.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from sexton.store.cluster import Ownership
from sexton.torture.simulate.watch import Watch

if TYPE_CHECKING:
    from sexton.torture.simulate.process import Process

NEVER = math.inf


class Refused(Exception):
    """The database raised, and nothing of the statement was done."""


@dataclass(slots=True)
class LeaseRow:
    """A node or a worker that lives."""

    lease_until: float
    lease_for: float


@dataclass(slots=True)
class LeaderRow:
    """The one row of sexton.leader."""

    node: int | None = None
    term: int = 0
    lease_until: float = NEVER


@dataclass(slots=True)
class ScheduleRow:
    """A row of sexton.due and what a fire reads of sexton.schedule."""

    id: int
    partition: int
    rule: int
    next_fire: float
    anchor: float = 0.0
    stamp: int = 0
    late: bool = False
    fires_left: int | None = None
    last_job: int | None = None
    live: tuple[int, ...] = ()
    state: str = "active"
    version: int = 1
    since: float = 0.0


@dataclass(slots=True)
class JobRow:
    """A live job."""

    id: int
    created_at: float
    due_at: float
    schedule: int | None = None
    fire_at: float | None = None
    after_job: int | None = None
    fence: int = 0
    claimed_by: int | None = None
    claimed_at: float | None = None
    attempt: int = 0
    cancel_requested: bool = False


class FireRow(NamedTuple):
    """A line of the ledger."""

    decision: str
    kind: str
    job: int | None
    node: int | None
    term: int | None
    decided_at: float


class GapRow(NamedTuple):
    """Fires that are passed over together."""

    schedule: int
    first: float
    last: float
    fires: int | None
    decision: str


class AttemptRow(NamedTuple):
    """A line of history."""

    job: int
    fence: int
    worker: int | None
    attempt: int
    outcome: str
    next: str


class Tables:
    """Everything that is committed. Each statement is one instant: whoever comes second, in
    PostgreSQL by waiting for a lock, sees all that the first one did."""

    def __init__(self, watch: Watch, now: float = 0.0, started_at: float = -NEVER) -> None:
        self.watch = watch
        self.now = now
        self.started_at = started_at  # pg_postmaster_start_time()
        self.by: Process | None = None  # whose statement this is
        self.notices: list[str] = []
        self.node_id = self.worker_id = self.epoch = self.job_id = self.fence = 0
        self.nodes: dict[int, LeaseRow] = {}
        self.leader = LeaderRow()
        self.ownership: dict[int, Ownership] = {}
        self.schedules: dict[int, ScheduleRow] = {}
        self.fires: dict[tuple[int, float], FireRow] = {}
        self.gaps: list[GapRow] = []
        self.jobs: dict[int, JobRow] = {}
        self.workers: dict[int, LeaseRow] = {}
        self.gone_workers: dict[int, float] = {}  # when each was declared so
        self.attempts: list[AttemptRow] = []
        self.dead: dict[int, str] = {}  # and why
        self.cancels: dict[int, int] = {}  # cancel_request: job to worker

    def clock_now(self) -> float:
        """clock.sql: the only clock that counts."""
        return self.now
