"""Sexton: a distributed job scheduler and job queue on PostgreSQL."""

__version__ = "0.1.0"

from sexton.app import Sexton
from sexton.domain.job import DeadJob, Enqueued, JobView
from sexton.domain.retry import Retry
from sexton.errors import (
    JobCancelled,
    JobTimeout,
    LeaseLost,
    PermanentFailure,
    RetryAfter,
    SextonError,
    Snooze,
)
from sexton.targets.job import Job
from sexton.targets.task import Call, Task

__all__ = [
    "Call",
    "DeadJob",
    "Enqueued",
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
]
