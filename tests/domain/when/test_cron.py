"""What a cron expression means, and what is refused with a reason."""

from calendar import isleap
from datetime import date, datetime
from itertools import islice, pairwise
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.domain.when.cron import Dialect, parse_cron
from sexton.errors import InvalidSchedule


def wall(text: str) -> datetime:
    """What a clock shows."""
    return datetime.fromisoformat(text)


def first(text: str, count: int, start: str = "2026-01-01", dialect: Dialect = "cron") -> list[str]:
    walls = parse_cron(text, dialect=dialect).walls(wall(start))
    return [each.isoformat(" ") for each in islice(walls, count)]


def days(text: str, count: int, start: str = "2026-01-01") -> list[str]:
    return [each[:10] for each in first(f"0 0 {text}", count, start)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30 6 * * *", ["2026-01-01 06:30:00", "2026-01-02 06:30:00"]),
        ("*/25 23 * * *", ["2026-01-01 23:00:00", "2026-01-01 23:25:00", "2026-01-01 23:50:00"]),
        ("50/5 23 * * *", ["2026-01-01 23:50:00", "2026-01-01 23:55:00", "2026-01-02 23:50:00"]),
        ("1-30/15 0 * * *", ["2026-01-01 00:01:00", "2026-01-01 00:16:00", "2026-01-02 00:01:00"]),
        ("5,1 0 1 1 *", ["2026-01-01 00:01:00", "2026-01-01 00:05:00", "2027-01-01 00:01:00"]),
        ("15 10 0 * * *", ["2026-01-01 00:10:15", "2026-01-02 00:10:15"]),
        ("*/40 59 23 * * *", ["2026-01-01 23:59:00", "2026-01-01 23:59:40"]),
        ("@hourly", ["2026-01-01 00:00:00", "2026-01-01 01:00:00"]),
        ("@daily", ["2026-01-01 00:00:00", "2026-01-02 00:00:00"]),
        ("@Midnight", ["2026-01-01 00:00:00", "2026-01-02 00:00:00"]),
        ("@weekly", ["2026-01-04 00:00:00", "2026-01-11 00:00:00"]),
        ("@monthly", ["2026-01-01 00:00:00", "2026-02-01 00:00:00"]),
        ("@yearly", ["2026-01-01 00:00:00", "2027-01-01 00:00:00"]),
        ("@annually", ["2026-01-01 00:00:00", "2027-01-01 00:00:00"]),
        ("  0\t0   1  JAN *  ", ["2026-01-01 00:00:00", "2027-01-01 00:00:00"]),
    ],
)
def test_times(text: str, expected: list[str]) -> None:
    assert first(text, len(expected)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* * 7", ["2026-01-04"]),
        ("* * 0", ["2026-01-04"]),
        ("* * sun", ["2026-01-04"]),
        ("* * FRI-MON", ["2026-01-02", "2026-01-03", "2026-01-04", "2026-01-05", "2026-01-09"]),
        ("* * 5-7", ["2026-01-02", "2026-01-03", "2026-01-04", "2026-01-09"]),
        ("* * fri-sun/2", ["2026-01-02", "2026-01-04", "2026-01-09"]),
        ("* feb,Apr *", ["2026-02-01"]),
        ("31 * *", ["2026-01-31", "2026-03-31", "2026-05-31"]),
        ("29 2 *", ["2028-02-29", "2032-02-29"]),
        # Both restricted: either is enough.
        ("13 * fri", ["2026-01-02", "2026-01-09", "2026-01-13", "2026-01-16"]),
        ("31 2 mon", ["2026-02-02", "2026-02-09"]),
        # A field that begins with a star is not restricted, so both must agree.
        ("*/2 * mon", ["2026-01-05", "2026-01-19", "2026-02-09"]),
        ("1-7 * */7", ["2026-01-04", "2026-02-01", "2026-03-01"]),
        ("1-31 * mon", ["2026-01-01", "2026-01-02"]),
        # Extensions.
        ("L * *", ["2026-01-31", "2026-02-28", "2026-03-31"]),
        ("L 2 *", ["2026-02-28", "2027-02-28", "2028-02-29"]),
        ("L-3 * *", ["2026-01-28", "2026-02-25"]),
        ("LW * *", ["2026-01-30", "2026-02-27", "2026-03-31"]),
        ("15W * *", ["2026-01-15", "2026-02-16", "2026-03-16"]),
        ("1w 8 *", ["2026-08-03"]),
        ("31W * *", ["2026-01-30", "2026-03-31", "2026-05-29"]),
        ("1,15,L * *", ["2026-01-01", "2026-01-15", "2026-01-31", "2026-02-01"]),
        ("* * 5L", ["2026-01-30", "2026-02-27"]),
        ("* * friL", ["2026-01-30", "2026-02-27"]),
        ("* * mon#2", ["2026-01-12", "2026-02-09"]),
        ("* * 1#1", ["2026-01-05", "2026-02-02"]),
        ("* * 7#1", ["2026-01-04", "2026-02-01"]),
        ("* * thu#5", ["2026-01-29", "2026-04-30"]),
        ("* 2 thu#5", ["2052-02-29"]),
        ("L * fri#1", ["2026-01-02", "2026-01-31", "2026-02-06"]),
    ],
)
def test_days(text: str, expected: list[str]) -> None:
    assert days(text, len(expected)) == expected


