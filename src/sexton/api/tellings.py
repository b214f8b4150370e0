"""What the application knows about schedules, as the service tells it."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from sexton.domain.backfill import BackfillView
from sexton.domain.change import VersionView
from sexton.domain.duration import seconds
from sexton.domain.explain import Explanation, Nearby
from sexton.domain.facts import Entry, Passage
from sexton.domain.policy import Policy
from sexton.domain.schedule import ScheduleView
from sexton.domain.when.local import instant_of
from sexton.domain.when.rrule import parse_rrule
from sexton.domain.when.timetable import Planned
from sexton.domain.when.zone import zone_named
from sexton.errors import InvalidSchedule

Target = Mapping[str, Any]
_LENGTHS = ("every", "jitter", "grace", "expires_in")
_INSTANTS = ("at", "anchor", "starts_at", "ends_at")
_LISTS = ("exclude", "only")
_USUAL = Policy()


def options(said: Mapping[str, Any]) -> dict[str, Any]:
    """What a schedule's author wrote, in one way: seconds, and instants in UTC."""
    zone = _zone(said)
    told = _told(said, zone)
    if (several := said.get("any")) is not None:
        told["any"] = [each if isinstance(each, str) else _told(each, zone) for each in several]
    for each in _LISTS:
        if isinstance(told.get(each), str):
            told[each] = [told[each]]
    return told


def _told(said: Mapping[str, Any], zone: str) -> dict[str, Any]:
    told = dict(said)
    for each in _LENGTHS:
        if each in told:
            told[each] = seconds(told[each])
    for each in _INSTANTS:
        if each in told:
            told[each] = _instant(told[each], zone)
    return told


def _instant(said: str, zone: str) -> datetime | str:
    with suppress(ValueError, OverflowError):
        read = datetime.fromisoformat(said.strip())
        if read.tzinfo is None:
            read = instant_of(read, zone_named(zone))
        return read.astimezone(UTC)
    return said  # as it was let in by an older version of us


def _zone(said: Mapping[str, Any]) -> str:
    if (given := said.get("timezone")) is not None:
        return str(given)
    rules = [said, *(each for each in said.get("any", ()) if not isinstance(each, str))]
    for rule in rules:
        if (text := rule.get("rrule")) is not None:
            with suppress(InvalidSchedule):
                if (zone := parse_rrule(text).zone) is not None:
                    return zone
    return "UTC"


def schedule(view: ScheduleView, target: Target) -> dict[str, Any]:
    return {
        "id": view.id,
        "name": view.name,
        "version": view.version,
        "state": view.state,
        "reason": view.reason,
        "until": view.until,
        "target": target,
        "payload": view.payload,
        "timezone": _zone(view.said),
        "misfire": _USUAL.misfire,
        "grace": _USUAL.grace,
        "overlap": _USUAL.overlap,
        "tags": (),
        **options(view.said),
        "created_at": view.created_at,
        "since": view.since,
        "next_fire_at": view.next_fire_at,
        "last_fire_at": view.last_fire_at,
        "late": view.late,
        "declared_by": view.declared_by,
    }


def version(view: VersionView, target: Target) -> dict[str, Any]:
    return {
        "version": view.version,
        "since": view.since,
        "until": view.until,
        "state": view.state,
        "reason": view.reason,
        "ended_by": view.ended_by,
        "target": target,
        "payload": view.payload,
        "said": options(view.said),
    }


def planned(fire: Planned) -> dict[str, Any]:
    return {"fire_at": fire.fire_at, "scheduled_at": fire.scheduled_at, "note": fire.note}


def backfill(view: BackfillView) -> dict[str, Any]:
    return {
        "id": view.id,
        "from": view.from_at,
        "to": view.to_at,
        "reached": max(view.next_at, view.from_at),
        "rate": view.rate,
        "created_at": view.created_at,
        "finished_at": view.finished_at,
        "cancelled": view.cancelled,
        "fired": view.fired,
        "skipped": view.skipped,
    }


def decision(made: Entry | Passage) -> dict[str, Any]:
    by = {"term": made.term, "node_id": made.node, "node": made.node_name}
    if isinstance(made, Passage):
        return {
            "fire_at": made.first_at,
            "last_at": made.last_at,
            "fires": made.fires,
            "scheduled_at": None,
            "decided_at": made.decided_at,
            "decision": made.decision,
            "kind": None,
            "job": None,
            **by,
            "lag": None,
        }
    return {
        "fire_at": made.fire_at,
        "last_at": made.fire_at,
        "fires": 1,
        "scheduled_at": made.scheduled_at,
        "decided_at": made.decided_at,
        "decision": made.decision,
        "kind": made.kind,
        "job": made.job,
        **by,
        "lag": (made.decided_at - made.fire_at).total_seconds(),
    }


def explanation(found: Explanation) -> dict[str, Any]:
    made = found.entry or found.passage
    return {
        "at": found.at,
        "verdict": found.verdict,
        "sentences": found.sentences,
        "fire_at": found.fire_at,
        "scheduled_at": found.scheduled_at,
        "note": found.note,
        "version": None if found.version is None else found.version.version,
        "decision": None if made is None else decision(made),
        "job": None if found.entry is None else found.entry.job,
        "before": _nearby(found.before),
        "after": _nearby(found.after),
    }


def _nearby(found: Nearby | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "fire_at": found.fire_at,
        "scheduled_at": found.scheduled_at,
        "verdict": found.verdict,
        "note": found.note,
    }


def place(made: Entry | Passage) -> tuple[datetime, datetime, datetime]:
    """Where an entry stands in the ledger of its schedule."""
    if isinstance(made, Passage):
        return made.first_at, made.last_at, made.decided_at
    return made.fire_at, made.fire_at, made.decided_at
