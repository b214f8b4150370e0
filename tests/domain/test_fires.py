"""What becomes of a schedule that is behind, against one that is looked at fire by fire."""

from datetime import datetime, timedelta
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.domain.fires import (
    COUNT_TO,
    FEW,
    CatchUp,
    Gap,
    catch_up,
    closed_between,
    excluded_between,
    latest_until,
)
from sexton.domain.policy import Policy
from sexton.domain.schedule import Rule
from sexton.domain.when import Calendar, Timetable

from .when.instants import ANCHOR, timetable, utc

SECOND, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)
MOMENT = timedelta(microseconds=1)
CALENDARS = {
    "nights": Calendar.of(windows=["20:00-06:00"]),
    "weekends": Calendar.of(windows=["sat,sun"]),
}
WHENS: list[dict[str, Any]] = [
    {"cron": "* * * * *"},
    {"cron": "*/7 3-5,9 * * *"},
    {"cron": "30 2 * * *", "timezone": "Europe/Paris"},
    {"cron": "0 6 * * mon"},
    {"every": 900},
    {"every": 900, "anchor": "2026-01-01T00:00:07Z"},
    {"at": "2026-03-01T12:00:00Z"},
    {"any": ["*/10 8 * * *", "*/15 * * * *", {"at": "2026-03-01T12:00:01Z"}]},
    {"cron": "*/5 * * * *", "ends_at": "2026-02-27T07:12:00Z"},
    {"cron": "0 * * * *", "exclude": ["nights"]},
    {"cron": "20 1,13 * * *", "exclude": ["weekends"], "when_excluded": "next_day"},
    {"rrule": "FREQ=DAILY;BYHOUR=4,16;BYMINUTE=0;BYSECOND=0"},
]
TABLES = [
    timetable({name: CALENDARS[name] for name in when.get("exclude", ())}, **when) for when in WHENS
]


def rule(table: Timetable, **policy: Any) -> Rule:
    return Rule(table, Policy.of(**policy))


def every_second(**policy: Any) -> Rule:
    return rule(timetable(cron="* * * * * *"), **policy)


def walk(table: Timetable, first: datetime, until: datetime) -> list[datetime]:
    """Each fire from the first on, one at a time."""
    found = [first]
    while (at := table.after(found[-1], ANCHOR)) is not None and at <= until:
        found.append(at)
    return found


@st.composite
def outages(draw: st.DrawFn) -> tuple[Timetable, list[datetime], datetime]:
    """A timetable, its fires since it fell behind, and now."""
    table = draw(st.sampled_from(TABLES))
    begins = draw(st.datetimes(datetime(2026, 2, 26), datetime(2026, 2, 28, 12)))  # noqa: DTZ001
    first = table.after(begins.replace(tzinfo=ANCHOR.tzinfo), ANCHOR)
    if first is None:
        first = table.after(ANCHOR, ANCHOR)
    assert first is not None
    now = first + draw(st.timedeltas(timedelta(0), timedelta(days=3)))
    return table, walk(table, first, now), now


@settings(max_examples=400, deadline=None)
@given(
    outages(),
    st.sampled_from(["latest", "skip", "all"]),
    st.sampled_from([0.0, 1.0, 600.0, 3600.0, 10_000.0, 86_400.0, 864_000.0]),
)
def test_every_fire_of_an_outage_gets_one_decision_and_the_right_one(
    outage: tuple[Timetable, list[datetime], datetime], misfire: str, grace: float
) -> None:
    table, fires, now = outage
    decided: dict[datetime, str] = {}
    behind: datetime | None = fires[0]
    late = rule(table, misfire=misfire, grace=grace)
    while behind is not None and behind <= now:
        answer = catch_up(late, behind, now, ANCHOR)
        for gap in answer.gaps:
            if gap.decision == "excluded":
                continue
            passed = [each for each in fires if gap.first <= each <= gap.last]
            assert passed[0] == gap.first
            assert passed[-1] == gap.last
            assert gap.fires == (len(passed) if len(passed) <= COUNT_TO else None)
            for each in passed:
                assert each not in decided
                decided[each] = gap.decision
        if answer.fire is not None:
            assert answer.fire not in decided
            decided[answer.fire] = "fired"
        assert answer.next is None or answer.next > behind
        behind = answer.next
    assert sorted(decided) == fires
    young = [each for each in fires if each >= now - timedelta(seconds=grace)]
    match misfire:
        case "all":
            wanted = dict.fromkeys(young, "fired")
        case "latest":
            wanted = dict.fromkeys(young, "coalesced") | dict.fromkeys(young[-1:], "fired")
        case _:
            wanted = {}
    assert decided == dict.fromkeys(fires, "missed") | wanted


