"""Rules and calendars that would be gone through for hours are given up; ordinary ones are not."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sexton.domain.when.calendar import Calendar, CalendarRef
from sexton.domain.when.definition import Definition
from sexton.domain.when.effort import NEW_RULE, TooLong, at_most, take
from sexton.domain.when.timetable import Timetable

NOW = datetime(2026, 11, 16, tzinfo=UTC)
A, B = CalendarRef("a", 1), CalendarRef("b", 2)
SECONDS = Calendar.of(
    windows=[
        f"{hour:02}:{minute:02}:{second:02}-{hour:02}:{minute:02}:{second + 1:02}"
        for hour in range(24)
        for minute in range(60)
        for second in range(0, 58, 10)
    ]
)
HALF_HOURS = Calendar.of(windows=[f"{hour:02}:00-{hour:02}:30" for hour in range(24)])
A_YEAR_OFF = ",".join(f"2027{month:02}{day:02}" for month in range(1, 13) for day in range(1, 29))


def timetable(a: Calendar | None = None, b: Calendar | None = None, **options: Any) -> Timetable:
    calendars = {ref: each for ref, each in ((A, a), (B, b)) if each is not None}
    return Timetable.compile(Definition.of(**options), calendars)


NEVER_OPEN = {"every": 60, "anchor": NOW, "only": [A], "exclude": [B]}
HOSTILE: dict[str, Timetable] = {
    "open in no second of ten years": timetable(SECONDS, SECONDS, **NEVER_OPEN),
    "nor on another day": timetable(SECONDS, SECONDS, **NEVER_OPEN, when_excluded="next_day"),
    "every second but of a year": timetable(
        rrule=f"DTSTART:20261231T235959Z\nRRULE:FREQ=SECONDLY\nEXDATE:{A_YEAR_OFF}"
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_would_take_for_ever_is_given_up(name: str) -> None:
    with at_most(NEW_RULE), pytest.raises(TooLong):
        HOSTILE[name].after(datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC), NOW)


@pytest.mark.parametrize(
    "options",
    [
        {"cron": "0 6 * * *"},
        {"any": [f"{n % 60} {n // 60} * * *" for n in range(100)]},
        {"any": [{"rrule": f"FREQ=YEARLY;BYMONTH={n};BYMONTHDAY=29"} for n in range(1, 13)]},
        {"rrule": "FREQ=SECONDLY;BYSECOND=59;BYMINUTE=59;BYHOUR=23;BYYEARDAY=366;BYDAY=SU"},
        {"rrule": "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=SU"},
        {"cron": "*/5 8-18 * * *", "exclude": [A], "when_excluded": "next_day"},
        {"cron": "15 * * * *", "only": [B]},
        {"cron": "0 0 29 2 *", "only": [B]},
    ],
)
def test_fifty_fires_of_what_people_write_are_far_from_it(options: dict[str, Any]) -> None:
    holidays = Calendar.of(dates=["--12-25", "--12-26", "--01-01"], windows=["sat,sun"])
    found, at = timetable(holidays, HALF_HOURS, **options), NOW
    with at_most(NEW_RULE):
        for _ in range(50):
            following = found.after(at, NOW)
            assert following is not None
            at = following


def test_a_block_within_another_has_no_more_than_is_left_of_it() -> None:
    with at_most(10):
        for _ in range(2):
            with at_most(5):
                take(5)
        with at_most(5), pytest.raises(TooLong):
            take(1)
    take(10**9)  # nobody has said how much
