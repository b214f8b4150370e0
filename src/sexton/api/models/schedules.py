"""Schedules as requests say them. What each may be, and what goes together, the domain checks."""

from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt, StrictStr, WithJsonSchema

from sexton.api.models.common import DURATION, Body, BodyName, Duration, Instant, Word
from sexton.domain.job import PRIORITIES
from sexton.domain.policy import MAX_LIVE, Misfire, Overlap
from sexton.domain.schedule import ScheduleState
from sexton.domain.spec import LONGEST_REASON, MAX_FIRES
from sexton.domain.when.cron import Dialect
from sexton.domain.when.definition import MAX_CLAUSES, WhenExcluded
from sexton.domain.when.jitter import JitterKind
from sexton.domain.when.zone import Dst
from sexton.past import MAX_RATE

MOST_TAGS = 100
MOST_CALENDARS = 100
LONGEST_RULE = 10_000
MOST_FIRES = 1000

State = Literal[ScheduleState, "all"]
Text = Annotated[StrictStr, Field(min_length=1, max_length=LONGEST_RULE)]
# Local times are those of the schedule's time zone.
LocalInstant = Annotated[
    StrictStr,
    Field(
        max_length=40, examples=["2030-03-28T12:00:00Z"], json_schema_extra={"format": "date-time"}
    ),
]
Calendars = Annotated[list[Word], Field(max_length=MOST_CALENDARS)] | Word
Reason = Annotated[StrictStr, Field(min_length=1, max_length=LONGEST_REASON)]


class RuleIn(Body):
    """One rule of several: exactly one of `cron`, `every`, `at` and `rrule`."""

    cron: Text | None = Field(None, description="A cron expression.", examples=["0 9 * * MON-FRI"])
    dialect: Dialect | None = Field(None, description="How `cron` is read.")
    every: Duration | None = Field(None, description=f"So much time apart. {DURATION}")
    anchor: LocalInstant | None = Field(
        None, description="An instant that `every` is counted from."
    )
    at: LocalInstant | None = Field(None, description="Once, at this instant.")
    rrule: Text | None = Field(None, description="An iCalendar recurrence rule (RFC 5545).")


class WhenIn(Body):
    """When it fires: exactly one of `cron`, `every`, `at`, `rrule` and `any`, and more about it."""

    cron: Text | None = Field(
        None,
        description="A cron expression of five fields, or six with seconds first.",
        examples=["0 6 * * *", "H H * * *"],
    )
    dialect: Dialect | None = Field(None, description="How `cron` is read; cron.")
    every: Duration | None = Field(
        None, description=f"Again and again, so much time apart. {DURATION}"
    )
    anchor: LocalInstant | None = Field(
        None, description="An instant that `every` is counted from; when it was registered."
    )
    at: LocalInstant | None = Field(None, description="Once, at this instant.")
    rrule: Text | None = Field(
        None,
        description="An iCalendar recurrence rule (RFC 5545), alone or with its lines.",
        examples=["FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17;BYMINUTE=0;BYSECOND=0"],
    )
    any: list[RuleIn | Text] | None = Field(
        None,
        min_length=1,
        max_length=MAX_CLAUSES,
        description="Whenever any of these rules does; a text is a cron expression.",
    )
    timezone: Text | None = Field(
        None,
        description="Of cron, of recurrence rules, and of instants without an offset; UTC.",
        examples=["Europe/Paris"],
    )
    dst: Dst | None = Field(None, description="What happens when the clocks are changed.")
    starts_at: LocalInstant | None = Field(None, description="No fires before this instant.")
    ends_at: LocalInstant | None = Field(None, description="No fires from this instant on.")
    jitter: Duration | None = Field(
        None, description=f"Each fire is later by up to so much; none. {DURATION}"
    )
    jitter_kind: JitterKind | None = Field(
        None, description="Whether each fire has its own jitter, or the schedule has one; random."
    )
    exclude: Calendars | None = Field(None, description="Calendars that it keeps out of.")
    only: Calendars | None = Field(None, description="Calendars that it keeps within.")
    when_excluded: WhenExcluded | None = Field(
        None, description="What becomes of a fire that calendars take out; skip."
    )


