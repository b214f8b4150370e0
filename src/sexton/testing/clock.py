"""A clock that moves only when it is told to."""

from datetime import UTC, datetime, timedelta

from sexton.domain.duration import Duration, seconds

# The same every day, so that a test which passes today passes on a 29th of February too.
START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
EARLIEST = datetime(2000, 1, 2, tzinfo=UTC)


class ManualClock:
    """`Sexton(clock=ManualClock())`: every statement takes its `now` from here.

    How long a task really runs, and its timeout, stay a matter of the machine's own clock.
    """

    def __init__(self, start: datetime = START) -> None:
        self._now = _checked(start)

    def __call__(self) -> datetime:
        return self._now

    @property
    def now(self) -> datetime:
        return self._now

    def advance(self, by: Duration) -> datetime:
        """Forward by `90`, `"1h30m"` or a timedelta; nothing runs because of it."""
        return self.move_to(self._now + timedelta(seconds=seconds(by)))

    def move_to(self, instant: datetime) -> datetime:
        """To this instant, also a past one."""
        self._now = _checked(instant)
        return self._now

    def __repr__(self) -> str:
        return f"<ManualClock {self._now.isoformat()}>"


def _checked(instant: datetime) -> datetime:
    if not isinstance(instant, datetime) or instant.tzinfo is None:
        raise ValueError(f"a clock needs a datetime with a time zone, not {instant!r}")
    if instant < EARLIEST:
        raise ValueError(f"{instant} is too early: Sexton's time begins with the year 2000")
    return instant.astimezone(UTC)