@settings(max_examples=300, deadline=None)
@given(outages(), st.integers(0, 10**6))
def test_the_latest_fire_is_the_last_of_all_of_them(
    outage: tuple[Timetable, list[datetime], datetime], pick: int
) -> None:
    table, fires, now = outage
    known = fires[pick % len(fires)]
    assert latest_until(table, now, known, ANCHOR) == fires[-1]


def test_one_fire_makes_up_for_the_whole_gap_and_the_rest_is_coalesced() -> None:
    behind = utc("2026-03-01 10:00:00")
    answer = catch_up(every_second(), behind, behind + 100.5 * SECOND, ANCHOR)
    assert answer == CatchUp(
        behind + 100 * SECOND,
        behind + 101 * SECOND,
        (Gap(behind, behind + 99 * SECOND, 100, "coalesced"),),
    )


def test_what_is_older_than_the_grace_is_missed_and_the_others_come_in_order() -> None:
    behind = utc("2026-03-01 10:00:00")
    late = every_second(misfire="all", grace=10)
    answer = catch_up(late, behind, behind + 100 * SECOND, ANCHOR)
    missed = Gap(behind, behind + 89 * SECOND, 90, "missed")
    assert answer == CatchUp(behind + 90 * SECOND, behind + 91 * SECOND, (missed,))


def test_a_fire_exactly_as_old_as_the_grace_is_still_made() -> None:
    behind = utc("2026-03-01 10:00:00")
    once = rule(timetable(cron="0 10 * * *"), grace="1h")
    assert catch_up(once, behind, behind + HOUR, ANCHOR).fire == behind
    assert catch_up(once, behind, behind + HOUR + MOMENT, ANCHOR).fire is None


def test_a_one_shot_that_was_missed_is_over_and_recorded() -> None:
    at = utc("2026-03-01 10:00:00")
    once = timetable(at=at)
    assert catch_up(rule(once), at, at + HOUR / 2, ANCHOR) == CatchUp(at, None, ())
    missed = CatchUp(None, None, (Gap(at, at, 1, "missed"),))
    assert catch_up(rule(once), at, at + 2 * HOUR, ANCHOR) == missed
    assert catch_up(rule(once, misfire="skip"), at, at + SECOND, ANCHOR) == missed


def test_too_many_to_count_are_not_counted() -> None:
    behind = utc("2026-03-01 10:00:00")
    answer = catch_up(every_second(misfire="skip"), behind, behind + DAY, ANCHOR)
    assert answer.gaps == (Gap(behind, behind + DAY, None, "missed"),)


def fires_of(late: Rule, first: datetime, now: datetime, seed: int) -> list[datetime]:
    """Each that its jitter lets come by now, one at a time."""
    found, at = [], first
    while (fire_at := late.timetable.fire_at(at, ANCHOR, seed)) <= now:
        found.append(fire_at)
        following = late.timetable.after(at, ANCHOR)
        if following is None:
            break
        at = following
    return found


def seed_with(late: Rule, at: datetime, least: timedelta, most: timedelta) -> int:
    """A schedule whose fire of this instant is held up by so much."""
    return next(
        seed
        for seed in range(10_000)
        if least <= late.timetable.fire_at(at, ANCHOR, seed) - at <= most
    )


def test_what_jitter_still_holds_back_is_not_passed_over() -> None:
    """The fire of 10:40 may come until 10:50: at 10:45 it depends on the schedule."""
    late = rule(timetable(cron="*/10 * * * *", jitter="10m"), misfire="skip")
    behind, minute = utc("2026-03-01 10:00:00"), 60 * SECOND
    last = behind + 40 * minute
    held_up = seed_with(late, last, 6 * minute, 10 * minute)
    answer = catch_up(late, behind, behind + 45 * minute, ANCHOR, held_up)
    assert answer.fire is None
    assert answer.gaps == (Gap(behind, behind + 30 * minute, 4, "missed"),)
    assert answer.next == last
    at_once = seed_with(late, last, 0 * minute, 4 * minute)
    answer = catch_up(late, behind, behind + 45 * minute, ANCHOR, at_once)
    assert answer.gaps == (Gap(behind, last, 5, "missed"),)


