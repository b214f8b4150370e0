"""The fires of a schedule by the description of the population, and by nothing else."""

from collections.abc import Iterator
from datetime import datetime
from hashlib import blake2b
from typing import Any
from zoneinfo import ZoneInfo

SECOND = 1_000_000
_FACES = ("second", "minute", "hour", "day", "month")
Ranges = dict[tuple[str, str], list[list[int]]]


def ranges_of(lines: list[dict[str, Any]]) -> Ranges:
    """The calendars of dump/calendars.jsonl, by tenant and name."""
    return {(line["tenant"], line["name"]): line["ranges_us"] for line in lines}


def promised(line: dict[str, Any], calendars: Ranges, after: int, until: int) -> dict[int, int]:
    """When each fire is to happen, by the instant it is scheduled for: after < that <= until."""
    jitter = line["jitter"]
    beyond = until + (jitter["us"] if jitter else 0)
    scheduled = sorted(
        {
            at
            for clause in line["when"]
            for at in _instants(clause, ZoneInfo(line["timezone"]), after, beyond)
            if _within(line, calendars, at)
        }
    )
    found: dict[int, int] = {}
    for nth, at in enumerate(scheduled):
        if at <= until:
            following = scheduled[nth + 1] if nth + 1 < len(scheduled) else None
            found[at] = at + _noise(line["id"], jitter, at, following)
    return found


def _instants(clause: dict[str, Any], zone: ZoneInfo, after: int, until: int) -> Iterator[int]:
    if "at_us" in clause:
        yield from [clause["at_us"]] if after < clause["at_us"] <= until else []
    elif "every_us" in clause:
        length, anchor = clause["every_us"], clause["anchor_us"]
        yield from range(anchor + ((after - anchor) // length + 1) * length, until + 1, length)
    else:
        for second in range(after // SECOND + 1, until // SECOND + 1):
            if _matches(clause["fields"], datetime.fromtimestamp(second, zone)):
                yield second * SECOND


def _matches(fields: dict[str, list[int] | None], wall: datetime) -> bool:
    faces = {name: getattr(wall, name) for name in _FACES}
    faces["weekday"] = wall.isoweekday() % 7
    return all(values is None or faces[name] in values for name, values in fields.items())


def _within(line: dict[str, Any], calendars: Ranges, at: int) -> bool:
    def is_in(name: str) -> bool:
        return any(first <= at < last for first, last in calendars[line["tenant"], name])

    if line["starts_us"] is not None and at < line["starts_us"]:
        return False
    if line["ends_us"] is not None and at >= line["ends_us"]:
        return False
    if any(is_in(name) for name in line["exclude"]):
        return False
    return not line["only"] or any(is_in(name) for name in line["only"])


def _noise(id: int, jitter: dict[str, Any] | None, at: int, following: int | None) -> int:
    if jitter is None:
        return 0
    room, salt = int(jitter["us"]), 0
    if jitter["kind"] == "random":
        salt = at
        if following is not None:
            room = min(room, following - at)
    digest = blake2b(f"{id}:{salt}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") * room >> 64
