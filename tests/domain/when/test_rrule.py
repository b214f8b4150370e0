"""Recurrence rules: the examples of RFC 5545, python-dateutil as an oracle, and the refusals."""

import random
import re
import tracemalloc
from datetime import datetime, timedelta
from itertools import islice
from time import process_time

import pytest
from dateutil.rrule import rrulestr  # type: ignore[import-untyped]

from sexton.domain.when.cron import parse_cron
from sexton.domain.when.parts import FREQUENCIES, WEEKDAYS, parse_parts
from sexton.domain.when.recurrence import Recurrence
from sexton.domain.when.rrule import parse_rrule
from sexton.domain.when.zone import Zoned
from sexton.errors import InvalidSchedule

from .instants import ANCHOR, following, local, timetable, utc, wall

LENGTHS = dict(zip(FREQUENCIES, (366 * 86400, 31 * 86400, 604800, 86400, 3600, 60, 1), strict=True))


def walls(
    text: str, start: datetime, since: datetime | None = None, count: int = 8
) -> list[datetime]:
    rule = Recurrence(parse_parts(text)[0], start)
    return list(islice(rule.walls(since or start), count))


def days(text: str, start: str, count: int) -> list[str]:
    return [f"{each:%Y-%m-%d}" for each in walls(text, wall(start), count=count)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FREQ=DAILY;INTERVAL=10", "97-09-02 97-09-12 97-09-22 97-10-02"),
        ("FREQ=WEEKLY;INTERVAL=2;WKST=SU", "97-09-02 97-09-16 97-09-30 97-10-14"),
        ("FREQ=WEEKLY;INTERVAL=2;WKST=SU;BYDAY=MO,WE,FR", "97-09-03 97-09-05 97-09-15 97-09-17"),
        ("FREQ=MONTHLY;BYDAY=1FR", "97-09-05 97-10-03 97-11-07 97-12-05"),
        ("FREQ=MONTHLY;INTERVAL=2;BYDAY=1SU,-1SU", "97-09-07 97-09-28 97-11-02 97-11-30"),
        ("FREQ=MONTHLY;BYDAY=-2MO", "97-09-22 97-10-20 97-11-17 97-12-22"),
        ("FREQ=MONTHLY;BYMONTHDAY=-3", "97-09-28 97-10-29 97-11-28 97-12-29"),
        ("FREQ=MONTHLY;BYMONTHDAY=1,-1", "97-09-30 97-10-01 97-10-31 97-11-01"),
        ("FREQ=YEARLY;BYMONTH=10,11", "97-10-02 97-11-02 98-10-02 98-11-02"),
        ("FREQ=YEARLY;INTERVAL=3;BYYEARDAY=1,100,200", "00-01-01 00-04-09 00-07-18 03-01-01"),
        ("FREQ=YEARLY;BYDAY=20MO", "98-05-18 99-05-17 00-05-15 01-05-14"),
        ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "98-05-11 99-05-17 00-05-15 01-05-14"),
        ("FREQ=YEARLY;BYWEEKNO=20", "98-05-12 99-05-18 00-05-16 01-05-15"),
        ("FREQ=YEARLY;BYDAY=TH;BYMONTH=3", "98-03-05 98-03-12 98-03-19 98-03-26"),
        ("FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", "98-02-13 98-03-13 98-11-13 99-08-13"),
        (
            "FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=7,8,9,10,11,12,13",
            "97-09-13 97-10-11 97-11-08 97-12-13",
        ),
        (
            "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8",
            "97-11-04 01-11-06 05-11-08 09-11-03",
        ),
        ("FREQ=MONTHLY;BYDAY=TU,WE,TH;BYSETPOS=3", "97-09-04 97-10-07 97-11-06 97-12-04"),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2", "97-09-29 97-10-30 97-11-27 97-12-30"),
        ("FREQ=MONTHLY;BYDAY=MO,2TU", "97-09-08 97-09-09 97-09-15 97-09-22"),
    ],
)
def test_the_examples_of_the_standard(text: str, expected: str) -> None:
    """All of them begin on Tuesday, 2 September 1997."""
    found = walls(text, wall("1997-09-02 09:00"), count=4)
    assert " ".join(f"{each:%y-%m-%d}" for each in found) == expected


