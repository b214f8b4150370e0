"""The manual clock."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from sexton.testing import ManualClock


def test_it_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
    assert clock() == clock() == clock.now == datetime(2026, 3, 1, tzinfo=UTC)
    assert clock.advance("1h30m") == datetime(2026, 3, 1, 1, 30, tzinfo=UTC)
    clock.advance(timedelta(seconds=5))
    clock.advance(0.5)
    assert clock() == datetime(2026, 3, 1, 1, 30, 5, 500_000, tzinfo=UTC)


def test_it_goes_back_only_on_purpose() -> None:
    clock = ManualClock()
    with pytest.raises(ValueError, match="between 0 and 100 years"):
        clock.advance(-1)
    clock.move_to(datetime(2020, 2, 29, tzinfo=UTC))
    assert clock.now.year == 2020


def test_an_instant_without_a_zone_or_before_our_time_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        ManualClock(datetime(2026, 3, 1))  # noqa: DTZ001
    with pytest.raises(ValueError, match="too early"):
        ManualClock(datetime(1999, 12, 31, tzinfo=UTC))


def test_other_zones_are_read_in_utc() -> None:
    paris = timezone(timedelta(hours=1))
    assert ManualClock(datetime(2026, 3, 1, tzinfo=paris)).now.hour == 23
