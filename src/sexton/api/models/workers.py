"""Remote workers as HTTP says them."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import BaseModel, Field, StrictBool, StrictInt, StrictStr

from sexton.api.models.common import DURATION, Body, Duration
from sexton.api.models.jobs import (
    LONGEST_ERROR,
    MOST_RESULTS,
    AnyJson,
    Fence,
    NameText,
    OutcomeName,
)
from sexton.domain.given import LARGEST_ID

MOST_QUEUES = 50
MOST_CLAIMS = 1000
MOST_HELD = 100_000
LONGEST_WAIT = 60.0
SHORTEST_LEASE, LONGEST_LEASE = 5.0, 3600.0

WorkerId = Annotated[int, Path(ge=1, le=2**31 - 1, description="The worker's id.")]


class WorkerIn(Body):
    """A worker that joins."""

    name: NameText = Field(description="To be recognised by; need not be unique.")
    queues: list[NameText] = Field(
        min_length=1, max_length=MOST_QUEUES, description="Whose jobs it takes."
    )
    lease: Duration = Field(
        30,
        description=f"Silent for so long, it is lost and its jobs run elsewhere. {DURATION}",
    )


class WorkerOut(BaseModel):
    """A worker that has joined."""

    id: int = Field(description="For the paths of its calls.")
    lease: float = Field(description="Seconds: renew well before it is over.")
    lease_until: datetime = Field(description="By the database's clock.")


class WorkerLineOut(BaseModel):
    """A worker that lives."""

    id: int = Field(description="Its id.")
    name: str = Field(description="What it calls itself.")
    queues: list[str] = Field(description="Whose jobs it takes.")
    version: str = Field(description="Of the code; `remote` for those that speak HTTP.")
    started_at: datetime = Field(description="When it joined.")
    renewed_at: datetime = Field(description="When it last renewed its lease.")
    lease_until: datetime = Field(description="Until when its lease holds.")
    remote: bool = Field(description="It speaks HTTP, and works for this tenant only.")
    running: int = Field(description="How many of the tenant's jobs it has claimed.")


Held = Annotated[
    list[Annotated[StrictInt, Field(ge=1, le=LARGEST_ID)]], Field(max_length=MOST_HELD)
]


class ClaimIn(Body):
    """A request for jobs."""

    limit: StrictInt = Field(default=1, ge=1, le=MOST_CLAIMS, description="At most so many.")
    wait: Duration = Field(
        default=0, description=f"If there are none, wait for so long, at most 60 s. {DURATION}"
    )
    held: Held | None = Field(
        default=None,
        description="After a claim whose answer was lost: the fences of all jobs that it has. "
        "Others in its name are put back, and are there to be claimed again.",
    )


class ClaimedOut(BaseModel):
    """A job to be run."""

    id: int = Field(description="The job.")
    fence: int = Field(description="To be sent with everything that is said of it.")
    attempt: int = Field(description="Counted from 1.")
    task: str = Field(description="What to do.")
    queue: str = Field(description="Where it was.")
    payload: dict[str, Any] = Field(description="The arguments, by name.")
    key: str | None = Field(description="Its key.")
    idempotency_key: str = Field(
        description="The same over all attempts: for effects outside the database."
    )
    schedule: str | None = Field(description="The schedule whose fire made it.")
    fire_at: datetime | None = Field(description="That fire.")
    created_at: datetime = Field(description="When it was made.")
    due_at: datetime = Field(description="When it was due.")
    lease_until: datetime = Field(description="That of the worker: renew before.")


class CancelledOut(BaseModel):
    """A job that somebody wants cancelled."""

    id: int = Field(description="The job.")
    fence: int = Field(description="That of its claim.")


class ClaimsOut(BaseModel):
    """What there is to do."""

    jobs: list[ClaimedOut] = Field(description="To be started in this order.")
    cancel: list[CancelledOut] = Field(description="Stop these, and settle them as cancelled.")
    lease_until: datetime = Field(description="Until when the worker's lease holds.")


class RenewIn(Body):
    """What a worker says when it renews."""

    held: Held | None = Field(
        None,
        description="The fences of all jobs that it has. Others in its name, whose claim was never "
        "heard of, are put back. Null: it does not say.",
    )


class RenewOut(BaseModel):
    """A lease that goes on."""

    lease_until: datetime = Field(description="By the database's clock.")
    cancel: list[CancelledOut] = Field(description="Stop these, and settle them as cancelled.")
    put_back: list[int] = Field(description="Jobs in its name that it did not know of.")


class ResultIn(Body):
    """What became of one job."""

    id: Annotated[StrictInt, Field(ge=1, le=LARGEST_ID, description="The job.")]
    fence: Fence
    outcome: OutcomeName = Field(description="What happened to this attempt.")
    result: AnyJson = None
    error: StrictStr | None = Field(
        None, max_length=LONGEST_ERROR, description="What went wrong, or why not now."
    )
    retry_after: Duration | None = Field(
        None, description=f"Again after exactly so long; a snoozed one needs it. {DURATION}"
    )
    permanent: StrictBool = Field(False, description="Trying again cannot help: dead at once.")


class SettleIn(Body):
    """What became of jobs."""

    results: list[ResultIn] = Field(
        min_length=1, max_length=MOST_RESULTS, description="One for each."
    )


class ResultOut(BaseModel):
    """Whether an outcome was recorded."""

    id: int = Field(description="The job.")
    fence: int = Field(description="As it was sent.")
    status: Literal["accepted", "stale"] = Field(
        description="stale: not the fence of this worker's running attempt; nothing changed."
    )
    note: str | None = Field(None, description="What could not be kept of it, such as a result.")


class SettleOut(BaseModel):
    """Which outcomes were recorded."""

    results: list[ResultOut] = Field(description="In the order in which they were sent.")


class LeftOut(BaseModel):
    """A worker that has left."""

    released: int = Field(description="How many jobs were put back, untried.")
