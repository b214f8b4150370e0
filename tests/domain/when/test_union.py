"""Several rules as one, and bounds."""

from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.domain.when.cron import parse_cron
from sexton.domain.when.interval import Interval
from sexton.domain.when.once import Once
from sexton.domain.when.rule import Rule, Tick
from sexton.domain.when.union import Bounded, Union
from sexton.domain.when.zone import Zoned

from .instants import following, utc

START = utc("2026-01-01 00:00")
MINUTES = st.integers(0, 300).map(lambda minutes: START + timedelta(minutes=minutes))


@settings(deadline=None)
@given(st.lists(MINUTES, min_size=1, max_size=8), st.sets(st.integers(7, 60), max_size=3), MINUTES)
def test_a_union_has_every_instant_once_and_in_order(
    points: list[datetime], periods: set[int], after: datetime
) -> None:
    rules: list[Rule] = [Once(at) for at in points]
    rules += [Interval(60 * minutes, START) for minutes in periods]
    until = START + timedelta(hours=6)
    expected = sorted({tick.at for rule in rules for tick in rule.between(after, until)})
    union = Union(rules)
    assert [tick.at for tick in union.between(after, until)] == expected
    assert following(union, after, len(expected)) == expected


def test_of_two_rules_at_one_instant_the_note_is_kept() -> None:
    union = Union(
        [
            Once(utc("2026-03-29 01:00")),
            Zoned(parse_cron("30 2 * * *"), "Europe/Paris", "default"),
        ]
    )
    [tick] = union.between(utc("2026-03-29 00:00"), utc("2026-03-29 12:00"))
    assert tick.note is not None
    assert "02:30 does not exist" in tick.note


def test_the_start_is_within_the_bounds_and_the_end_is_not() -> None:
    bounded = Bounded(Interval(60, START), START, START + timedelta(minutes=3))
    first, second, third = (START + timedelta(minutes=minute) for minute in range(3))
    assert following(bounded, utc("2020-01-01 00:00"), 9) == [first, second, third]
    ever = bounded.between(utc("2020-01-01 00:00"), utc("2030-01-01 00:00"))
    assert list(ever) == [Tick(first), Tick(second), Tick(third)]
    assert list(bounded.between(third, utc("2030-01-01 00:00"))) == []
    assert list(bounded.between(START - timedelta(days=2), START - timedelta(days=1))) == []
