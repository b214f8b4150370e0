"""The database's clock, told from this node's monotonic one; the node's wall clock has no say."""

import time
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime

from sexton.errors import Unavailable

_KEPT = 8
# What two good clocks may drift apart between the first and the last answer that is kept.
_DRIFT = 0.01


@dataclass(frozen=True, slots=True)
class _Sample:
    offset: float  # database minus monotonic
    error: float  # at most; the answer was given somewhere in the round trip


class DatabaseClock:
    """Goes by the quickest of the last few answers. One thread writes, any may read."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque(maxlen=_KEPT)
        self._best: _Sample | None = None

    def heard(self, now: datetime, asked_at: float, answered_at: float) -> None:
        """The database said `now` somewhere between these monotonic instants."""
        middle, error = (asked_at + answered_at) / 2, (answered_at - asked_at) / 2
        sample = _Sample(now.timestamp() - middle, error)
        best = self._best
        if best and abs(sample.offset - best.offset) > sample.error + best.error + _DRIFT:
            self._samples.clear()  # the clock was set, or this is another server
        self._samples.append(sample)
        self._best = min(self._samples, key=lambda each: each.error)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._seconds(), UTC)

    def until(self, instant: datetime) -> float:
        return instant.timestamp() - self._seconds()

    @property
    def skew(self) -> float | None:
        """This node's wall clock minus the database's, for people to look at."""
        return None if self._best is None else time.time() - self._seconds()

    def _seconds(self) -> float:
        best = self._best
        if best is None:
            raise Unavailable("the database's clock is not known here yet: it has not answered")
        return time.monotonic() + best.offset
