"""Instants and lengths of time as people type them: 2026-03-28T12:00:00Z, +2h, -25s, 1h30m."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sexton.domain.duration import seconds


@dataclass(frozen=True, slots=True)
class Instant:
    """An instant, or one relative to a now that only the database knows."""

    absolute: datetime | None = None
    offset: float = 0.0

    def resolved(self, now: datetime) -> datetime:
        return self.absolute or now + timedelta(seconds=self.offset)


def parse_instant(text: str) -> Instant:
    """ISO 8601, or relative to now with a sign; without an offset it is this machine's time."""
    compact = text.strip()
    if compact.lower() == "now":
        return Instant()
    if compact[:1] in ("+", "-"):
        length = seconds(compact[1:])
        return Instant(offset=-length if compact[0] == "-" else length)
    try:
        instant = datetime.fromisoformat(compact)
        if instant.tzinfo is None:
            instant = instant.astimezone()
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is not an instant: write it like 2026-03-28T12:00:00Z, +2h or -25s"
        ) from None
    return Instant(absolute=instant)


def parse_seconds(text: str) -> float:
    """A length of time, in seconds."""
    return seconds(text)
