"""From what a function returned or raised to an outcome and the policy that applies to it."""

import os
import traceback
from pathlib import Path
from typing import Any

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


def raised(error: BaseException, retry: Retry) -> tuple[Outcome, Retry]:
    """What an exception means for its job."""
    match error:
        case Snooze():
            return Snoozed(error.delay, clean(str(error))), retry
        case RetryAfter():
            return Failed(describe(error), retry_in=error.delay), retry
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
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if not frame.filename.startswith(_OURS)]
        shown = "".join(traceback.format_list(own[-20:]))
        return clean(f"{_line(error)}\n{shown}" if shown else _line(error))
    except Exception:
        return clean(f"{type(error).__name__} (its traceback could not be shown)")


def _line(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its message could not be shown)"
    name = type(error).__name__
    return f"{name}: {text}" if text else name
