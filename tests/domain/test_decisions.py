"""What follows from an outcome, for every outcome; and the small values around it."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.domain.duration import seconds
from sexton.domain.lease import Lease
from sexton.domain.outcome import Cancelled, Failed, Lost, Outcome, Released, Snoozed, Succeeded
from sexton.domain.retry import Retry
from sexton.domain.text import MAX_ERROR_BYTES, clean
from sexton.domain.transitions import Settlement, settle

RETRY = Retry(max_attempts=3, base=10, cap=60)


def decide(outcome: Outcome, tries: int = 1, **options: object) -> Settlement:
    given: dict[str, object] = {"retry": RETRY, "expires_in": None, "noise": 1.0, **options}
    return settle(outcome, tries=tries, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcome", "tries", "expected"),
    [
        (Succeeded(), 1, ("succeeded", "succeeded", None, None)),
        (Succeeded("1"), 3, ("succeeded", "succeeded", None, None)),
        (Cancelled(), 1, ("cancelled", "cancelled", None, None)),
        (Released(), 3, ("released", "waiting", 0.0, None)),
        (Snoozed(7, "later"), 3, ("snoozed", "waiting", 7, None)),
        (Failed("x"), 1, ("failed", "waiting", 10.0, None)),
        (Failed("x"), 2, ("failed", "waiting", 20.0, None)),
        (Failed("x"), 3, ("failed", "dead", None, "exhausted")),
        (Failed("x", permanent=True), 1, ("failed", "dead", None, "permanent")),
        (Failed("x", retry_in=5.5), 1, ("failed", "waiting", 5.5, None)),
        (Failed("x", retry_in=5.5), 3, ("failed", "dead", None, "exhausted")),
        (Lost("x"), 1, ("lost", "waiting", 0.0, None)),
        (Lost("x"), 2, ("lost", "waiting", 20.0, None)),
        (Lost("x"), 3, ("lost", "dead", None, "exhausted")),
    ],
)
def test_where_a_job_goes(
    outcome: Outcome, tries: int, expected: tuple[str, str, float | None, str | None]
) -> None:
    got = decide(outcome, tries)
    assert (got.outcome, got.next, got.delay, got.reason) == expected


def test_a_retry_after_the_maximum_age_is_a_death() -> None:
    assert decide(Failed("x"), expires_in=9.0).reason == "expired"
    assert decide(Failed("x"), expires_in=11.0).next == "waiting"
    assert decide(Snoozed(10, "later"), expires_in=9.0).next == "dead"


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_a_retry_delay_is_within_full_jitter(tries: int, noise: float) -> None:
    delay = Retry(base=3, cap=100).delay(tries, noise)
    assert 0 <= delay <= min(100, 3 * 2.0 ** min(tries - 1, 64))


def test_the_nearest_class_of_an_exception_chooses_the_policy() -> None:
    special = Retry(max_attempts=9)
    retry = Retry(on={OSError: special}, never=(FileNotFoundError, ValueError))
    assert retry.policy_for(ConnectionError()) is special
    assert retry.policy_for(FileNotFoundError()) is None
    assert retry.policy_for(UnicodeDecodeError("utf8", b"", 0, 1, "")) is None
    assert retry.policy_for(KeyError()) is retry


@pytest.mark.parametrize(
    "bad",
    [
        {"max_attempts": 0},
        {"max_attempts": True},
        {"factor": 0.5},
        {"base": -1},
        {"cap": "soon"},
        {"max_age": float("nan")},
    ],
)
def test_a_policy_that_cannot_be_right_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Retry(**bad)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "length"),
    [("90", 90), ("90s", 90), ("1h30m", 5400), ("250ms", 0.25), (timedelta(days=1), 86400), (2, 2)],
)
def test_lengths_of_time_as_people_write_them(text: str | int | timedelta, length: float) -> None:
    assert seconds(text) == length


@pytest.mark.parametrize("bad", ["", "soon", "1x", "-5s", -1, float("inf"), True, "1h 3"])
def test_what_is_not_a_length_of_time(bad: object) -> None:
    with pytest.raises(ValueError, match="duration"):
        seconds(bad)  # type: ignore[arg-type]


@given(st.text(st.characters(), max_size=200) | st.just("\ud800\x00" * 50_000))
def test_any_text_becomes_one_that_postgresql_takes(text: str) -> None:
    cleaned = clean(text)
    assert "\x00" not in cleaned
    assert len(cleaned.encode("utf-8")) <= MAX_ERROR_BYTES


def test_a_long_error_keeps_both_ends() -> None:
    cleaned = clean("what happened" + "." * 50_000_000 + "where")
    assert cleaned.startswith("what happened")
    assert cleaned.endswith("where")
    assert len(cleaned.encode()) <= MAX_ERROR_BYTES


def test_a_lease_is_trusted_from_the_request_and_less_than_its_length() -> None:
    lease = Lease(length=30, asked_at=100)
    assert lease.trusted(126.9)
    assert not lease.trusted(127.1)
    assert 109 <= lease.renew_at(noise=0.5) <= 110