def test_leap_days_over_a_century_that_is_no_leap_year() -> None:
    assert days("29 2 *", 3, "2095-01-01") == ["2096-02-29", "2104-02-29", "2108-02-29"]
    assert days("29 2 *", 2, "2399-01-01") == ["2400-02-29", "2404-02-29"]


def test_leap_days_on_a_sunday_are_found_over_gaps_of_forty_years() -> None:
    leap_years = [year for year in range(1601, 9000) if isleap(year)]
    sundays = [day for year in leap_years if (day := date(year, 2, 29)).isoweekday() == 7]
    assert max(b.year - a.year for a, b in pairwise(sundays)) == 40
    began = process_time()
    walls = parse_cron("0 0 29 2 */7").walls(wall("1601-01-01"))
    assert [each.date() for each in walls] == sundays
    assert process_time() - began < 6


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0 0 31 2 *", "day of month 31 never comes in month 2"),
        ("0 0 30,31 feb *", "day of month 30,31 never comes in month FEB"),
        ("0 0 31 4,6,9,11 *", "day of month 31 never comes in month 4,6,9,11"),
        ("0 0 31 2 */2", "day of month 31 never comes in month 2"),
        ("0 0 31W feb *", "day of month 31W never comes in month FEB"),
        ("0 0 */31 * mon#2", "day of month */31 and day of week MON#2 never meet"),
        ("", "0 fields; cron has 5"),
        ("* * * *", "4 fields; cron has 5"),
        ("* * * * * * *", "7 fields; cron has 5 (minute, hour, day of month, month, day of week)"),
        ("60 * * * *", "minute: 60 is not from 0 to 59"),
        ("* 24 * * *", "hour: 24 is not from 0 to 23"),
        ("* * 0 * *", "day of month: 0 is not from 1 to 31"),
        ("* * 32 * *", "day of month: 32 is not from 1 to 31"),
        ("* * * 13 *", "month: 13 is not from 1 to 12"),
        ("* * * * 8", "day of week: 8 is not from 0 to 7"),
        ("60 * * * * *", "second: 60 is not from 0 to 59"),
        ("-5 * * * *", "minute: a value is missing"),
        ("5, * * * *", "minute: a value is missing"),
        ("5- * * * *", "minute: a value is missing"),
        ("1.5 * * * *", "minute: '1.5' is not a number from 0 to 59"),
        ("٣ * * * *", "is not a number from 0 to 59"),
        ("99999999999999999999 * * * *", "is not a number from 0 to 59"),
        ("30-10 * * * *", "minute: the range 30-10 runs backwards; write 30-59,0-10"),
        ("*/0 * * * *", "minute: a step of 0 goes nowhere"),
        ("*/x * * * *", "minute: the step 'X' is not a number"),
        ("*/90 * * * *", "minute: a step of 90 is longer than the field"),
        ("* * * jna *", "month: 'JNA' is not a number from 1 to 12 or a name like FEB; did you"),
        ("* * * * monday", "day of week: 'MONDAY' is written MON"),
        ("* * * * 1#6", "day of week: 1#6: after # stands a number from 1 to 5"),
        ("* * * * mon-fri#2", "day of week: 'MON-FRI' is not a number"),
        ("* * * * L", "day of week: L needs a weekday; 5L is the last Friday"),
        ("* * L-31 * *", "day of month: L-31: no month has a day 31 before its last"),
        ("* * W * *", "day of month: 'W' is not a number"),
        ("* * L/2 * *", "day of month: 'L' is not a number"),
        ("0 0 ? * 1", "day of month: '?' belongs to the Quartz dialect; ask for dialect='quartz'"),
        ("0~30 * * * *", "write H(0-29) for one that stays the same"),
        ("@reboot", "a cluster does not boot"),
        ("@dayly", "not one of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly"),
        ("@every 5m", "not one of"),
        ("0 0 * * * ;", "day of week: ';' is not a number"),
        ("\0 * * * *", "is not a number"),
    ],
)
def test_nonsense_is_refused_with_the_field_and_the_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        parse_cron(text)
    assert str(refused.value).startswith(f"cron {' '.join(text.split())!r}: ")
    assert reason in str(refused.value)


