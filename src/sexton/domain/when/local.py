"""One wall or one instant at a time, in a zone; rules go through `zone` instead."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from sexton.domain.when.offsets import YEAR, changes
from sexton.domain.when.zone import EPOCH


def wall_of(instant: datetime, zone: ZoneInfo) -> datetime:
    """What the clock on the wall shows."""
    return instant.astimezone(zone).replace(tzinfo=None)


def exists(wall: datetime, zone: ZoneInfo) -> bool:
    """Whether the clock ever shows it; in the spring some readings are left out."""
    return wall_of(wall.replace(tzinfo=zone).astimezone(UTC), zone) == wall


def instant_of(wall: datetime, zone: ZoneInfo) -> datetime:
    """When the clock first shows this, or first shows more if it never does."""
    late = wall.replace(tzinfo=zone).astimezone(UTC)
    if wall_of(late, zone) == wall:
        return late
    # In a gap: zoneinfo answers as if the clocks had not been changed, so later than the gap.
    second = int((late - EPOCH).total_seconds())
    for change in changes(zone, second // YEAR)[1]:
        if change.at <= second < change.at + change.after - change.before:
            return datetime.fromtimestamp(change.at, UTC)
    return late


def last_instant_of(wall: datetime, zone: ZoneInfo) -> datetime:
    """The same, but the second time if it comes twice."""
    again = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return max(again, instant_of(wall, zone))
