"""Calendars: what is in them, where they begin and end, and what cannot be one."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.domain.when import Calendar, business_days, weekends
from sexton.errors import InvalidSchedule

from .instants import utc

ALWAYS = Calendar.of(windows=["mon-sun"])
OFFICE = Calendar.of(windows=["mon-fri 09:00-12:00,13:00-17:00"])
NIGHT = Calendar.of(windows=["22:00-06:00"])
FRIDAY_NIGHT = Calendar.of(windows=["fri 22:00-06:00"])
HOLIDAYS = Calendar.of(
    dates=["--12-25", "2026-04-03", date(2026, 4, 6)], ranges=["--12-31/--01-02"]
)
FREEZE = Calendar.of(ranges=["2026-12-18T18:00/2027-01-04T06:00", "2026-05-01/2026-05-03"])


@pytest.mark.parametrize(
    ("calendar", "inside", "outside"),
    [
        (
            HOLIDAYS,
            "2026-04-03 00:00, 2026-04-06 23:59:59, 1999-12-25 12:00, 2026-12-31 00:00, "
            "2027-01-02 23:59",
            "2026-04-02 23:59:59, 2026-04-04 00:00, 2027-04-03 12:00, 2027-01-03 00:00",
        ),
        (
            FREEZE,
            "2026-12-18 18:00, 2027-01-04 05:59:59.999999, 2026-05-01 00:00, 2026-05-03 23:59",
            "2026-12-18 17:59:59.999999, 2027-01-04 06:00, 2026-05-04 00:00",
        ),
        (
            OFFICE,  # 2026-04-03 is a Friday
            "2026-04-03 09:00, 2026-04-03 11:59:59.999999, 2026-04-03 13:00",
            "2026-04-03 08:59:59.999999, 2026-04-03 12:00, 2026-04-03 17:00, 2026-04-04 10:00",
        ),
        (
            NIGHT,
            "2026-04-03 22:00, 2026-04-03 23:59:59.999999, 2026-04-04 00:00, 2026-04-04 05:59",
            "2026-04-03 21:59, 2026-04-04 06:00",
        ),
        (
            FRIDAY_NIGHT,
            "2026-04-03 22:00, 2026-04-04 05:59",
            "2026-04-03 05:59, 2026-04-04 22:00, 2026-04-05 05:59",
        ),
        (weekends(), "2026-04-04 00:00, 2026-04-05 23:59:59.999999", "2026-04-06 00:00"),
        (business_days(), "2026-04-06 00:00, 2026-04-10 23:59", "2026-04-05 23:59"),
        (
            Calendar.of(windows=["fri-mon"]),
            "2026-04-03 12:00, 2026-04-06 12:00",
            "2026-04-07 12:00",
        ),
        (
            Calendar.of(windows=["Sat , SUNDAY 8:00 - 24:00"]),
            "2026-04-04 23:59",
            "2026-04-04 07:59",
        ),
        (Calendar.of(windows=["sat 20:00-00:00"]), "2026-04-04 23:59", "2026-04-05 00:00"),
        (Calendar.of(dates=["--02-29"]), "2028-02-29 12:00", "2026-02-28 12:00, 2026-03-01 12:00"),
        (Calendar.of(), "", "2026-04-04 12:00"),
        (ALWAYS, "2026-04-04 12:00", ""),
    ],
)
def test_what_is_in_a_calendar(calendar: Calendar, inside: str, outside: str) -> None:
    for text in filter(None, inside.split(", ")):
        assert calendar.contains(utc(text)), text
    for text in filter(None, outside.split(", ")):
        assert not calendar.contains(utc(text)), text


def test_without_a_zone_of_its_own_it_is_in_the_schedules() -> None:
    instant = utc("2026-12-24 23:30")
    assert HOLIDAYS.contains(instant, "Europe/Paris")
    assert not HOLIDAYS.contains(instant, "UTC")
    own = Calendar.of(dates=["2026-12-25"], timezone="Asia/Tokyo")
    for zone in ("UTC", "America/New_York"):
        assert own.contains(utc("2026-12-24 15:00"), zone)
        assert not own.contains(utc("2026-12-25 15:00"), zone)


def test_an_offset_in_a_range_is_obeyed_in_every_zone() -> None:
    freeze = Calendar.of(ranges=["2026-12-18T18:00+01:00/2027-01-04T06:00Z"])
    for zone in ("UTC", "Asia/Tokyo"):
        assert freeze.contains(utc("2026-12-18 17:00"), zone)
        assert not freeze.contains(utc("2026-12-18 16:59:59"), zone)


CHANGES = [
    ("Europe/Paris", "2026-03-28 00:00"),
    ("Europe/Paris", "2026-10-24 00:00"),
    ("America/Santiago", "2026-09-05 00:00"),  # forward at midnight
    ("America/Santiago", "2026-04-04 00:00"),
    ("Australia/Lord_Howe", "2026-10-03 00:00"),  # half an hour
    ("America/St_Johns", "2010-11-06 00:00"),  # back over midnight, at a minute past
    ("Pacific/Apia", "2011-12-29 00:00"),  # a day that never was
]
CALENDARS = [
    HOLIDAYS,
    FREEZE,
    OFFICE,
    NIGHT,
    FRIDAY_NIGHT,
    weekends(),
    Calendar.of(dates=["--11-07"]),
]


@pytest.mark.parametrize(("zone", "start"), CHANGES)
@pytest.mark.parametrize("calendar", CALENDARS)
def test_boundaries_are_where_it_changes_and_nowhere_else(
    calendar: Calendar, zone: str, start: str
) -> None:
    """Minute by minute through a change of the clocks, every change of `contains` is foretold."""
    instant, end = utc(start), utc(start) + timedelta(days=4)
    boundary = calendar.next_boundary(instant, zone)
    inside = calendar.contains(instant, zone)
    while instant < end:
        if instant == boundary:
            inside = not inside
            boundary = calendar.next_boundary(instant, zone)
        assert boundary is None or boundary > instant
        assert calendar.contains(instant, zone) == inside, instant
        instant += timedelta(minutes=1)


@settings(deadline=None)
@given(
    st.datetimes(datetime(2025, 1, 1), datetime(2028, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    st.sampled_from(CALENDARS),
    st.sampled_from(sorted({zone for zone, _ in CHANGES})),
)
def test_a_boundary_is_sharp_to_the_microsecond(
    instant: datetime, calendar: Calendar, zone: str
) -> None:
    boundary = calendar.next_boundary(instant, zone)
    if boundary is not None:
        inside = calendar.contains(instant, zone)
        assert boundary > instant
        assert calendar.contains(boundary, zone) != inside
        assert calendar.contains(boundary - timedelta(microseconds=1), zone) == inside
        assert calendar.contains(instant + (boundary - instant) / 2, zone) == inside


def test_one_that_never_changes_has_no_boundary() -> None:
    assert ALWAYS.next_boundary(utc("2026-01-01 00:00")) is None
    assert Calendar.of(dates=["2020-01-01"]).next_boundary(utc("2026-01-01 00:00")) is None


def test_equal_calendars_have_equal_text_that_reads_back() -> None:
    one = Calendar.of(
        dates=[date(2026, 12, 25), "2026-01-01"],
        ranges=[(date(2026, 5, 1), "2026-05-03"), "2026-12-18 18:00 / 2027-01-04T06:00"],
        windows=["MON - fri  9:00-17:00"],
        timezone="Europe/Paris",
    )
    other = Calendar.of(
        dates=["2026-01-01", "2026-12-25", "2026-12-25"],
        ranges=["2026-12-18T18:00:00/2027-01-04 06:00", "2026-05-01/2026-05-03"],
        windows=["mon-fri 9:00-17:00"],
        timezone="Europe/Paris",
    )
    assert one == other
    assert one.to_json() == other.to_json()
    assert Calendar.from_json(one.to_json()) == one
    paris = datetime(2026, 12, 18, 18, tzinfo=ZoneInfo("Europe/Paris"))
    freeze = Calendar.of(ranges=[(paris, paris + timedelta(days=1))])
    assert freeze.ranges == ("2026-12-18T17:00:00Z/2026-12-19T17:00:00Z",)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"dates": ["2026-02-30"]}, "dates: '2026-02-30' is not a date; write it like 2026-12-25"),
        ({"dates": ["--13-01"]}, "dates: '--13-01' is not a day of the year"),
        ({"dates": ["--02-30"]}, "'--02-30' is not a day of the year"),
        ({"dates": ["christmas"]}, "'christmas' is not a date"),
        ({"dates": "2026-12-25"}, "dates is a list"),
        ({"dates": [datetime(2026, 1, 1, tzinfo=UTC)]}, "is not a date"),
        ({"dates": [7]}, "7 is not a date"),
        ({"ranges": ["2026-12-25"]}, "has not two ends"),
        ({"ranges": ["2026-12-25/2026-12-24"]}, "2026-12-25/2026-12-24 runs backwards"),
        ({"ranges": ["2026-12-25T10:00Z/2026-12-25T10:00Z"]}, "runs backwards"),
        ({"ranges": ["2026-12-25/2026-12-26T10:00"]}, "both ends are days"),
        ({"ranges": ["2026-12-25T25:00/2026-12-26T10:00"]}, "is not an instant"),
        ({"ranges": ["0001-01-01/2999-01-01"]}, "more than 100,000 days"),
        # Each of them fits, and most of their days are the same.
        (
            {"ranges": [f"2000-01-01/2100-01-{n:02}" for n in range(1, 30)]},
            "more than 100,000 days",
        ),
        (
            {"ranges": [f"--01-01/--{m:02}-{d:02}" for m in range(1, 13) for d in range(1, 29)]},
            "more than 100,000 days",
        ),
        (
            {
                "windows": [
                    f"mon-sun {n // 60:02}:{n % 60:02}-24:00," * 9 + "00:00-00:01"
                    for n in range(1400)
                ]
            },
            "more than 200,000 characters",
        ),
        ({"ranges": [7]}, "7 is not a range"),
        ({"windows": ["mon-fry"]}, r"'fry' is not a weekday"),
        ({"windows": ["mun"]}, "'mun' is not a weekday"),
        ({"windows": ["frday"]}, r"did you mean 'friday'\?"),
        ({"windows": ["mon 9-17"]}, "'9' is not a time of day"),
        ({"windows": ["mon 09:00"]}, "has no end"),
        ({"windows": ["mon 09:00-25:00"]}, "'25:00' is not a time of day"),
        ({"windows": ["mon 09:00-09:00"]}, "is empty"),
        ({"windows": [""]}, "is not like 'mon-fri"),
        ({"windows": [None]}, "is not like 'mon-fri"),
        ({"timezone": "Europe/Pari"}, r"did you mean 'Europe/Paris'\?"),
        ({"dates": [date(1970, 1, 1) + timedelta(n) for n in range(10_001)]}, "more than 10,000"),
    ],
)
def test_what_cannot_be_a_calendar(given: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidSchedule, match=says):
        Calendar.of(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "[]", '{"dates": 7}', '{"holidays": []}', '{"dates": ['])
def test_text_that_is_no_calendar_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchedule, match="calendar: cannot be read"):
        Calendar.from_json(text)
