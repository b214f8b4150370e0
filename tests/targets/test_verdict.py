"""What follows from odd results and odd exceptions."""

import asyncio
import math
from datetime import timedelta
from typing import Any

import pytest

from sexton import PermanentFailure, Retry, RetryAfter, Snooze
from sexton.domain.outcome import Failed, Snoozed, Succeeded
from sexton.errors import InvalidJob
from sexton.targets.arguments import encode
from sexton.targets.verdict import demand_done, raised, returned

POLICY = Retry()


class Busy(RetryAfter):
    """Whose author did not look at what it inherits from."""

    def __init__(self, delay: Any) -> None:
        Exception.__init__(self, "busy")
        self.delay = delay


class Sleepy(Snooze):
    def __init__(self, delay: Any) -> None:
        Exception.__init__(self, "sleepy")
        self.delay = delay


class Bare(Snooze):
    def __init__(self) -> None: ...


@pytest.mark.parametrize("delay", [math.nan, math.inf, -1, 1e300, "soon", None, object(), True])
def test_a_delay_that_is_no_duration_is_a_failure_that_says_so(delay: Any) -> None:
    for error in (Busy(delay), Sleepy(delay), Bare()):
        outcome, retry = raised(error, POLICY)
        assert isinstance(outcome, Failed)
        assert not outcome.permanent
        assert outcome.retry_in is None
        assert "delay that cannot be used" in outcome.error
        assert retry is POLICY


@pytest.mark.parametrize("delay", [90, 90.0, "90s", timedelta(seconds=90)])
def test_a_delay_may_be_written_as_durations_are(delay: Any) -> None:
    assert raised(Busy(delay), POLICY)[0] == Failed("Busy: busy", retry_in=90.0)
    assert raised(Sleepy(delay), POLICY)[0] == Snoozed(90.0, "sleepy")


def nested(depth: int, innermost: Any) -> Any:
    value = innermost
    for n in range(depth):
        value = [value] if n % 2 else {"a": value}
    return value


@pytest.mark.parametrize("depth", [1, 480, 900])
def test_a_result_nested_deeply_is_kept_or_noted_but_never_raises(depth: int) -> None:
    assert isinstance(returned(nested(depth, None), 65_536), Succeeded)
    refused = returned(nested(depth, math.nan), 65_536)
    assert refused.result is None
    assert "not kept" in (refused.note or "")


def test_nan_is_found_among_many() -> None:
    with pytest.raises(InvalidJob, match="NaN"):
        encode([None, {"a": (1, 2.0, {3})}, nested(300, -math.inf)], "the result", 65_536)
    assert encode([None, 1.5, {"a": None}], "the result", 65_536) == '[null,1.5,{"a":null}]'


def test_a_result_that_raises_when_it_is_looked_at_does_not_undo_the_work() -> None:
    class Nasty:
        @property
        def model_dump(self) -> Any:
            raise RecursionError("no")

    outcome = returned([None, Nasty()], 65_536)
    assert outcome.result is None
    assert "not kept" in (outcome.note or "")


async def test_a_plain_function_that_returns_something_to_await_has_done_nothing() -> None:
    async def work() -> None: ...

    with pytest.raises(PermanentFailure, match="make the wrapper async"):
        demand_done(work())
    future = asyncio.get_running_loop().create_future()
    with pytest.raises(PermanentFailure):
        demand_done(future)
    assert demand_done(None) is None
    assert demand_done({"a": 1}) == {"a": 1}
