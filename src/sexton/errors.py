"""Everything Sexton raises, as one tree.

SextonError
├── ConfigurationError      a setting, a task or a schedule that cannot be right
├── EmbeddedError           the PostgreSQL that Sexton starts itself
├── SchemaError             the database's schema and this code do not fit
├── Unavailable             PostgreSQL cannot be reached; nothing was acknowledged
├── InvalidJob              an enqueue that cannot be right; nothing was written
│   └── InvalidTarget       an endpoint that jobs cannot be delivered to
├── UnknownJob              no job has this id
├── InvalidSchedule         a schedule or a calendar that cannot be right; nothing was written
├── UnknownSchedule         no schedule has this name
├── LeaseLost               this attempt is no longer ours; what it writes is refused
└── JobSignal               raised *by* a task to say what should happen next
    ├── PermanentFailure    do not try again: dead
    ├── Snooze              try again after a delay, without burning an attempt
    └── RetryAfter          this attempt failed; try again after exactly this delay
JobTimeout, JobCancelled    raised *in* a task when its time is up or it was cancelled
"""

import difflib
from collections.abc import Iterable

from sexton.domain.duration import Duration, seconds


class SextonError(Exception):
    """The root: catch this to catch all of Sexton's."""


class ConfigurationError(SextonError):
    """A setting, a task or a schedule that cannot be right."""


class EmbeddedError(SextonError):
    """The PostgreSQL that Sexton starts itself could not be started, or its folder is not ours."""


class SchemaError(SextonError):
    """The database's schema and this code do not fit together."""


class Unavailable(SextonError):
    """PostgreSQL cannot be reached; nothing was acknowledged."""


class InvalidJob(SextonError):
    """An enqueue that cannot be right; nothing was written."""


class InvalidTarget(InvalidJob):
    """An endpoint that jobs cannot be delivered to; nothing was written."""


class UnknownJob(SextonError):
    """No job has this id, or its history has been dropped."""


class InvalidSchedule(SextonError):
    """A schedule or a calendar that cannot be right; nothing was written."""


class UnknownSchedule(SextonError):
    """No schedule has this name."""


class LeaseLost(SextonError):
    """This attempt is no longer ours; the database refused what it wanted to write."""


class JobSignal(SextonError):
    """Raised by a task to say what should happen next."""


class PermanentFailure(JobSignal):
    """Trying again cannot help: the job is dead at once."""


class Snooze(JobSignal):
    """Not now: try again after a delay, without burning an attempt."""

    def __init__(self, delay: Duration, reason: str = "") -> None:
        super().__init__(reason or f"snoozed for {seconds(delay):g} s")
        self.delay = seconds(delay)


class RetryAfter(JobSignal):
    """This attempt failed, and the other side said when to come back."""

    def __init__(self, delay: Duration, reason: str = "") -> None:
        super().__init__(reason or f"asked to retry after {seconds(delay):g} s")
        self.delay = seconds(delay)


class JobTimeout(BaseException):
    """Time is up. Not an Exception, so a task's own `except Exception` does not swallow it."""


class JobCancelled(BaseException):
    """Somebody cancelled the job while it ran."""


def no_schema(name: str) -> str:
    """What is said wherever an installation is missed."""
    return f"no Sexton schema {name!r} here: run `sexton migrate`"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A suggestion to end an error message with, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