def test_times_of_day_multiply() -> None:
    found = walls("FREQ=DAILY;BYHOUR=9,17;BYMINUTE=0,30;BYSECOND=0", wall("2026-01-01 10:00"))
    assert [f"{each:%H:%M}" for each in found[:6]] == [
        "17:00",
        "17:30",
        "09:00",
        "09:30",
        "17:00",
        "17:30",
    ]


def test_the_last_moment_of_a_month_is_found_without_listing_them_all() -> None:
    every = ",".join(map(str, range(60)))
    text = f"FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=28,29;BYHOUR=23;BYMINUTE={every};BYSECOND={every}"
    assert walls(f"{text};BYSETPOS=-1", wall("2027-01-01"), count=2) == [
        wall("2027-02-28 23:59:59"),
        wall("2028-02-29 23:59:59"),
    ]


def some(noise: random.Random, low: int, high: int, signed: bool = False) -> str:
    found = {noise.randint(low, high) for _ in range(noise.randint(1, 3))}
    return ",".join(str(-each if signed and noise.random() < 0.4 else each) for each in found)


def made_up(noise: random.Random) -> str:
    """A rule on whose meaning everybody agrees; on the others see the test below."""
    freq = noise.choice(FREQUENCIES)
    parts = {"FREQ": freq}
    often = freq in ("HOURLY", "MINUTELY", "SECONDLY")
    if noise.random() < 0.5:
        parts["INTERVAL"] = str(noise.choice([2, 3, 5, 7, 13, 40, 90]))
    if noise.random() < 0.3:
        parts["BYMONTH"] = some(noise, 1, 12)
    if freq == "YEARLY" and noise.random() < 0.2:
        parts["BYWEEKNO"] = some(noise, 1, 53, signed=True)
    if (often or freq == "YEARLY") and noise.random() < 0.15:
        parts["BYYEARDAY"] = some(noise, 1, 366, signed=True)
    if freq != "WEEKLY" and noise.random() < 0.25:
        parts["BYMONTHDAY"] = some(noise, 1, 31, signed=True)
    if "BYWEEKNO" in parts or noise.random() < 0.35:
        named = [noise.choice(WEEKDAYS) for _ in range(noise.randint(1, 3))]
        if freq in ("YEARLY", "MONTHLY") and "BYWEEKNO" not in parts and noise.random() < 0.5:
            far = [10, 20, 53, -10] if freq == "YEARLY" and "BYMONTH" not in parts else []
            named = [f"{noise.choice([1, 2, 4, 5, -1, -2, *far])}{day}" for day in named]
        parts["BYDAY"] = ",".join(dict.fromkeys(named))
    for part, high in (("BYHOUR", 23), ("BYMINUTE", 59), ("BYSECOND", 59)):
        if noise.random() < 0.25:
            parts[part] = some(noise, 0, high)
    if freq != "WEEKLY" and noise.random() < 0.2 and any(part[:2] == "BY" for part in parts):
        parts["BYSETPOS"] = some(noise, 1, 4, signed=True)
    if noise.random() < 0.3:
        parts["WKST"] = noise.choice(WEEKDAYS)
    return ";".join(f"{part}={value}" for part, value in parts.items())


