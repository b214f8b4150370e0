"""The Quartz dialect: seconds, its own weekday numbers, `?`, years."""

from datetime import UTC, datetime
from itertools import islice

import pytest

from sexton.domain.when.cron import parse_cron
from sexton.domain.when.zone import Zoned
from sexton.errors import InvalidSchedule


def first(text: str, count: int, start: str = "2026-01-01") -> list[str]:
    walls = parse_cron(text, dialect="quartz").walls(datetime.fromisoformat(start))
    return [wall.isoformat(" ") for wall in islice(walls, count)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 0 14 ? * 2#1", ["2026-01-05 14:00:00", "2026-02-02 14:00:00"]),
        ("0 15 10 ? * MON-FRI", ["2026-01-01 10:15:00", "2026-01-02 10:15:00"]),
        ("0 0 12 ? * 1", ["2026-01-04 12:00:00"]),  # 1 is Sunday
        ("0 0 12 ? * 7", ["2026-01-03 12:00:00"]),
        ("0 0 12 ? * L", ["2026-01-03 12:00:00"]),  # the last day of the week
        ("0 0 12 ? * 6L", ["2026-01-30 12:00:00"]),  # the last Friday of the month
        ("0 0 12 ? * friL", ["2026-01-30 12:00:00"]),
        ("0 0 12 ? * 6-2", ["2026-01-02 12:00:00", "2026-01-03 12:00:00", "2026-01-04 12:00:00"]),
        ("0 0 12 L * ?", ["2026-01-31 12:00:00", "2026-02-28 12:00:00"]),
        ("0 0 12 L-3 * ?", ["2026-01-28 12:00:00", "2026-02-25 12:00:00"]),
        ("0 0 12 LW * ?", ["2026-01-30 12:00:00"]),
        ("0 0 12 L-1W * ?", ["2026-01-30 12:00:00", "2026-02-27 12:00:00", "2026-03-30 12:00:00"]),
        ("0 0 12 15W * ?", ["2026-01-15 12:00:00", "2026-02-16 12:00:00"]),
        ("0 0 12 1/10 * ?", ["2026-01-01 12:00:00", "2026-01-11 12:00:00"]),
        ("0 /30 12 * * ?", ["2026-01-01 12:00:00", "2026-01-01 12:30:00"]),
        ("30/15 0 0 * * ?", ["2026-01-01 00:00:30", "2026-01-01 00:00:45", "2026-01-02 00:00:30"]),
        ("0 0 22-1 1 1 ?", ["2026-01-01 00:00:00", "2026-01-01 01:00:00", "2026-01-01 22:00:00"]),
        (
            "0 0 0 1 NOV-FEB ?",
            ["2026-01-01 00:00:00", "2026-02-01 00:00:00", "2026-11-01 00:00:00"],
        ),
        ("0 0 12 * * *", ["2026-01-01 12:00:00"]),
        ("0 0 12 * * 2", ["2026-01-05 12:00:00"]),
        ("0 0 0 1 1 ? 2030", ["2030-01-01 00:00:00"]),
        ("0 0 0 1 1 ? 2030/5", ["2030-01-01 00:00:00", "2035-01-01 00:00:00"]),
        ("0 0 0 29 2 ? 2027-2040", ["2028-02-29 00:00:00", "2032-02-29 00:00:00"]),
    ],
)
def test_meaning(text: str, expected: list[str]) -> None:
    assert first(text, len(expected)) == expected


def test_years_end() -> None:
    assert first("0 0 0 1 1 ? 2098-2099", 10) == ["2098-01-01 00:00:00", "2099-01-01 00:00:00"]
    assert len(first("0 0 0 1 1 ? 1970-2099", 200, "1960-01-01")) == 130


def test_years_that_have_passed_are_legal_and_never_come_again() -> None:
    zoned = Zoned(parse_cron("0 0 0 1 1 ? 2001,2003", dialect="quartz"), "Europe/Paris")
    assert zoned.after(datetime(2002, 6, 1, tzinfo=UTC)) == datetime(2002, 12, 31, 23, tzinfo=UTC)
    assert zoned.after(datetime(2026, 1, 1, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0 0 14 * *", "5 fields; Quartz has 6"),
        ("0 0 14 * * ? 2026 x", "8 fields; Quartz has 6"),
        ("0 0 0 ? * ?", "day of week: '?' stands for one of the two days, not for both"),
        ("0 0 0 1 * 1", "Quartz takes a day of month or a day of week, not 1 and 1; put ?"),
        ("0 ? 0 1 * ?", "minute: '?' stands alone, for a day of month or a day of week"),
        ("0 0 0 1,? * ?", "day of month: '?' stands alone"),
        ("0 0 0 ? * 0", "day of week: 0 is not from 1 to 7"),
        ("0 0 0 ? * 8", "day of week: 8 is not from 1 to 7"),
        ("0 0 0 1 1 ? 1969", "year: 1969 is not from 1970 to 2099"),
        ("0 0 0 1 1 ? 2100", "year: 2100 is not from 1970 to 2099"),
        ("0 0 0 1 1 ? 2030-2026", "year: the range 2030-2026 runs backwards"),
        ("0 0 0 1 1 ? H", "year: H does not spread over years"),
        ("0 0 0 31 2 ?", "day of month 31 never comes in month 2"),
        ("0 0 0 29 2 ? 2026,2027", "day of month 29 never comes in month 2 of the years given"),
        ("0 0 0 ? 2 2#5 2026", "day of week 2#5 never comes in month 2 of the years given"),
    ],
)
def test_nonsense_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        parse_cron(text, dialect="quartz")
    assert reason in str(refused.value)
