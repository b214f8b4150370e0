"""The only table of legal moves of a job.

              time                 claim
    waiting ────────▶ ready ──────────────────▶ running
       ▲                ▲                          │
       │                └── released, first lost ──┤
       ├──────── failed, snoozed, lost ────────────┤
       │                                           ├──▶ succeeded
       │ redrive                                   ├──▶ cancelled  (also from waiting, ready)
       └──────────────── dead ◀────────────────────┘

`waiting` and `ready` are one state to the database, told apart by `due_at`. What was accepted by
an endpoint is still running, in the name of a holder instead of the worker that delivered it.
"""

from dataclasses import dataclass
from typing import Literal, assert_never

from sexton.domain.outcome import (
    Accepted,
    Cancelled,
    Failed,
    Lost,
    Outcome,
    Released,
    Snoozed,
    Succeeded,
)
from sexton.domain.retry import Retry

Next = Literal["waiting", "succeeded", "cancelled", "dead", "running"]
OutcomeName = Literal["succeeded", "failed", "snoozed", "released", "cancelled", "lost", "accepted"]
Reason = Literal["permanent", "exhausted", "expired"]


@dataclass(frozen=True, slots=True)
class Settlement:
    """One row of the settle statement: what happened, and where the job goes."""

    outcome: OutcomeName
    next: Next
    delay: float | None = None
    reason: Reason | None = None
    error: str | None = None
    result: str | None = None


RELEASED = Settlement("released", "waiting", delay=0.0)
_CANCELLED = Settlement("cancelled", "cancelled")
# With nothing to say about it: by far the most common, and settled by a statement of its own.
SUCCEEDED = Settlement("succeeded", "succeeded")


def settle(
    outcome: Outcome,
    *,
    tries: int,
    retry: Retry,
    expires_in: float | None,
    noise: float,
) -> Settlement:
    """Where a job goes after an attempt that ended in `outcome`.

    `tries` counts this attempt, `expires_in` is what is left of the job's maximum age.
    """
    match outcome:
        case Succeeded(result=None, note=None):
            return SUCCEEDED
        case Succeeded(result, note):
            return Settlement("succeeded", "succeeded", error=note, result=result)
        case Cancelled():
            return _CANCELLED
        case Released():
            return RELEASED
        case Snoozed(delay, reason):
            if _expired(expires_in, delay):
                return _dead("snoozed", "expired", reason)
            return Settlement("snoozed", "waiting", delay=delay, error=reason)
        case Failed(error, permanent=True):
            return _dead("failed", "permanent", error)
        case Failed(error, retry_in=asked):
            delay = retry.delay(tries, noise) if asked is None else asked
            return _again("failed", error, delay, tries, retry, expires_in)
        case Accepted(hold_for):
            return Settlement("accepted", "running", delay=hold_for)
        case Lost(error):
            # The lease was the delay; a job that keeps losing its workers waits like a failing one.
            delay = 0.0 if tries == 1 else retry.delay(tries, noise)
            return _again("lost", error, delay, tries, retry, expires_in)
        case _:
            assert_never(outcome)


def unsettleable(error: str) -> Settlement:
    """For an attempt of which nothing else can be recorded."""
    return _dead("failed", "permanent", error)


def _again(
    outcome: OutcomeName,
    error: str,
    delay: float,
    tries: int,
    retry: Retry,
    expires_in: float | None,
) -> Settlement:
    if tries >= retry.max_attempts:
        return _dead(outcome, "exhausted", error)
    if _expired(expires_in, delay):
        return _dead(outcome, "expired", error)
    return Settlement(outcome, "waiting", delay=delay, error=error)


def _expired(expires_in: float | None, delay: float) -> bool:
    return expires_in is not None and delay >= expires_in


def _dead(outcome: OutcomeName, reason: Reason, error: str) -> Settlement:
    return Settlement(outcome, "dead", reason=reason, error=error)
