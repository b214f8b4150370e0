"""Every so often: on a grid, without drift."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.domain.when.interval import Interval

from .instants import INSTANTS, following, utc


@settings(deadline=None)
@given(INSTANTS, INSTANTS, st.integers(1, 10**12))
def test_the_next_one_is_on_the_grid_and_none_is_left_out(
    anchor: datetime, instant: datetime, micros: int
) -> None:
    period = timedelta(microseconds=max(micros, 100_000))
    rule = Interval(period.total_seconds(), anchor)
    at = rule.after(instant)
    assert at is not None
    assert (at - anchor) % rule.period == timedelta()
    assert instant < at <= instant + rule.period


def test_a_late_answer_does_not_move_the_later_ones() -> None:
    rule = Interval(90, utc("2026-01-01 00:00"))
    late = utc("2026-01-01 00:01:47.123456")
    assert following(rule, late, 2) == [utc("2026-01-01 00:03:00"), utc("2026-01-01 00:04:30")]


def test_a_million_periods_later_it_is_still_on_time() -> None:
    rule = Interval(0.1, utc("2026-01-01 00:00"))
    assert rule.after(utc("2026-12-31 23:59:59.95")) == utc("2027-01-01 00:00")


def test_an_anchor_to_come_says_where_the_grid_is_not_when_it_begins() -> None:
    rule = Interval(3600, utc("2030-01-01 00:10"))
    assert rule.after(utc("2026-01-01 00:00")) == utc("2026-01-01 00:10")


def test_a_day_is_24_hours_whatever_the_clocks_do() -> None:
    rule = Interval(86400, utc("2026-03-28 08:00"))
    assert following(rule, utc("2026-03-28 08:00"), 2) == [
        utc("2026-03-29 08:00"),
        utc("2026-03-30 08:00"),
    ]


@pytest.mark.parametrize(
    ("after", "until", "count"),
    [
        ("2026-01-01 00:00", "2026-01-01 01:00", 40),
        ("2026-01-01 00:00", "2026-01-01 00:01:29", 0),
        ("2026-01-01 00:00", "2026-01-01 00:01:30", 1),
        ("2026-01-01 01:00", "2026-01-01 00:00", 0),
    ],
)
def test_how_many(after: str, until: str, count: int) -> None:
    rule = Interval(90, utc("2026-01-01 00:00"))
    assert rule.count(utc(after), utc(until)) == count
    assert len(list(rule.between(utc(after), utc(until)))) == count


def test_time_ends_politely() -> None:
    rule = Interval(100 * 366 * 86400.0, utc("2026-01-01 00:00"))
    assert rule.after(utc("8990-01-01 00:00")) is None
    assert rule.after(utc("9999-01-01 00:00")) is None
