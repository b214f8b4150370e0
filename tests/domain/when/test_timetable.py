"""Definitions, compiled: bounds, calendars and moved fires against brute force; notes."""

import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from datetime import time as dtime
from time import process_time
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from sexton.domain.when import Calendar, Definition, Tick, Timetable, business_days, weekends
from sexton.domain.when.cron import parse_cron
from sexton.domain.when.interval import Interval
from sexton.domain.when.zone import Zoned
from sexton.errors import InvalidSchedule

from .instants import ANCHOR, fires, following, timetable, utc

A_DAY = timedelta(days=1)
CALENDARS = {
    "holidays": Calendar.of(
        dates=["--12-25", "--12-26", "2026-04-03", "2026-04-06"], ranges=["--12-31/--01-01"]
    ),
    "weekends": weekends(),
    "business days": business_days(),
    "office": Calendar.of(windows=["mon-fri 09:00-17:00", "sun 02:00-04:00"]),
    "lunch": Calendar.of(windows=["12:00-13:30"], timezone="America/New_York"),
    "freeze": Calendar.of(
        ranges=["2026-03-28T12:00/2026-03-30T02:15", "2026-10-24T22:00Z/2026-10-25T01:30Z"]
    ),
    "quarter ends": Calendar.of(dates=["--03-31", "--06-30", "--09-30", "--12-31"]),
}
RULES: list[dict[str, object]] = [
    {"cron": "30 9 * * *"},
    {"cron": "30 2 * * *", "dst": "both"},
    {"cron": "0 */3 * * *"},
    {"cron": "*/40 8-18 * * *"},
    {"cron": "15 12 * * sat"},
    {"cron": "0 10 1,15,25 * *"},
    {"every": "7h30m"},
    {"rrule": "FREQ=MONTHLY;BYDAY=-1SU;BYHOUR=11;BYMINUTE=0;BYSECOND=0"},
    {"any": ["0 9 * * sun", "0 9 * * mon", {"at": "2026-10-24T12:00:00Z"}]},
]
GATES: list[dict[str, list[str]]] = [
    {"exclude": ["weekends"]},
    {"exclude": ["holidays", "weekends"]},
    {"only": ["office"]},
    {"only": ["office"], "exclude": ["holidays", "lunch"]},
    {"exclude": ["freeze"]},
    {"only": ["quarter ends", "weekends"]},
]
ZONES = ["Europe/Paris", "America/Santiago", "Australia/Lord_Howe", "Africa/Cairo"]
SEASONS = ["2026-03-27 05:00:30", "2026-10-22 05:00:30", "2026-12-23 05:00:30"]
SEASON = timedelta(days=12)


def judge(zone: str, gate: dict[str, list[str]]) -> Callable[[datetime], bool]:
    """By the words of the definition, one calendar after the other."""

    def fits(instant: datetime) -> bool:
        inside = {
            name: CALENDARS[name].contains(instant, zone)
            for names in gate.values()
            for name in names
        }
        if any(inside[name] for name in gate.get("exclude", [])):
            return False
        return "only" not in gate or any(inside[name] for name in gate["only"])

    return fits


def at_wall(wall: datetime, zone: ZoneInfo) -> datetime | None:
    """The first instant on that day from which on the clock shows this or more."""
    instant = wall.replace(tzinfo=zone).astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None) != wall:  # in a gap, minute by minute
        instant -= timedelta(hours=30)
        while instant.astimezone(zone).replace(tzinfo=None) < wall:
            instant += timedelta(minutes=1)
    return instant if instant.astimezone(zone).date() == wall.date() else None


