"""Calendars as HTTP says them."""

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field, StrictStr

from sexton.api.models.common import Body
from sexton.domain.when.calendar import MAX_ENTRIES

Entry = Annotated[StrictStr, Field(min_length=1, max_length=200)]
Entries = Annotated[list[Entry], Field(max_length=MAX_ENTRIES)]


class CalendarIn(Body):
    """A set of days and times. What has no offset is local time."""

    dates: Entries = Field(
        default_factory=list,
        description="2030-12-25 for that day, --12-25 for that day of every year.",
        examples=[["2030-12-25", "--01-01"]],
    )
    ranges: Entries = Field(
        default_factory=list,
        description="From one day to another, both in it, or from one instant up to another.",
        examples=[["2030-12-24/2031-01-02", "2030-12-18T18:00/2031-01-04T06:00"]],
    )
    windows: Entries = Field(
        default_factory=list,
        description="Hours of days of the week.",
        examples=[["mon-fri 09:00-17:00", "sat,sun"]],
    )
    timezone: Entry | None = Field(
        None, description="Of local times; null: that of each schedule.", examples=["Europe/Paris"]
    )


class CalendarOut(BaseModel):
    """A calendar in its newest version."""

    name: str = Field(description="What it is known by.")
    version: int = Field(description="Larger than that of every version before; also its ETag.")
    since: datetime = Field(description="When this version took effect.")
    dates: list[str] = Field(description="Days.")
    ranges: list[str] = Field(description="Ranges of days and of instants.")
    windows: list[str] = Field(description="Hours of days of the week.")
    timezone: str | None = Field(description="Of local times; null: that of each schedule.")


class CalendarPutOut(CalendarOut):
    """A calendar, and what its change has done."""

    recomputed: int = Field(description="How many schedules have a new version by it.")


class CalendarUserOut(BaseModel):
    """A schedule that goes by a calendar."""

    name: str = Field(description="Its name.")
