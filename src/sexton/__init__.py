"""Sexton: a distributed job scheduler and job queue on PostgreSQL."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sexton.app import Sexton
    from sexton.domain.job import DeadJob, Enqueued, JobView
    from sexton.domain.retry import Retry
    from sexton.errors import (
        ConfigurationError,
        InvalidJob,
        JobCancelled,
        JobTimeout,
        LeaseLost,
        PermanentFailure,
        RetryAfter,
        SextonError,
        Snooze,
        Unavailable,
        UnknownJob,
    )
    from sexton.targets.job import Job
    from sexton.targets.task import Call, Task

__all__ = [
    "Call",
    "ConfigurationError",
    "DeadJob",
    "Enqueued",
    "InvalidJob",
    "Job",
    "JobCancelled",
    "JobTimeout",
    "JobView",
    "LeaseLost",
    "PermanentFailure",
    "Retry",
    "RetryAfter",
    "Sexton",
    "SextonError",
    "Snooze",
    "Task",
    "Unavailable",
    "UnknownJob",
]

# Imported when first used: pytest loads our plugin, and so this package, in every project that
# has Sexton installed.
_HOMES = {
    "sexton.app": ("Sexton",),
    "sexton.domain.job": ("DeadJob", "Enqueued", "JobView"),
    "sexton.domain.retry": ("Retry",),
    "sexton.errors": (
        "ConfigurationError",
        "InvalidJob",
        "JobCancelled",
        "JobTimeout",
        "LeaseLost",
        "PermanentFailure",
        "RetryAfter",
        "SextonError",
        "Snooze",
        "Unavailable",
        "UnknownJob",
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