class OptionsIn(WhenIn):
    """Everything but the name, the target and the payload."""

    misfire: Misfire | None = Field(None, description="What becomes of fires found late; latest.")
    grace: Duration | None = Field(
        None, description=f"What is later than that is missed; 3600. {DURATION}"
    )
    overlap: Overlap | None = Field(
        None, description="What becomes of a fire while a job of the schedule lives; skip."
    )
    max_queued: StrictInt | None = Field(
        None, ge=1, le=MAX_LIVE, description="With overlap queue_all: how many may wait; 100."
    )
    max_running: StrictInt | None = Field(
        None, ge=1, le=MAX_LIVE, description="With overlap allow: how many may live at once."
    )
    queue: Word | None = Field(None, description="Of its jobs; the task's own.")
    priority: StrictInt | None = Field(
        None,
        ge=PRIORITIES[0],
        le=PRIORITIES[-1],
        description="Of its jobs, the larger the sooner; the task's own.",
    )
    tags: list[Word] | None = Field(
        None, max_length=MOST_TAGS, description="Words to find it and its jobs by."
    )
    expires_in: Duration | None = Field(
        None, description=f"A job is not started so long after its fire. {DURATION}"
    )
    max_fires: StrictInt | None = Field(
        None, ge=1, le=MAX_FIRES, description="It ends after so many fires."
    )


# Read by `sexton.api.targets`.
Target = Annotated[
    dict[str, Any],
    Field(
        description="Where its jobs go: a task by its name, or an HTTP endpoint.",
        examples=[
            {"task": "send_invoice"},
            {"http": {"endpoint": "billing"}},
            {"http": {"url": "https://example.com/hook"}},
        ],
    ),
    WithJsonSchema(
        {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"task": {"type": "string", "minLength": 1, "maxLength": 200}},
                    "required": ["task"],
                    "additionalProperties": False,
                },
                {
                    "type": "object",
                    "properties": {
                        "http": {
                            "type": "object",
                            "properties": {
                                "endpoint": {"type": "string"},
                                "url": {"type": "string"},
                            },
                            "description": "An endpoint by its name, or one that is written out "
                            "with the fields of PUT /v1/endpoints/{name}.",
                        }
                    },
                    "required": ["http"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]


class ScheduleIn(OptionsIn):
    """What a schedule says; its name stands in the path."""

    target: Target
    payload: dict[str, Any] = Field(
        default_factory=dict,
        description="The arguments of its jobs, by name.",
        examples=[{"invoice_id": 7}],
    )


class NewScheduleIn(ScheduleIn):
    """What a schedule says, and its name."""

    name: BodyName = Field(description="What it is known by, of its tenant; at most 200 bytes.")


class ScheduleChangeIn(OptionsIn):
    """A JSON merge patch (RFC 7396): what is not named stays, null takes something back. A rule
    replaces the one before, and a target is replaced as a whole."""

    target: Target | None = None
    payload: dict[str, Any] | None = Field(
        None, description="Merged into the arguments; null takes one of them away, or all."
    )


class PreviewIn(OptionsIn):
    """A schedule that is not there; only what says when is looked at."""

    name: BodyName | None = Field(None, description="What H in cron expressions follows from.")
    target: Target | None = None
    payload: dict[str, Any] | None = Field(None, description="The arguments of its jobs.")
    count: StrictInt = Field(10, ge=1, le=MOST_FIRES, description="How many fires.")
    from_: Instant | None = Field(None, alias="from", description="After this instant; now.")


class PlanIn(ScheduleChangeIn):
    """A change, to see what it would do."""

    count: StrictInt = Field(10, ge=1, le=MOST_FIRES, description="How many fires to compare.")


class PauseIn(Body):
    """Why, and for how long."""

    reason: Reason | None = Field(None, description="For whoever looks at it.")
    until: Instant | None = Field(
        None, description="It goes on by itself then; null: until it is resumed."
    )


class TriggerIn(Body):
    """A job of the schedule, now."""

    payload: dict[str, Any] | None = Field(
        None, description="Arguments for this job; null: those of the schedule."
    )


class BackfillIn(Body):
    """A stretch of the past to be fired where it was not."""

    from_: Instant = Field(alias="from", description="From this instant.")
    to: Instant = Field(description="Until before this one; not later than now.")
    rate: float = Field(
        10.0,
        gt=0,
        le=MAX_RATE,
        allow_inf_nan=False,
        strict=True,
        description="At most so many fires a second.",
    )