@pytest.mark.parametrize("seed", range(8))
def test_dateutil_agrees_and_jumping_in_finds_the_same(seed: int) -> None:
    noise = random.Random(seed)
    compared = 0
    while compared < 60:
        text = made_up(noise)
        start = wall("1995-01-01") + timedelta(seconds=noise.randrange(35 * 365 * 86400))
        found = walls(text, start)
        # The oracle goes step by step from the start, so it is asked only for what is near.
        steps = (
            (found[-1] - start).total_seconds() / LENGTHS[text[5:].split(";")[0]] if found else 0
        )
        if not found or steps > 2000 or found[-1].year > 2300:
            continue
        assert found == list(islice(rrulestr(text, dtstart=start), 8)), (text, start)
        for since in (found[2], found[1] + timedelta(microseconds=1), found[5] - timedelta(days=1)):
            later = [each for each in found if each >= since]
            assert walls(text, start, since)[: len(later)] == later, (text, start, since)
        compared += 1


def test_where_the_standard_is_followed_and_dateutil_does_not() -> None:
    # The weekday of a week comes from the start, and a count of weekdays may stand beside a plain
    # one; see the examples. The first week is a whole one for BYSETPOS too.
    text = "FREQ=WEEKLY;INTERVAL=2;BYDAY=SA,MO;BYSETPOS=2;WKST=SU"
    assert days(text, "2001-07-13 18:00", 2) == ["2001-07-14", "2001-07-28"]


def test_far_from_the_start_it_is_as_quick_as_near_it() -> None:
    rules = [
        Recurrence(parse_parts(text)[0], wall("1970-01-01 00:00:07"))
        for text in ("FREQ=SECONDLY;INTERVAL=7", "FREQ=DAILY", "FREQ=MONTHLY;BYDAY=-1FR")
    ]
    began = process_time()
    for rule in rules:
        for year in range(2026, 8000, 60):
            assert next(rule.walls(datetime(year, 5, 1))).year == year  # noqa: DTZ001
    assert process_time() - began < 6


def test_a_count_counts_from_the_start() -> None:
    start = wall("2026-01-01 09:00")
    assert len(walls("FREQ=DAILY;COUNT=3", start)) == 3
    assert walls("FREQ=DAILY;COUNT=3", start, wall("2026-01-03 00:00")) == [
        wall("2026-01-03 09:00")
    ]
    assert walls("FREQ=DAILY;COUNT=3", start, wall("2026-01-03 09:00:01")) == []


@pytest.mark.parametrize(
    ("text", "sub_hourly"),
    [
        ("FREQ=MINUTELY;INTERVAL=15", True),
        ("FREQ=HOURLY", True),
        ("FREQ=HOURLY;INTERVAL=6", False),
        ("FREQ=MINUTELY;BYHOUR=2", False),
        ("FREQ=DAILY", False),
        (f"FREQ=DAILY;BYHOUR={','.join(map(str, range(24)))}", True),
    ],
)
def test_what_fires_every_hour_follows_elapsed_time(text: str, sub_hourly: bool) -> None:
    assert Recurrence(parse_parts(text)[0], wall("2026-01-01")).sub_hourly is sub_hourly


# With the lines around it, in a zone.


def paris(text: str, instant: str, count: int = 5) -> list[str]:
    rule = parse_rrule(text).rule("Europe/Paris", "default", ANCHOR)
    return local(following(rule, utc(instant), count), "Europe/Paris")


def test_dates_are_added_and_taken_away() -> None:
    text = (
        "DTSTART;TZID=Europe/Paris:20260301T090000\r\n"
        "RRULE:FREQ=DAILY;\r\n UNTIL=20260304\r\n"
        "RDATE;TZID=Europe/Paris:20260303T090000,20260310T120000\r\n"
        "EXDATE;TZID=Europe/Paris:20260302T090000\r\n"
    )
    assert parse_rrule(text).zone == "Europe/Paris"
    assert paris(text, "2026-01-01 00:00") == [
        "2026-03-01 09:00+0100",
        "2026-03-03 09:00+0100",
        "2026-03-04 09:00+0100",
        "2026-03-10 12:00+0100",
    ]


def test_an_exception_without_a_time_takes_the_whole_day() -> None:
    text = "RRULE:FREQ=HOURLY;BYHOUR=9,10;BYMINUTE=0;BYSECOND=0\nEXDATE;VALUE=DATE:20260102"
    assert paris(text, "2026-01-01 08:30", 2) == ["2026-01-01 10:00+0100", "2026-01-03 09:00+0100"]


