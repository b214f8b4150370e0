"""Once, and never again."""

from datetime import timedelta

from sexton.domain.when.once import Once
from sexton.domain.when.rule import Tick

from .instants import utc

AT = utc("2026-03-29 01:00")
A_MICROSECOND = timedelta(microseconds=1)


def test_it_comes_after_anything_earlier_and_after_nothing_else() -> None:
    rule = Once(AT)
    assert rule.after(utc("1970-01-01 00:00")) == AT
    assert rule.after(AT - A_MICROSECOND) == AT
    assert rule.after(AT) is None
    assert rule.after(AT + A_MICROSECOND) is None


def test_the_end_of_a_range_is_in_it_and_its_beginning_is_not() -> None:
    rule = Once(AT)
    assert list(rule.between(AT - A_MICROSECOND, AT)) == [Tick(AT)]
    assert list(rule.between(AT, AT + A_MICROSECOND)) == []