def landings(
    nominal: list[datetime], zone: ZoneInfo, fits: Callable[[datetime], bool], last: datetime
) -> set[datetime]:
    """Day by day, with all that is on its way: at most 400 days, at the same wall time."""
    found = {at for at in nominal if fits(at)}
    refused = [at.astimezone(zone).replace(tzinfo=None) for at in nominal if at not in found]
    by_date: dict[date, list[datetime]] = {}
    for wall in refused:
        by_date.setdefault(wall.date(), []).append(wall)
    on_their_way: dict[dtime, date] = {}
    day = min(by_date, default=last.date())
    while day <= last.date():
        for time, origin in list(on_their_way.items()):
            at = at_wall(datetime.combine(day, time), zone)
            if (day - origin).days > 400:
                del on_their_way[time]
            elif at is not None and fits(at):
                found.add(at)
                del on_their_way[time]
        for wall in by_date.get(day, []):
            on_their_way[wall.time()] = day
        day += A_DAY
    return found


@pytest.mark.parametrize("number", range(len(GATES)))
def test_calendars_leave_out_and_move_what_brute_force_does(number: int) -> None:
    gate = GATES[number]
    for turn, rule in enumerate(RULES, start=number):
        zone = ZONES[turn % len(ZONES)]
        fits = judge(zone, gate)
        plain = timetable(timezone=zone, **rule)
        skipping = timetable(CALENDARS, timezone=zone, **rule, **gate)
        moving = timetable(CALENDARS, timezone=zone, when_excluded="next_day", **rule, **gate)
        first, last = utc(SEASONS[0]) - timedelta(days=401), utc(SEASONS[-1]) + SEASON
        nominal = [tick.at for tick in plain.ticks(first, last, ANCHOR)]
        landed = landings(nominal, ZoneInfo(zone), fits, last)
        for season in SEASONS:
            start, end = utc(season), utc(season) + SEASON
            inside = [at for at in nominal if start < at < end]
            kept = [at for at in inside if fits(at)]
            assert [tick.at for tick in skipping.ticks(start, end, ANCHOR)] == kept, (rule, season)
            assert following(skipping.rule(ANCHOR), start, len(kept)) == kept
            fallen = [tick.at for tick in skipping.excluded(start, end, ANCHOR)]
            assert fallen == [at for at in inside if not fits(at)]
            expected = sorted(at for at in landed if start < at < end)
            assert following(moving.rule(ANCHOR), start, len(expected)) == expected, (rule, season)
            assert [tick.at for tick in moving.ticks(start, end, ANCHOR)] == expected


@pytest.mark.parametrize("when_excluded", ["skip", "next_day"])
def test_every_instant_of_a_timetable_is_found_from_any_instant_before_it(
    when_excluded: str,
) -> None:
    table = timetable(
        CALENDARS,
        cron="0,30 */2 * * *",
        timezone="Europe/Paris",
        exclude=["holidays", "freeze"],
        when_excluded=when_excluded,
    )
    start, end = utc("2026-03-27 00:00"), utc("2026-04-08 00:00")
    ticks = [tick.at for tick in table.ticks(start, end, ANCHOR)]
    for minutes in range(0, 11 * 24 * 60, 37):
        instant = start + timedelta(minutes=minutes)
        assert table.after(instant, ANCHOR) == next(at for at in ticks if at > instant)


def test_a_second_after_second_limited_to_mondays_is_not_searched_second_by_second() -> None:
    mondays = {"mondays": Calendar.of(windows=["mon"])}
    began = process_time()
    for when_excluded in ("skip", "next_day"):
        table = timetable(mondays, cron="* * * * * *", only="mondays", when_excluded=when_excluded)
        assert table.after(utc("2026-04-06 23:59:59"), ANCHOR) == utc("2026-04-13 00:00:00")
        assert table.after(utc("2026-04-08 12:00:00"), ANCHOR) == utc("2026-04-13 00:00:00")
    assert process_time() - began < 6