def test_dates_alone_are_enough() -> None:
    assert paris("RDATE:20260401T080000,20260329T023000", "2026-01-01 00:00") == [
        "2026-03-29 03:00+0200",
        "2026-04-01 08:00+0200",
    ]
    assert paris("DTSTART:20260401T080000", "2026-01-01 00:00") == ["2026-04-01 08:00+0200"]


def test_an_end_in_utc_is_an_instant_and_still_within() -> None:
    text = "FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0;UNTIL=20260330T{}Z"
    assert paris(text.format("070000"), "2026-03-28 12:00")[-1] == "2026-03-30 09:00+0200"
    assert paris(text.format("065959"), "2026-03-28 12:00")[-1] == "2026-03-29 09:00+0200"


def test_without_a_start_it_begins_with_the_schedule() -> None:
    rule = parse_rrule("FREQ=WEEKLY;INTERVAL=2")
    assert rule.needs_start
    found = following(rule.rule("Europe/Paris", "default", utc("2026-03-17 20:30")), ANCHOR, 2)
    assert local(found, "Europe/Paris") == ["2026-03-17 21:30+0100", "2026-03-31 21:30+0200"]


@pytest.mark.parametrize(
    ("dst", "spring", "autumn"),
    [
        ("default", ["03:00+0200"], ["02:30+0200"]),
        ("first", ["03:00+0200"], ["02:30+0200"]),
        ("skip", [], ["02:30+0200"]),
        ("shift", ["03:30+0200"], ["02:30+0200"]),
        ("both", ["03:00+0200"], ["02:30+0200", "02:30+0100"]),
    ],
)
def test_changes_of_the_clocks_are_as_for_cron(
    dst: str, spring: list[str], autumn: list[str]
) -> None:
    parsed = parse_rrule("FREQ=DAILY;BYHOUR=2;BYMINUTE=30;BYSECOND=0")
    rule = parsed.rule("Europe/Paris", dst, ANCHOR)  # type: ignore[arg-type]
    for day, expected in (("2026-03-29", spring), ("2026-10-25", autumn)):
        found = [tick.at for tick in rule.between(utc(day), utc(f"{day} 12:00"))]
        assert [each[11:] for each in local(found, "Europe/Paris")] == expected


@pytest.mark.parametrize(
    "zone", ["Europe/Paris", "America/Santiago", "Asia/Beirut", "Pacific/Apia"]
)
@pytest.mark.parametrize("dst", ["default", "skip", "shift", "both"])
def test_a_rule_and_the_cron_expression_that_says_the_same_fire_together(
    zone: str, dst: str
) -> None:
    pairs = [
        ("30 0,2,23 * * *", "FREQ=DAILY;BYHOUR=0,2,23;BYMINUTE=30;BYSECOND=0"),
        ("0 0 * * SUN", "FREQ=WEEKLY;BYDAY=SU;BYHOUR=0;BYMINUTE=0;BYSECOND=0"),
        ("15,45 2 * * *", "FREQ=MINUTELY;BYHOUR=2;BYMINUTE=15,45;BYSECOND=0"),
        ("*/20 * * * *", "FREQ=MINUTELY;BYMINUTE=0,20,40;BYSECOND=0"),
    ]
    for cron, text in pairs:
        one = Zoned(parse_cron(cron), zone, dst)  # type: ignore[arg-type]
        other = parse_rrule(text).rule(zone, dst, utc("2011-01-01"))  # type: ignore[arg-type]
        for start in ("2011-12-28", "2026-03-27", "2026-04-03", "2026-09-04", "2026-10-23"):
            span = utc(start), utc(start) + timedelta(days=4)
            assert list(other.between(*span)) == list(one.between(*span)), (cron, start)


