"""Sexton: a distributed job scheduler and job queue on PostgreSQL."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sexton.app import Sexton
    from sexton.domain.job import DeadJob, Enqueued, JobView
    from sexton.domain.plan import Plan
    from sexton.domain.retry import Retry
    from sexton.domain.schedule import ScheduleView
    from sexton.domain.spec import Spec
    from sexton.domain.when.calendar import Calendar
    from sexton.errors import (
        ConfigurationError,
        InvalidJob,
        InvalidSchedule,
        JobCancelled,
        JobTimeout,
        LeaseLost,
        PermanentFailure,
        RetryAfter,
        SextonError,
        Snooze,
        Unavailable,
        UnknownJob,
        UnknownSchedule,
    )
    from sexton.targets.job import Job
    from sexton.targets.task import Call, Task

__all__ = [
    "Calendar",
    "Call",
    "ConfigurationError",
    "DeadJob",
    "Enqueued",
    "InvalidJob",
    "InvalidSchedule",
    "Job",
    "JobCancelled",
    "JobTimeout",
    "JobView",
    "LeaseLost",
    "PermanentFailure",
    "Plan",
    "Retry",
    "RetryAfter",
    "ScheduleView",
    "Sexton",
    "SextonError",
    "Snooze",
    "Spec",
    "Task",
    "Unavailable",
    "UnknownJob",
    "UnknownSchedule",
]

# Imported when first used: pytest loads our plugin, and so this package, in every project that
# has Sexton installed.
_HOMES = {
    "sexton.app": ("Sexton",),
    "sexton.domain.job": ("DeadJob", "Enqueued", "JobView"),
    "sexton.domain.plan": ("Plan",),
    "sexton.domain.retry": ("Retry",),
    "sexton.domain.schedule": ("ScheduleView",),
    "sexton.domain.spec": ("Spec",),
    "sexton.domain.when.calendar": ("Calendar",),
    "sexton.errors": (
        "ConfigurationError",
        "InvalidJob",
        "InvalidSchedule",
        "JobCancelled",
        "JobTimeout",
        "LeaseLost",
        "PermanentFailure",
        "RetryAfter",
        "SextonError",
        "Snooze",
        "Unavailable",
        "UnknownJob",
        "UnknownSchedule",
    ),
    "sexton.targets.job": ("Job",),
    "sexton.targets.task": ("Call", "Task"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