def test_what_is_never_allowed_is_never_and_said_soon() -> None:
    weekdays = {"daytime": Calendar.of(windows=["mon-fri 09:00-17:00"])}
    began = process_time()
    for rule in ({"cron": "0 20 * * *"}, {"cron": "* * * * * sun"}, {"at": "2026-04-05T10:00Z"}):
        table = timetable(weekdays, only="daytime", **rule)
        assert table.after(ANCHOR, ANCHOR) is None
    everything = {"everything": Calendar.of(windows=["mon-sun"])}
    for when_excluded in ("skip", "next_day"):
        table = timetable(everything, every="1s", exclude="everything", when_excluded=when_excluded)
        assert table.after(ANCHOR, ANCHOR) is None
    assert process_time() - began < 20


def test_a_rule_that_is_rare_by_itself_is_waited_for() -> None:
    table = timetable(CALENDARS, cron="0 12 29 2 */2", exclude="weekends")
    assert fires(table, "2026-01-01", 1) == ["2028-02-29 12:00"]
    leap = timetable(
        {"monday": Calendar.of(windows=["mon"])}, cron="0 12 29 2 *", only="monday", timezone="UTC"
    )
    assert fires(leap, "2073-01-01", 1) == ["2112-02-29 12:00"]


def test_a_fire_that_is_moved_onto_another_is_one_with_it() -> None:
    table = timetable(CALENDARS, cron="0 9 * * *", exclude=["weekends"], when_excluded="next_day")
    assert fires(table, "2026-04-10 00:00", 3) == [
        "2026-04-10 09:00",
        "2026-04-13 09:00",
        "2026-04-14 09:00",
    ]


def test_a_day_that_never_was_is_not_the_next_day() -> None:
    """Samoa went from 29 to 31 December 2011."""
    open_days = {"open": Calendar.of(dates=["2011-12-30", "2011-12-31"])}
    table = timetable(
        open_days,
        at="2011-12-28T13:00",
        timezone="Pacific/Apia",
        only="open",
        when_excluded="next_day",
    )
    for instant in ("2011-12-01 00:00", "2011-12-29 12:00", "2011-12-30 09:59"):
        assert fires(table, instant, 1) == ["2011-12-31 13:00"]


def test_a_fire_is_not_moved_over_the_end_nor_from_before_the_start() -> None:
    week = {"cron": "0 9 * * sat", "exclude": ["weekends"], "when_excluded": "next_day"}
    assert fires(timetable(CALENDARS, **week), "2026-04-10 00:00", 1) == ["2026-04-13 09:00"]
    ending = timetable(CALENDARS, **week, ends_at="2026-04-13T09:00Z")
    assert fires(ending, "2026-04-10 00:00", 1) == []
    [note] = [tick.note for tick in ending.excluded(utc("2026-04-10"), utc("2026-04-14"), ANCHOR)]
    assert note == (
        "excluded by calendar 'weekends': skipped, 2026-04-13 09:00 is after the schedule's end"
    )
    starting = timetable(CALENDARS, **week, starts_at="2026-04-12T00:00Z")
    assert fires(starting, "2026-04-10 00:00", 1) == ["2026-04-20 09:00"]


def test_the_notes_say_what_clocks_and_calendars_did() -> None:
    table = timetable(
        CALENDARS,
        cron="30 2 * * *",
        timezone="Europe/Paris",
        exclude=["holidays"],
        when_excluded="next_day",
    )
    noted = list(table.ticks(utc("2026-03-28 12:00"), utc("2026-04-04 12:00"), ANCHOR))
    assert [tick for tick in noted if tick.note] == [
        Tick(
            utc("2026-03-29 01:00"),
            "02:30 does not exist on 2026-03-29 in Europe/Paris: moved to 03:00",
        )
    ]
    yearly = timetable(
        CALENDARS, cron="0 9 25 12 *", exclude=["holidays"], when_excluded="next_day"
    )
    [planned] = yearly.preview(utc("2026-01-01"), 1, ANCHOR)
    assert planned.scheduled_at == planned.fire_at == utc("2026-12-27 09:00")
    assert planned.note == "moved from 2026-12-25 09:00: excluded by calendar 'holidays'"