def test_every_quarter_of_an_hour_goes_on_through_both_changes() -> None:
    rule = parse_rrule("FREQ=MINUTELY;INTERVAL=15").rule("Europe/Paris", "default", ANCHOR)
    for day in ("2026-03-29", "2026-10-25"):
        ticks = list(rule.between(utc(day), utc(f"{day} 03:00")))
        assert len(ticks) == 12


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "there is no rule"),
        (f"RDATE:{','.join(['20260101T000000'] * 2000)}", "longer than 20,000 characters"),
        ("every day", "is not a rule like FREQ=DAILY"),
        ("INTERVAL=2", "has no FREQ"),
        ("RRULE:INTERVAL=2", "has no FREQ"),
        ("FREQ=DAYLY", r"FREQ=DAYLY is none of .*; did you mean 'DAILY'\?"),
        ("FREQ=DAILY;BYHOURS=9", r"'BYHOURS=9' is not a part .*; did you mean 'BYHOUR'\?"),
        ("FREQ=DAILY;BYHOUR=", "BYHOUR has no value"),
        ("FREQ=DAILY;BYHOUR=9;BYHOUR=10", "BYHOUR is there twice"),
        ("FREQ=DAILY;BYHOUR=24", "BYHOUR: 24 is not from 0 to 23"),
        ("FREQ=DAILY;BYHOUR=nine", "BYHOUR: 'NINE' is not a whole number"),
        ("FREQ=DAILY;BYSECOND=60", "leap seconds"),
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL: 0 is not from 1"),
        ("FREQ=DAILY;COUNT=1000000", "limit the schedule's number of fires"),
        ("FREQ=DAILY;COUNT=2;UNTIL=20260101", "exclude each other"),
        ("FREQ=DAILY;UNTIL=tomorrow", "UNTIL: 'TOMORROW' is not like"),
        ("FREQ=DAILY;UNTIL=20260230", "UNTIL: '20260230' is not like"),
        ("FREQ=MONTHLY;BYDAY=XX", "'XX' is none of MO"),
        ("FREQ=MONTHLY;BYDAY=0MO", "0 is not from 1 to 53"),
        ("FREQ=WEEKLY;BYDAY=2MO", "does not go with FREQ=WEEKLY"),
        ("FREQ=WEEKLY;BYMONTHDAY=2", "BYMONTHDAY does not go with FREQ=WEEKLY"),
        ("FREQ=MONTHLY;BYWEEKNO=2", "BYWEEKNO needs FREQ=YEARLY"),
        ("FREQ=YEARLY;BYWEEKNO=2;BYDAY=1MO", "does not go with BYWEEKNO"),
        ("FREQ=MONTHLY;BYYEARDAY=2", "BYYEARDAY does not go with FREQ=MONTHLY"),
        ("FREQ=DAILY;BYSETPOS=1", "BYSETPOS chooses from"),
        ("FREQ=DAILY\nEXRULE:FREQ=WEEKLY", "EXRULE is not part of RFC 5545"),
        ("FREQ=DAILY\nRRULE:FREQ=WEEKLY", "more than one RRULE"),
        ("DTSTART:20260101\nDTSTART:20260102", "more than one DTSTART"),
        ("DTSTRAT:20260101\nRRULE:FREQ=DAILY", r"did you mean 'DTSTART'\?"),
        ("RDATE;VALUE=PERIOD:20260101T000000Z/PT1H", "VALUE=PERIOD is not understood"),
        ("DTSTART;TZID=Europe/Pariss:20260101T000000\nRRULE:FREQ=DAILY", "Europe/Paris"),
        (
            "DTSTART;TZID=Europe/Paris:20260101T000000\nEXDATE;TZID=Asia/Tokyo:20260101T000000",
            "several time zones, Asia/Tokyo and Europe/Paris",
        ),
    ],
)
def test_nonsense_is_refused_with_the_part_and_the_reason(text: str, says: str) -> None:
    with pytest.raises(InvalidSchedule, match=says) as caught:
        parse_rrule(text)
    assert re.match("rrule: |timezone ", str(caught.value))


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MONTHLY;BYMONTH=4;BYMONTHDAY=31",
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=-30",
        "FREQ=SECONDLY;BYMONTH=6;BYMONTHDAY=31",
        "FREQ=YEARLY;BYYEARDAY=60;BYMONTH=1",
        "FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSETPOS=2",
        "FREQ=MONTHLY;BYDAY=5MO;BYMONTHDAY=1",
        "DTSTART:20210301T000000\nRRULE:FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29",
        "DTSTART:20260105T000000\nRRULE:FREQ=HOURLY;INTERVAL=168;BYDAY=TU",
        "DTSTART:20260105T000000\nRRULE:FREQ=SECONDLY;INTERVAL=60;BYSECOND=30",
        "DTSTART:20260105T000000\nRRULE:FREQ=DAILY;INTERVAL=7;BYDAY=TU",
    ],
)
def test_dates_that_never_come_are_refused_at_once(text: str) -> None:
    began = process_time()
    with pytest.raises(InvalidSchedule, match="no date ever fits"):
        parse_rrule(text)
    assert process_time() - began < 6