def test_an_endless_expression_is_refused_before_it_is_read() -> None:
    with pytest.raises(InvalidSchedule, match="longer than 1,000 characters"):
        parse_cron("1," * 100_000 + "1 * * * *")


@pytest.mark.parametrize("wrong", [None, 5, b"* * * * *", ["* * * * *"]])
def test_what_is_not_text_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidSchedule, match="an expression like"):
        parse_cron(wrong)  # type: ignore[arg-type]


def test_an_unknown_dialect_is_refused() -> None:
    with pytest.raises(InvalidSchedule, match="choose 'cron' or 'quartz'"):
        parse_cron("* * * * *", dialect="vixie")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "elapsed"),
    [
        ("0 * * * *", True),
        ("*/15 * * * *", True),
        ("30 */2 * * *", True),
        ("*/15 2 * * *", True),  # as in Debian: a star in minute or hour
        ("* 30 2 * * *", True),
        ("30 0-23 * * *", True),
        ("@hourly", True),
        ("30 2 * * *", False),
        ("0,30 1-5 * * *", False),
        ("0 30 2 * * *", False),
        ("@daily", False),
    ],
)
def test_which_patterns_follow_elapsed_time(text: str, elapsed: bool) -> None:
    assert parse_cron(text).sub_hourly is elapsed


def test_equal_when_they_mean_the_same() -> None:
    assert parse_cron("0 0 * * mon-fri") == parse_cron("00 0 * * 1-5")
    assert hash(parse_cron("0 0 * * 7")) == hash(parse_cron("0 0 * * SUN"))
    assert parse_cron("0 0 * * 1") != parse_cron("0 0 * * 2")
    assert parse_cron("0 0 14 ? * 2#1", dialect="quartz") == parse_cron("0 14 * * mon#1")
    assert parse_cron("@daily", dialect="quartz") == parse_cron("0 0 * * *")


def test_parsing_is_remembered_whatever_the_schedule_is_called() -> None:
    assert parse_cron("7 3 * * thu", name="a") is parse_cron("7  3 * * thu", name="b")


@given(
    st.integers(-60_000_000_000, 220_000_000_000),
    st.sampled_from(["* * * * * *", "*/7 5 * * *", "0 0 29 2 *", "0 0 L * fri", "15 30 4 1W * *"]),
)
def test_the_next_wall_is_the_first_from_there_on(second: int, text: str) -> None:
    cron = parse_cron(text)
    found = cron.next_wall(second)
    assert found is not None
    assert found >= second
    assert cron.next_wall(found) == found
    if found > second:
        assert cron.next_wall(found - 1) == found


def test_nothing_after_the_year_9000() -> None:
    walls = list(parse_cron("0 0 31 12 *").walls(wall("8997-01-01")))
    assert [each.year for each in walls] == [8997, 8998, 8999]
    assert list(parse_cron("* * * * *").walls(wall("9500-01-01"))) == []


def test_a_start_within_a_second_counts_as_the_next() -> None:
    cron = parse_cron("* * * * * *")
    assert next(cron.walls(wall("2026-01-01T00:00:00.000001"))) == wall("2026-01-01T00:00:01")
    assert next(cron.walls(wall("2026-01-01"))) == wall("2026-01-01")
