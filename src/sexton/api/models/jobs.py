"""Jobs as HTTP says them."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import AfterValidator, BaseModel, Field, StrictBool, StrictInt, StrictStr
from starlette.convertors import Convertor, register_url_convertor

from sexton.api.models.common import DURATION, Body, Duration, Instant
from sexton.domain.given import LARGEST_ID, checked_text
from sexton.domain.job import PRIORITIES
from sexton.errors import ConfigurationError

_LONGEST_NAME = 200
_LONGEST_KEY = 1000
MOST_TAGS = 100
MOST_RESULTS = 1000
LONGEST_ERROR = 100_000

State = Literal["waiting", "ready", "running", "succeeded", "cancelled", "dead"]
OutcomeName = Literal["succeeded", "failed", "snoozed", "released", "cancelled"]


class IdConvertor(Convertor[int]):
    """In a path: digits, and no more than an id has. Words such as `redrive` are other routes."""

    regex = "[0-9]{1,19}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("id", IdConvertor())

JobId = Annotated[int, Path(ge=1, le=LARGEST_ID, description="The job's id.")]
NameText = Annotated[StrictStr, Field(min_length=1, max_length=_LONGEST_NAME)]
KeyText = Annotated[StrictStr, Field(min_length=1, max_length=_LONGEST_KEY)]
Fence = Annotated[
    StrictInt,
    Field(
        ge=1, le=LARGEST_ID, description="The fence that came with the job: it is refused if stale."
    ),
]


def _kept(given: str) -> str:
    """A text that PostgreSQL could have kept: with no other is anything found."""
    try:
        return checked_text(given, "it") or ""
    except ConfigurationError as error:
        raise ValueError(str(error)) from None


NameFilter = (
    Annotated[str, Field(min_length=1, max_length=_LONGEST_NAME), AfterValidator(_kept)] | None
)
KeyFilter = (
    Annotated[str, Field(min_length=1, max_length=_LONGEST_KEY), AfterValidator(_kept)] | None
)
AnyJson = Annotated[Any, Field(description="Any JSON.")]


class JobIn(Body):
    """A job to be."""

    task: NameText | None = Field(None, description="The name of a task; or give `target`.")
    target: dict[str, Any] | None = Field(
        None,
        description="Where it goes: a task by name, or an HTTP endpoint.",
        examples=[{"task": "send_invoice"}, {"http": {"endpoint": "billing"}}],
    )
    payload: dict[str, Any] = Field(
        default_factory=dict, description="The arguments, by name.", examples=[{"invoice_id": 7}]
    )
    queue: NameText | None = Field(
        None, description="Null: the task's own, as its workers declare it, or `default`."
    )
    priority: StrictInt | None = Field(
        None,
        ge=PRIORITIES[0],
        le=PRIORITIES[-1],
        description="The larger the sooner; null: the task's own, or 0.",
    )
    at: Instant | None = Field(None, description="Not before this instant; or give `delay`.")
    delay: Duration | None = Field(None, description=f"Not before so much later. {DURATION}")
    key: KeyText | None = Field(
        None, description="While a job of the task with this key lives, no other is made."
    )
    key_held_for: Duration | None = Field(
        None, description=f"The key is held on for so long after a success. {DURATION}"
    )
    limit_key: KeyText | None = Field(
        None, description="Of a task with `max_running_per_key`: whose limit it counts for."
    )
    tags: list[NameText] | None = Field(
        None, max_length=MOST_TAGS, description="Words to find it by."
    )
    expires_in: Duration | None = Field(
        None, description=f"It is not started, or tried again, after so long. {DURATION}"
    )


class EnqueuedOut(BaseModel):
    """The answer to an enqueue."""

    id: int = Field(description="The job; if it is a duplicate, the one that holds the key.")
    duplicate: bool = Field(description="A live job has the key already; none was made.")


class BulkLineOut(BaseModel):
    """What became of one line."""

    line: int = Field(description="Its number, counted from 1.")
    status: Literal["created", "duplicate", "error"] = Field(description="What became of it.")
    id: int | None = Field(None, description="The job, unless there is an error.")
    error: dict[str, Any] | None = Field(
        None, description="What is wrong with it: `status`, `type`, `detail` and perhaps `field`."
    )


class AttemptOut(BaseModel):
    """One try at a job."""

    attempt: int = Field(description="Counted from 1.")
    outcome: str = Field(description="succeeded, failed, snoozed, released, cancelled or lost.")
    fence: int = Field(description="That of its claim.")
    worker: str | None = Field(description="Who tried.")
    claimed_at: datetime | None = Field(description="When it began; null: it never did.")
    finished_at: datetime = Field(description="When it ended.")
    error: str | None = Field(description="What it failed with.")
    result: Any = Field(description="What it returned.")


class JobLineOut(BaseModel):
    """A job as one line of a list, without what it carries."""

    id: int = Field(description="Its id.")
    state: State = Field(description="Where it stands.")
    task: str = Field(description="The task, or `http:` and the endpoint's id.")
    queue: str = Field(description="Its queue.")
    priority: int | None = Field(description="Null: it is in history, which does not keep it.")
    key: str | None = Field(description="Its key.")
    tags: list[str] = Field(description="Its tags.")
    attempt: int = Field(description="How often it was tried, the running attempt included.")
    created_at: datetime = Field(description="When it was made.")
    due_at: datetime | None = Field(description="When it is, or was, due; null: after `after_job`.")
    finished_at: datetime | None = Field(description="When it ended.")
    worker: str | None = Field(description="Who runs it, or ran it last.")
    cancel_requested: bool = Field(description="Its worker was asked to stop it.")
    error: str | None = Field(description="What it failed with; in a list only its beginning.")
    schedule: str | None = Field(description="The schedule whose fire made it.")
    fire_at: datetime | None = Field(description="That fire.")
    after_job: int | None = Field(description="It waits until this job has ended.")


class JobOut(JobLineOut):
    """A job with everything that is known of it."""

    target: dict[str, Any] = Field(description="Where it goes: a task, or an HTTP endpoint.")
    payload: Any = Field(description="The arguments, by name.")
    progress: Any = Field(description="What it last said of itself, while it runs.")
    result: Any = Field(description="What it returned.")
    attempts: list[AttemptOut] = Field(description="Those that ended, oldest first.")


class ProgressOut(BaseModel):
    """How far a job is."""

    id: int = Field(description="The job.")
    state: State = Field(description="Where it stands.")
    attempt: int = Field(description="How often it was tried, the running attempt included.")
    progress: Any = Field(description="What it last said of itself, while it runs.")


class CancelOut(BaseModel):
    """What became of a cancel."""

    id: int = Field(description="The job.")
    state: State = Field(description="`cancelled`; `running`: its worker was asked to stop it.")


class RetryOut(BaseModel):
    """What became of a retry."""

    id: int = Field(description="The job that will run: the same, or a new one for one that ended.")
    state: State = Field(description="Where it stands now.")
    retried: int = Field(description="The job that was to be retried.")


class SucceedIn(Body):
    """A job is done."""

    fence: Fence
    result: AnyJson = None


class FailIn(Body):
    """An attempt failed."""

    fence: Fence
    error: StrictStr = Field("", max_length=LONGEST_ERROR, description="What went wrong.")
    permanent: StrictBool = Field(False, description="Trying again cannot help: dead at once.")
    retry_after: Duration | None = Field(
        None, description=f"Try again after exactly so long; null: as the task says. {DURATION}"
    )


class SnoozeIn(Body):
    """Not now: again later, without using up an attempt."""

    fence: Fence
    delay: Duration = Field(description=f"After so long. {DURATION}")
    reason: StrictStr = Field("", max_length=LONGEST_ERROR, description="Why not now.")


class ProgressIn(Body):
    """How far it is."""

    fence: Fence
    value: AnyJson


class SettledOut(BaseModel):
    """An outcome was recorded."""

    id: int = Field(description="The job.")
    status: Literal["accepted"] = Field(description="It was still the fence's.")
    note: str | None = Field(None, description="What could not be kept of it, such as a result.")


class QueueOut(BaseModel):
    """The live jobs of one queue."""

    queue: str = Field(description="Its name.")
    waiting: int = Field(description="Due later.")
    ready: int = Field(description="Due, and not claimed yet.")
    running: int = Field(description="Claimed by a worker.")
    oldest_ready_for: float | None = Field(
        description="For how many seconds the oldest ready job has been so."
    )


class QueuesOut(BaseModel):
    """Every queue with live jobs."""

    items: list[QueueOut] = Field(description="By name.")
    age: float = Field(description="How many seconds ago they were counted.")
