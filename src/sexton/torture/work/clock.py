"""The true instant, also in a process whose clock was made wrong on purpose."""

import os
import time
from datetime import UTC, datetime, timedelta
from functools import cache

SECOND = 1_000_000
VARIABLE = "TORTURE_CLOCK_US"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def now_us() -> int:
    """Microseconds since 1970: skewed processes are wrong about the real clock alone."""
    return time.monotonic_ns() // 1000 + _ahead()


def measured_us() -> int:
    """The real clock minus the monotonic one, here and now; the rig hands it to all others."""
    return (time.time_ns() - time.monotonic_ns()) // 1000


@cache
def _ahead() -> int:
    given = os.environ.get(VARIABLE)
    return measured_us() if given is None else int(given)


def to_us(instant: datetime) -> int:
    return (instant - _EPOCH) // _MICROSECOND


def from_us(at: int) -> datetime:
    return _EPOCH + at * _MICROSECOND