def test_grace_counts_from_the_fire_and_not_from_before_its_jitter() -> None:
    """Due at 06:58 by its jitter and found at 07:08, a fire is ten minutes late, not 68."""
    late = rule(timetable(cron="0 6 * * *", jitter="1h"))
    at = utc("2026-01-05 06:00")
    seed = seed_with(late, at, timedelta(minutes=50), HOUR)
    fire_at = late.timetable.fire_at(at, ANCHOR, seed)
    assert catch_up(late, at, fire_at + timedelta(minutes=10), ANCHOR, seed).fire == at
    assert catch_up(late, at, fire_at + HOUR, ANCHOR, seed).fire == at
    assert catch_up(late, at, fire_at + HOUR + MOMENT, ANCHOR, seed).fire is None


def test_jitter_is_no_excuse_for_making_what_the_policy_skips() -> None:
    """Within its three hours of jitter, but two hours after its own fire."""
    for policy in ({"misfire": "skip"}, {"misfire": "latest", "grace": "1m"}):
        late = rule(timetable(cron="0 6 * * *", jitter="3h"), **policy)
        at = utc("2026-01-05 06:00")
        seed = seed_with(late, at, timedelta(0), timedelta(minutes=5))
        now = late.timetable.fire_at(at, ANCHOR, seed) + 2 * HOUR
        answer = catch_up(late, at, now, ANCHOR, seed)
        assert answer.fire is None
        assert answer.gaps == (Gap(at, at, 1, "missed"),)


@pytest.mark.parametrize("kind", ["random", "fixed"])
def test_one_fire_stands_for_an_outage_however_long_the_jitter(kind: str) -> None:
    """An hour's outage of every minute with ten minutes of jitter: one fire, and not ten."""
    late = rule(timetable(every="1m", jitter="10m", jitter_kind=kind))
    now = ANCHOR + HOUR
    for seed in range(50):
        behind: datetime | None = ANCHOR + timedelta(minutes=1)
        made = []
        while behind and late.timetable.fire_at(behind, ANCHOR, seed) <= now:
            answer = catch_up(late, behind, now, ANCHOR, seed)
            made += [] if answer.fire is None else [answer.fire]
            behind = answer.next
        assert len(made) == 1
        due = fires_of(late, ANCHOR + timedelta(minutes=1), now, seed)
        assert late.timetable.fire_at(made[0], ANCHOR, seed) == due[-1]


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(
        [
            {"every": 60, "jitter": 600},
            {"cron": "*/7 3-5,9 * * *", "jitter": 3000},
            {"cron": "*/5 * * * *", "jitter": 900, "jitter_kind": "fixed"},
            {"cron": "0 6 * * *", "jitter": 7200},
        ]
    ),
    st.sampled_from(["latest", "skip", "all"]),
    st.sampled_from([0.0, 60.0, 3600.0, 86_400.0]),
    st.integers(0, 1000),
    st.integers(0, 100_000),
)
def test_every_fire_of_an_outage_with_jitter_gets_the_right_decision(
    when: dict[str, Any], misfire: str, grace: float, seed: int, seconds: int
) -> None:
    late = rule(timetable(**when), misfire=misfire, grace=grace)
    table = late.timetable
    first = table.after(ANCHOR, ANCHOR)
    assert first is not None
    now = table.fire_at(first, ANCHOR, seed) + timedelta(seconds=seconds)
    due = fires_of(late, first, now, seed)
    decided: dict[datetime, str] = {}
    behind: datetime | None = first
    while behind is not None and table.fire_at(behind, ANCHOR, seed) <= now:
        answer = catch_up(late, behind, now, ANCHOR, seed)
        for gap in answer.gaps:
            for tick in table.ticks(gap.first - MOMENT, gap.last, ANCHOR):
                decided[table.fire_at(tick.at, ANCHOR, seed)] = gap.decision
        if answer.fire is not None:
            decided[table.fire_at(answer.fire, ANCHOR, seed)] = "fired"
        behind = answer.next
    young = [each for each in due if each >= now - timedelta(seconds=grace)]
    wanted = dict.fromkeys(due, "missed")
    if misfire == "all":
        wanted |= dict.fromkeys(young, "fired")
    elif misfire == "latest":
        wanted |= dict.fromkeys(young, "coalesced") | dict.fromkeys(young[-1:], "fired")
    assert decided == wanted