def test_the_notes_of_what_was_left_out_name_the_calendars() -> None:
    def notes(**when: object) -> list[str | None]:
        table = timetable(CALENDARS, cron="0 9 * * *", **when)
        return [
            tick.note
            for tick in table.excluded(utc("2026-04-02 09:00"), utc("2026-04-05 09:00"), ANCHOR)
        ]

    assert notes(exclude=["holidays", "weekends"]) == [
        "excluded by calendar 'holidays'",
        "excluded by calendar 'weekends'",
    ]
    assert notes(only=["office"]) == ["outside calendar 'office'"]
    assert notes(exclude=["holidays", "weekends"], when_excluded="next_day") == [
        "excluded by calendar 'holidays': moved to 2026-04-07 09:00",
        "excluded by calendar 'weekends': moved to 2026-04-07 09:00",
    ]
    assert notes(only=["lunch"], when_excluded="next_day")[0] == (
        "outside calendar 'lunch': skipped, no day is allowed within 400 days"
    )
    assert list(timetable(cron="0 9 * * *").excluded(ANCHOR, utc("2030-01-01"), ANCHOR)) == []


# Anchors and bounds.


def test_a_million_intervals_share_one_timetable_each_with_its_own_anchor() -> None:
    table = timetable(every="1h")
    assert table.needs_anchor
    for minute in (0, 17, 59):
        anchor = ANCHOR + timedelta(minutes=minute)
        assert table.after(anchor, anchor) == anchor + timedelta(hours=1)
        [tick] = table.ticks(anchor, anchor + timedelta(hours=1), anchor)
        assert tick == Tick(anchor + timedelta(hours=1))


@pytest.mark.parametrize(
    ("when", "needed", "first"),
    [
        ({"every": "1h"}, True, "2026-01-01 01:00"),
        ({"every": "1h", "anchor": "2020-01-01T00:10Z"}, False, "2026-01-01 00:10"),
        ({"every": "1h", "starts_at": "2026-01-02T00:10Z"}, False, "2026-01-02 00:10"),
        ({"cron": "0 6 * * *"}, False, "2026-01-01 06:00"),
        ({"at": "2026-01-05T00:00Z"}, False, "2026-01-05 00:00"),
        ({"rrule": "FREQ=DAILY"}, True, "2026-01-02 00:00"),
        ({"rrule": "DTSTART:20250101T070000\nRRULE:FREQ=DAILY"}, False, "2026-01-01 07:00"),
        ({"rrule": "FREQ=DAILY", "starts_at": "2026-02-01T05:00Z"}, False, "2026-02-01 05:00"),
        ({"any": ["0 6 * * *", {"every": "5h"}]}, True, "2026-01-01 05:00"),
    ],
    ids=str,
)
def test_where_the_first_one_is(when: dict[str, object], needed: bool, first: str) -> None:
    table = timetable(**when)
    assert table.needs_anchor is needed
    assert table.after(ANCHOR, ANCHOR) == utc(first)


def test_bounds_hold_for_every_kind_of_rule() -> None:
    bounds = {"starts_at": "2026-02-01T00:00Z", "ends_at": "2026-02-02T00:00Z"}
    for when in ({"cron": "0 * * * *"}, {"every": "1h"}, {"rrule": "FREQ=HOURLY"}):
        table = timetable(**when, **bounds)
        found = [tick.at for tick in table.ticks(utc("2025-01-01"), utc("2027-01-01"), ANCHOR)]
        assert found == [utc("2026-02-01") + timedelta(hours=hour) for hour in range(24)]
        assert table.count(utc("2025-01-01"), utc("2027-01-01"), ANCHOR) == 24


@pytest.mark.parametrize("when", [{"every": "1s"}, {"cron": "* * * * * *"}], ids=str)
def test_counting_gives_up_at_the_cap(when: dict[str, object]) -> None:
    table = timetable(**when)
    assert table.count(ANCHOR, ANCHOR + A_DAY, ANCHOR, cap=500) == 500
    assert table.count(ANCHOR, ANCHOR + timedelta(seconds=7.5), ANCHOR) == 7


