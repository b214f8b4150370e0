"""A schedule: a standing rule of when, what, and with which policies."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import msgspec

from sexton.domain.job import FireKind as FireKind
from sexton.domain.policy import Policy
from sexton.domain.when.calendar import Calendar, CalendarRef
from sexton.domain.when.definition import Definition
from sexton.domain.when.timetable import Timetable
from sexton.errors import InvalidSchedule

ScheduleState = Literal["active", "paused", "ended", "cancelled", "quarantined"]
Decided = Literal[
    "fired", "overlap", "missed", "coalesced", "paused", "excluded", "superseded", "quota"
]


class RuleText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When, and with which policies, as the database keeps it; equal rules have equal text."""

    when: Definition
    policy: Policy = msgspec.field(default_factory=Policy)

    def to_json(self) -> str:
        return msgspec.json.encode(self, order="sorted").decode()

    @classmethod
    def from_json(cls, text: str) -> "RuleText":
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise InvalidSchedule(f"the rule cannot be read: {error}") from None


class Rule:
    """A rule, compiled; shared by every schedule that has it."""

    __slots__ = ("live_limit", "policy", "serial", "timetable")

    def __init__(self, timetable: Timetable, policy: Policy) -> None:
        self.timetable = timetable
        self.policy = policy
        self.live_limit = policy.live_limit
        self.serial = policy.serial

    @classmethod
    def compile(cls, text: str, calendars: Mapping[CalendarRef, Calendar]) -> "Rule":
        said = RuleText.from_json(text)
        return cls(Timetable.compile(said.when, calendars), said.policy)


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule as anyone may look at it."""

    id: int
    tenant: str
    name: str
    version: int
    state: ScheduleState
    reason: str | None
    until: datetime | None
    task: str
    queue: str | None
    priority: int | None
    payload: dict[str, Any]
    tags: tuple[str, ...]
    said: dict[str, Any]
    created_at: datetime
    since: datetime
    next_fire_at: datetime | None
    last_fire_at: datetime | None
    late: bool
    declared_by: str | None