YEARS_OF_SECONDS = {
    "without an end": timetable(cron="* * * * * *"),
    "that ended long ago": timetable(cron="* * * * * *", ends_at="2024-06-01T00:00:00Z"),
    "as an interval": timetable(every=0.1),
    "of one hour a day": timetable(cron="* * 9 * * *", timezone="Asia/Tokyo"),
    "of one month a year": timetable(cron="* * * * 2 *"),
}


@pytest.mark.parametrize("name", YEARS_OF_SECONDS)
@pytest.mark.parametrize("misfire", ["latest", "skip", "all"])
def test_years_of_seconds_are_caught_up_in_no_time(name: str, misfire: str) -> None:
    table = YEARS_OF_SECONDS[name]
    behind = table.after(utc("2022-01-01 00:00"), utc("2022-01-01 00:00"))
    assert behind is not None
    late = rule(table, misfire=misfire, grace="1w")
    began = process_time()
    answer = catch_up(late, behind, utc("2026-11-15 12:00"), utc("2022-01-01 00:00"))
    assert process_time() - began < 5
    assert answer.gaps
    assert answer.gaps[0].first == behind


def test_what_the_calendars_took_out_is_a_gap_between_two_fires() -> None:
    table = timetable({"nights": CALENDARS["nights"]}, cron="*/30 * * * *", exclude=["nights"])
    last = utc("2026-03-01 19:30")
    following = table.after(last, ANCHOR)
    assert following == utc("2026-03-02 06:00")
    gap = excluded_between(table, last, following, ANCHOR)
    assert gap == Gap(utc("2026-03-01 20:00"), utc("2026-03-02 05:30"), 20, "excluded")
    assert excluded_between(table, following, following + HOUR / 2, ANCHOR) is None
    assert excluded_between(table, last, None, ANCHOR) is None


def test_a_gap_of_more_than_anyone_counts_reaches_to_the_next_fire() -> None:
    table = timetable({"nights": CALENDARS["nights"]}, cron="* * * * * *", exclude=["nights"])
    last = utc("2026-03-01 19:59:59")
    following = table.after(last, ANCHOR)
    assert following == utc("2026-03-02 06:00")
    gap = excluded_between(table, last, following, ANCHOR)
    assert gap == Gap(utc("2026-03-01 20:00"), following - MOMENT, None, "excluded")


@pytest.mark.parametrize("when_excluded", ["skip", "next_day"])
@pytest.mark.parametrize(
    "when",
    [
        {"every": 10},
        {"every": 10, "starts_at": "2026-01-01T00:00:03Z"},
        {"cron": "*/20 * * * *"},
        {"cron": "*/30 2-21 * * *", "ends_at": "2026-03-09T00:00:00Z"},
        {"any": ["0 * * * *", {"every": 3601}]},
    ],
)
def test_what_lies_between_two_fires_is_what_the_calendars_took_out(
    when: dict[str, Any], when_excluded: str
) -> None:
    """The quick answer against going through what was refused, one by one."""
    nights = {"nights": CALENDARS["nights"]}
    table = timetable(nights, exclude=["nights"], when_excluded=when_excluded, **when)
    at = utc("2026-03-01 19:00")
    for tried in range(50):
        following = table.after(at, ANCHOR)
        if following is None:
            assert tried > 10
            break
        refused = [tick.at for tick in table.excluded(at, following, ANCHOR)]
        gap = closed_between(table, at, following, ANCHOR)
        if not refused:
            assert gap is None
        else:
            assert gap is not None
            assert gap.first == refused[0]
            if gap.fires is None:
                assert len(refused) > FEW
                assert refused[-1] <= gap.last < following
            else:
                assert (gap.last, gap.fires) == (refused[-1], len(refused))
        at = following if refused else at + (following - at) * 7


def test_closing_time_of_thousands_of_schedules_takes_no_time_at_all() -> None:
    """2,000 intervals, each with an anchor of its own, that a calendar takes 5,400 fires from."""
    hours = Calendar.of(windows=["mon-fri 09:00-17:00"])
    table = timetable({"hours": hours}, every=10, only=["hours"])
    closing = utc("2026-03-02 16:59:50")
    began = process_time()
    for n in range(2000):
        anchor = ANCHOR + n * timedelta(milliseconds=4)
        gap = closed_between(table, closing + (anchor - ANCHOR), closing + 16 * HOUR, anchor)
        assert gap is not None
        assert gap.fires is not None
        assert gap.fires > 5000
    assert process_time() - began < 5