# Jitter.


def test_jittered_fires_keep_their_order_and_can_be_recomputed() -> None:
    table = timetable(cron="*/5 * * * *", jitter="1h")
    assert table.has_jitter
    planned = table.preview(ANCHOR, 200, ANCHOR, seed=41)
    fire_ats = [each.fire_at for each in planned]
    assert fire_ats == sorted(set(fire_ats))
    for each in planned:
        assert timedelta() <= each.fire_at - each.scheduled_at < timedelta(minutes=5)
        assert table.fire_at(each.scheduled_at, ANCHOR, 41) == each.fire_at
        assert table.fire_at(each.scheduled_at, ANCHOR, 42) != each.fire_at


def test_fixed_jitter_moves_all_alike() -> None:
    table = timetable(every="1h", jitter="10m", jitter_kind="fixed")
    planned = table.preview(ANCHOR, 5, ANCHOR, seed=7)
    assert len({each.fire_at - each.scheduled_at for each in planned}) == 1


def test_without_jitter_a_fire_is_at_its_instant() -> None:
    table = timetable(every="1h")
    assert not table.has_jitter
    assert table.fire_at(ANCHOR, ANCHOR, 7) is ANCHOR


# Compiling.


def test_a_calendar_in_another_version_is_another() -> None:
    definition = Definition.of(cron="0 9 * * *", exclude="holidays").pinned({"holidays": 3})
    with pytest.raises(InvalidSchedule, match="calendar 'holidays', version 3, does not exist"):
        Timetable.compile(definition)


def test_a_stored_definition_without_sense_is_refused_not_fired() -> None:
    for text in (
        '{"timezone":"UTC"}',
        '{"cron":"0 0 31 2 *"}',
        '{"cron":"0 6 * * *","timezone":"X"}',
    ):
        with pytest.raises(InvalidSchedule):
            Timetable.compile(Definition.from_json(text))


def calls(function: Callable[..., object], *arguments: object) -> int:
    """How many Python functions are called for an answer."""
    found = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal found
        found += event == "call"

    sys.setprofile(count)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return found


def test_nothing_stands_between_a_plain_definition_and_its_rule() -> None:
    """Counted, not timed: the hot path is one call more than the rule's own answer."""
    cron = timetable(cron="30 6 * * *", timezone="Europe/Paris")
    own = Zoned(parse_cron("30 6 * * *"), "Europe/Paris", "default")
    for warm in (1, 2):
        bare, shell = calls(own.after, ANCHOR), calls(cron.after, ANCHOR, ANCHOR)
        assert warm == 1 or shell == bare + 1
    every = timetable(every=90)
    assert calls(every.after, ANCHOR, ANCHOR) <= calls(Interval(90, ANCHOR).after, ANCHOR)


@pytest.mark.parametrize(
    "when",
    [
        {"at": "2026-03-01T12:05:00Z"},
        {"cron": "5 12 * * *", "ends_at": "2026-03-02T00:00:00Z"},
        {"rrule": "DTSTART:20260220T120500Z\nRRULE:FREQ=DAILY;COUNT=10"},
    ],
)
@pytest.mark.parametrize("minutes", [10, 60])
def test_a_rule_that_is_over_is_over_however_often_the_calendars_open(
    when: dict[str, Any], minutes: int
) -> None:
    """What may still land from before is looked for, and not for so long that it is refused."""
    times = [divmod(at, 60) for at in range(0, 1440, minutes)]
    brief = ",".join(f"{hour:02}:{minute:02}-{hour:02}:{minute + 9:02}" for hour, minute in times)
    table = timetable(
        {"open": Calendar.of(windows=[brief])}, only=["open"], when_excluded="next_day", **when
    )
    last = utc("2026-03-01 12:05")
    assert table.after(last - timedelta(minutes=1), ANCHOR) == last
    assert table.after(last, ANCHOR) is None