@pytest.mark.parametrize(
    ("text", "start", "first"),
    [
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "2096-03-01", "2104-02-29"),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO", "2072-03-01", "2112-02-29"),
        ("FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO", "2072-03-01", "2112-02-29"),
        ("FREQ=YEARLY;INTERVAL=100;BYMONTH=2;BYMONTHDAY=29", "2100-01-01", "2400-02-29"),
        ("FREQ=HOURLY;INTERVAL=1000;BYMONTH=2;BYMONTHDAY=29", "2026-01-01", "2032-02-29"),
    ],
)
def test_dates_that_come_rarely_are_waited_for(text: str, start: str, first: str) -> None:
    assert days(text, start, 1) == [first]


@pytest.mark.parametrize("until", ["20260201T083000Z", "20260201T093000", "20260201"])
def test_until_ends_the_recurrence_and_not_the_dates_beside_it(until: str) -> None:
    text = (
        "DTSTART;TZID=Europe/Paris:20260105T093000\n"
        f"RRULE:FREQ=WEEKLY;UNTIL={until}\n"
        "RDATE;TZID=Europe/Paris:20260126T093000,20260320T093000,20260330T093000\n"
        "EXDATE;TZID=Europe/Paris:20260320T093000"
    )
    table = timetable(rrule=text)
    found = following(table.rule(ANCHOR), utc("2026-01-18"), 9)
    assert found == [
        utc("2026-01-19 08:30"), utc("2026-01-26 08:30"), utc("2026-03-30 07:30"),
    ]  # fmt: skip


def test_until_as_an_instant_ends_between_two_readings_that_are_the_same() -> None:
    """02:30 comes twice in Paris on 25 October 2026; UNTIL lies between."""
    text = "FREQ=MINUTELY;INTERVAL=30;UNTIL=20261025T010000Z"
    table = timetable(rrule=f"{text}", starts_at="2026-10-25T00:00:00Z", timezone="Europe/Paris")
    found = following(table.rule(ANCHOR), utc("2026-10-24 23:59"), 9)
    assert found == [
        utc("2026-10-25 00:00"), utc("2026-10-25 00:30"), utc("2026-10-25 01:00"),
    ]  # fmt: skip


def test_a_rule_that_ends_after_ten_thousand_does_not_keep_them() -> None:
    """Thousands of rules are kept compiled, by every node and every process of the service."""
    start = wall("2026-01-01 00:00")
    rule = Recurrence(parse_parts("FREQ=SECONDLY;COUNT=10000")[0], start)
    tracemalloc.start()
    try:
        assert next(rule.walls(start)) == start
        assert tracemalloc.get_traced_memory()[0] < 50_000
    finally:
        tracemalloc.stop()
    last = wall("2026-01-01 02:46:39")
    assert list(rule.walls(last)) == [last]
