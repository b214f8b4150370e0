"""Schedules as answers say them."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from sexton.domain.facts import Verdict
from sexton.domain.job import FireKind
from sexton.domain.schedule import Decided, ScheduleState


class ScheduleOut(BaseModel):
    """A schedule: what it says, and how it stands. Lengths of time are seconds, instants UTC.

    What it says is under the same names as in a request; options that were not given are left out,
    but for those that are here with their defaults.
    """

    id: int = Field(description="Never used again.")
    name: str = Field(description="What it is known by.")
    version: int = Field(description="Of what it says, counted from 1; also its ETag.")
    state: ScheduleState = Field(description="Only what is active fires by itself.")
    reason: str | None = Field(description="Why it is not active.")
    until: datetime | None = Field(description="When its pause ends by itself.")
    target: dict[str, Any] = Field(description="Where its jobs go.")
    payload: dict[str, Any] = Field(description="The arguments of its jobs, by name.")
    timezone: str = Field(description="Of cron, of recurrence rules and of local times.")
    misfire: str = Field(description="What becomes of fires found late.")
    grace: float = Field(description="What is later than that is missed.")
    overlap: str = Field(description="What becomes of a fire while a job of it lives.")
    tags: list[str] = Field(description="Words to find it and its jobs by.")
    created_at: datetime = Field(description="When its name was first used.")
    since: datetime = Field(description="When this version took effect.")
    next_fire_at: datetime | None = Field(description="Null: it will not fire by itself.")
    last_fire_at: datetime | None = Field(description="The latest fire that made a job.")
    late: bool = Field(description="Its next fire was found late, and is being caught up.")
    declared_by: str | None = Field(description="The application whose code declares it.")
    cron: str | None = Field(None, description="A cron expression.")
    dialect: str | None = Field(None, description="How `cron` is read.")
    every: float | None = Field(None, description="So much time apart.")
    anchor: datetime | None = Field(None, description="An instant that `every` is counted from.")
    at: datetime | None = Field(None, description="Once, at this instant.")
    rrule: str | None = Field(None, description="An iCalendar recurrence rule.")
    any: list[str | dict[str, Any]] | None = Field(None, description="Several rules.")
    dst: str | None = Field(None, description="What happens when the clocks are changed.")
    starts_at: datetime | None = Field(None, description="No fires before this instant.")
    ends_at: datetime | None = Field(None, description="No fires from this instant on.")
    jitter: float | None = Field(None, description="Each fire is later by up to so much.")
    jitter_kind: str | None = Field(None, description="Of each fire, or of the schedule.")
    exclude: list[str] | None = Field(None, description="Calendars that it keeps out of.")
    only: list[str] | None = Field(None, description="Calendars that it keeps within.")
    when_excluded: str | None = Field(None, description="What becomes of what they take out.")
    max_queued: int | None = Field(None, description="How many may wait.")
    max_running: int | None = Field(None, description="How many may live at once.")
    queue: str | None = Field(None, description="Of its jobs.")
    priority: int | None = Field(None, description="Of its jobs.")
    expires_in: float | None = Field(None, description="A job is not started later than that.")
    max_fires: int | None = Field(None, description="It ends after so many fires.")


class PlannedOut(BaseModel):
    """A fire to come."""

    fire_at: datetime = Field(description="With its jitter.")
    scheduled_at: datetime = Field(description="The instant that the rule gives.")
    note: str | None = Field(description="What the clocks or a calendar did to it.")


class PreviewOut(BaseModel):
    """The next fires."""

    fires: list[PlannedOut] = Field(description="In order; fewer than asked for if it ends.")


class DifferenceOut(BaseModel):
    """Something that a schedule says, now and after a change."""

    field: str = Field(description="Its name.")
    before: Any = Field(description="Null: nothing.")
    after: Any = Field(description="Null: nothing.")


class PlanOut(BaseModel):
    """What a change would do; nothing was changed."""

    changes: list[DifferenceOut] = Field(description="None: it would make no new version.")
    before: list[PlannedOut] = Field(description="The next fires as it stands.")
    after: list[PlannedOut] = Field(description="The next fires with the change.")
    gone: list[datetime] = Field(
        description="Fires that there would not be any more, as far as both lists go."
    )
    new: list[datetime] = Field(description="Fires that there would be, as far as both lists go.")


class JobMadeOut(BaseModel):
    """A job of a schedule."""

    job: int = Field(description="Its id.")


class BackfillOut(BaseModel):
    """A stretch of the past that is fired where it was not."""

    id: int = Field(description="Of its own.")
    from_: datetime = Field(alias="from", description="From this instant.")
    to: datetime = Field(description="Until before this one.")
    reached: datetime = Field(description="How far it has come.")
    rate: float = Field(description="At most so many fires a second.")
    created_at: datetime = Field(description="When it was asked for.")
    finished_at: datetime | None = Field(description="When it ended.")
    cancelled: bool = Field(description="It ended before its end.")
    fired: int = Field(description="How many fires it has made.")
    skipped: int = Field(description="How many had been fired before.")


class BackfillMadeOut(BaseModel):
    """A backfill that was asked for."""

    id: int = Field(description="Its id.")


class FireOut(BaseModel):
    """A decision of the ledger: about one fire, or about many that were passed over together."""

    fire_at: datetime = Field(description="The fire, or the first of many.")
    last_at: datetime = Field(description="The fire, or the last of many.")
    fires: int | None = Field(description="How many; null: more than anyone cared to count.")
    scheduled_at: datetime | None = Field(description="Without its jitter; null if many.")
    decided_at: datetime = Field(description="When it was decided.")
    decision: Decided = Field(description="Whether it was fired, and if not, why.")
    kind: FireKind | None = Field(description="How it came to be; null if many.")
    job: int | None = Field(description="The job that it made.")
    term: int | None = Field(description="Of the leader under whom it was decided.")
    node_id: int | None = Field(description="The node that decided it; null: somebody's change.")
    node: str | None = Field(description="Its name, for the operator's own tenant.")
    lag: float | None = Field(description="How long after its instant it was decided, in seconds.")


class VersionOut(BaseModel):
    """What a schedule said from one instant to another."""

    version: int = Field(description="Counted from 1.")
    since: datetime = Field(description="From this instant, itself not in it.")
    until: datetime | None = Field(description="To this one; null: it is in effect.")
    state: ScheduleState = Field(description="Its state.")
    reason: str | None = Field(description="Why it was not active.")
    ended_by: str | None = Field(description="The verb that ended it.")
    target: dict[str, Any] = Field(description="Where its jobs went.")
    payload: dict[str, Any] = Field(description="The arguments of its jobs.")
    said: dict[str, Any] = Field(description="Its options, under their names in a request.")


class LineProblemOut(BaseModel):
    """What is wrong with a line."""

    type: str = Field(description="Which kind of problem it is.")
    status: int = Field(description="As if it had been sent by itself; 503: send it again.")
    detail: str = Field(description="What is wrong, and what to do about it.")
    field: str | None = Field(None, description="The field that is wrong, if it is one.")


class BulkLineOut(BaseModel):
    """What became of one line."""

    line: int = Field(description="Its number, counted from 1, blank ones included.")
    name: str | None = Field(description="The schedule's, if it could be read.")
    status: Literal["created", "updated", "exists", "error"] = Field(
        description="What became of it; exists: it was left as it is."
    )
    id: int | None = Field(None, description="The schedule's, unless there is an error.")
    error: LineProblemOut | None = Field(None, description="What is wrong with it.")


class NearbyOut(BaseModel):
    """A fire before or after the instant that was asked about."""

    fire_at: datetime = Field(description="With its jitter.")
    scheduled_at: datetime = Field(description="The instant that the rule gives.")
    verdict: Verdict = Field(description="What became of it.")
    note: str | None = Field(description="What the clocks or a calendar did to it.")


class ExplanationOut(BaseModel):
    """What became of a fire, in one word and in sentences."""

    at: datetime = Field(description="The instant that was asked about.")
    verdict: Verdict = Field(description="What became of it, in one word.")
    sentences: list[str] = Field(description="What became of it and why.")
    fire_at: datetime | None = Field(description="The fire that was found, with its jitter.")
    scheduled_at: datetime | None = Field(description="The instant that the rule gives.")
    note: str | None = Field(description="What the clocks or a calendar did to it.")
    version: int | None = Field(description="The version that speaks for the instant.")
    decision: FireOut | None = Field(description="What the ledger has about it.")
    job: int | None = Field(description="The job that it made.")
    before: NearbyOut | None = Field(description="The fire before, if there was none then.")
    after: NearbyOut | None = Field(description="The fire after, if there was none then.")
