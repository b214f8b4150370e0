"""Dead jobs as HTTP says them."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StrictBool, StrictInt, StrictStr

from sexton.api.models.common import Body, Instant
from sexton.api.models.jobs import AttemptOut, NameText
from sexton.domain.given import LARGEST_ID

MOST_AT_ONCE = 10_000
USUALLY = 1_000
LONGEST_PART = 1_000

Reason = Literal["permanent", "exhausted", "expired"]
Id = Annotated[StrictInt, Field(ge=1, le=LARGEST_ID)]


class DeadLineOut(BaseModel):
    """A dead job as one line of a list."""

    id: int = Field(description="Its id.")
    task: str = Field(description="The task, or `http:` and the endpoint's id.")
    queue: str = Field(description="Its queue.")
    priority: int = Field(description="Its priority.")
    key: str | None = Field(description="Its key, which others may hold now.")
    tags: list[str] = Field(description="Its tags.")
    attempt: int = Field(description="How often it was tried.")
    reason: Reason = Field(description="Why it will not be tried again by itself.")
    error: str | None = Field(description="What it failed with; in a list only its beginning.")
    created_at: datetime = Field(description="When it was made.")
    died_at: datetime = Field(description="When it died.")
    schedule: str | None = Field(description="The schedule whose fire made it.")
    fire_at: datetime | None = Field(description="That fire.")


class DeadOut(BaseModel):
    """A dead job with everything that is known of it."""

    id: int = Field(description="Its id.")
    task: str = Field(description="The task, or `http:` and the endpoint's id.")
    target: dict[str, Any] = Field(description="Where it goes: a task, or an HTTP endpoint.")
    queue: str = Field(description="Its queue.")
    priority: int | None = Field(description="Its priority.")
    payload: Any = Field(description="The arguments, by name.")
    key: str | None = Field(description="Its key, which others may hold now.")
    tags: list[str] = Field(description="Its tags.")
    attempt: int = Field(description="How often it was tried.")
    reason: Reason = Field(description="Why it will not be tried again by itself.")
    error: str | None = Field(description="What it failed with.")
    created_at: datetime = Field(description="When it was made.")
    died_at: datetime | None = Field(description="When it died.")
    schedule: str | None = Field(description="The schedule whose fire made it.")
    fire_at: datetime | None = Field(description="That fire.")
    attempts: list[AttemptOut] = Field(description="Oldest first.")


class DeadFilter(Body):
    """Which dead jobs are meant; at least one of these."""

    task: NameText | None = Field(None, description="Of this task.")
    queue: NameText | None = Field(None, description="Of this queue.")
    error: StrictStr | None = Field(
        None, min_length=1, max_length=LONGEST_PART, description="Whose error contains this."
    )
    since: Instant | None = Field(None, description="That died from then on.")
    until: Instant | None = Field(None, description="That died before.")


class DeadChoiceIn(Body):
    """Which dead jobs are meant, by id or by filter; never all by saying nothing."""

    ids: list[Id] | None = Field(None, min_length=1, max_length=MOST_AT_ONCE, description="These.")
    filter: DeadFilter | None = Field(None, description="Those that are like this.")
    dry_run: StrictBool = Field(False, description="Change nothing, only say which.")
    limit: StrictInt = Field(
        USUALLY, ge=1, le=MOST_AT_ONCE, description="At most so many, the oldest deaths first."
    )


class RedrivenOut(BaseModel):
    """What became of one of them."""

    id: int = Field(description="The job.")
    queue: str = Field(description="Its queue.")
    revived: bool = Field(description="False in a dry run, or if it stays dead.")
    held: bool = Field(
        description="It stays dead: a live job holds its key, or another of these takes it."
    )


class RedriveOut(BaseModel):
    """What became of a redrive."""

    dry_run: bool = Field(description="Nothing was changed.")
    chosen: int = Field(description="How many were meant, and there.")
    redriven: int = Field(description="How many live again.")
    jobs: list[RedrivenOut] = Field(description="Each of them, the oldest death first.")


class PurgeOut(BaseModel):
    """What became of a purge."""

    dry_run: bool = Field(description="Nothing was changed.")
    chosen: int = Field(description="How many were meant, and there.")
    purged: int = Field(description="How many were thrown away.")
    ids: list[int] = Field(description="Each of them.")
