"""From what a function returned or raised to an outcome and the policy that applies to it."""

import inspect
import os
import traceback
from pathlib import Path
from typing import Any

from sexton.domain.duration import seconds
from sexton.domain.outcome import PLAIN_SUCCESS, Failed, Outcome, Snoozed, Succeeded
from sexton.domain.retry import NO_RETRY, Retry
from sexton.domain.text import clean
from sexton.errors import InvalidJob, PermanentFailure, RetryAfter, Snooze
from sexton.targets.arguments import ArgumentMismatch, encode

_OURS = tuple(str(Path(__file__).parents[1] / folder) + os.sep for folder in ("flow", "targets"))


def returned(result: Any, limit: int) -> Succeeded:
    """A result that cannot be kept does not undo what the task did: it succeeded, with a note."""
    if result is None:
        return PLAIN_SUCCESS
    try:
        return Succeeded(encode(result, "the result", limit))
    except InvalidJob as error:
        return Succeeded(note=clean(f"the result was not kept: {error}"))
    except Exception as error:  # whatever a type of the user's raises when it is looked at
        return Succeeded(note=clean(f"the result was not kept: {_line(error)}"))


def demand_done(result: Any) -> Any:
    """The result of a plain function; one that is still to be awaited has done nothing yet."""
    if result is not None and inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise PermanentFailure(
            "the function is a plain one but returned something to await, which nobody would: if "
            "it wraps an async function, make the wrapper async too, and await the function in it"
        )
    return result


def raised(error: BaseException, retry: Retry) -> tuple[Outcome, Retry]:
    """What an exception means for its job."""
    match error:
        case Snooze() | RetryAfter():
            try:
                # A class of the user's own may have put anything there.
                delay = seconds(error.delay)
            except Exception as wrong:
                said = clean(f"{_line(error)}\nwith a delay that cannot be used: {_line(wrong)}")
                return Failed(said), retry
            if isinstance(error, Snooze):
                return Snoozed(delay, clean(str(error))), retry
            return Failed(describe(error), retry_in=delay), retry
        case PermanentFailure() | ArgumentMismatch():
            return Failed(describe(error), permanent=True), retry
    policy = retry.policy_for(error)
    if policy is None:
        return Failed(describe(error), permanent=True), NO_RETRY
    return Failed(describe(error)), policy


def describe(error: BaseException) -> str:
    """The traceback without Sexton's own frames, cleaned and cut to size."""
    if isinstance(error, PermanentFailure | RetryAfter | ArgumentMismatch):
        return clean(_line(error))
    try:
        told = traceback.TracebackException.from_exception(error, compact=True)
        _leave_us_out(told)
        return clean(f"{_line(error)}\n{''.join(told.format())}")
    except Exception:
        return clean(f"{type(error).__name__} (its traceback could not be shown)")


def _leave_us_out(told: traceback.TracebackException) -> None:
    """Our own frames say nothing about the task; its causes and its group's exceptions do."""
    theirs = [frame for frame in told.stack if not frame.filename.startswith(_OURS)]
    told.stack = traceback.StackSummary.from_list(theirs[-20:])
    for other in (told.__cause__, told.__context__, *(getattr(told, "exceptions", None) or ())):
        if other is not None:
            _leave_us_out(other)


def _line(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its message could not be shown)"
    name = type(error).__name__
    return f"{name}: {text}" if text else name
