"""Cron in time zones against a brute force over every minute, in every zone that changes."""

from bisect import bisect_right
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo, available_timezones

import pytest

from sexton.domain.when.cron import parse_cron
from sexton.domain.when.zone import Dst, Zoned
from sexton.errors import InvalidSchedule

from . import oracle
from .oracle import EVERY_MINUTE, EVERY_SECOND, Pattern, Walk

CHOICES: tuple[Dst, ...] = ("default", "skip", "shift", "first", "both")
HOUR = 3600
QUARTER = timedelta(minutes=15)
AREAS = defaultdict(list)
for _name in sorted(available_timezones() - {"localtime", "Factory"}):
    AREAS[_name.partition("/")[0] if "/" in _name else "others"].append(_name)

# Zones and instants where something unusual happens.
REMARKABLE = [
    ("America/Santiago", "2026-09-06T04:00"),  # 24:00 to 01:00: midnight does not exist
    ("America/Santiago", "2026-04-05T03:00"),  # 24:00 back to 23:00
    ("Asia/Beirut", "2026-03-28T22:00"),  # midnight does not exist
    ("Asia/Beirut", "2026-10-24T21:00"),
    ("America/Sao_Paulo", "2017-10-15T03:00"),
    ("Africa/Cairo", "2026-04-23T22:00"),
    ("America/Havana", "2026-03-08T05:00"),
    ("America/Havana", "2026-11-01T05:00"),
    ("Australia/Lord_Howe", "2026-10-03T15:30"),  # half an hour
    ("Australia/Lord_Howe", "2026-04-04T15:00"),
    ("Pacific/Apia", "2011-12-30T10:00"),  # a whole day is missing
    ("Pacific/Kwajalein", "1993-08-21T12:00"),
    ("America/Caracas", "2007-12-09T07:00"),  # half an hour, for good
    ("Asia/Pyongyang", "2018-05-04T15:00"),
    ("Asia/Kathmandu", "1985-12-31T18:30"),  # a quarter
    ("Antarctica/Troll", "2026-03-29T01:00"),  # two hours
    ("Antarctica/Troll", "2026-10-25T01:00"),
    ("Antarctica/Casey", "2020-10-03T16:00"),  # three
    ("Africa/Casablanca", "2026-02-15T02:00"),
    ("Asia/Gaza", "2040-10-20T00:00"),  # two changes within a week or so
    ("Europe/Dublin", "2026-10-25T01:00"),  # winter is the exception there
    ("America/Nuuk", "2023-03-25T22:00"),
    ("America/New_York", "2026-03-08T07:00"),
    ("America/New_York", "2026-11-01T06:00"),
]


def epoch(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def agree(zoned: Zoned, expected: list[int], instants: list[int]) -> int:
    """Compare the next fire after each instant, as far as the expected ones reach."""
    compared = 0
    for instant in instants:
        index = bisect_right(expected, instant)
        if index < len(expected):
            found = zoned.after_epoch(instant)
            assert found == expected[index], (
                f"{zoned!r} after {instant}: {found} is not {expected[index]}"
            )
            compared += 1
    return compared


@pytest.mark.parametrize("area", AREAS)
def test_every_change_of_every_zone_from_2020_to_2037(area: str) -> None:
    random = Random(area)
    # At the quarters of an hour, as nearly all changes of clocks are: nothing is missed.
    patterns = [oracle.pattern(random, minute_step=15) for _ in range(100)]
    patterns = [pattern for pattern in patterns if not pattern.never()]
    nightly = [_nightly(random) for _ in range(100)]
    compared = changes = 0
    for name in AREAS[area]:
        zone = ZoneInfo(name)
        step = EVERY_MINUTE if name == "Antarctica/Casey" else QUARTER  # it changed at 00:01
        for noon in oracle.days_of_change(zone, 2020, 2037):
            changes += 1
            walked = Walk(zone, noon - 6 * HOUR, noon + 30 * HOUR, step)
            for pattern in (random.choice(patterns), random.choice(nightly)):
                dst = random.choice(CHOICES)
                expected = walked.fires(pattern, dst)
                zoned = Zoned(parse_cron(pattern.text), name, dst)
                instants = random.sample(expected, min(8, len(expected)))
                instants += [random.randrange(noon, noon + 24 * HOUR) for _ in range(6)]
                compared += agree(zoned, expected, instants)
    assert compared >= 6 * changes


def _nightly(random: Random) -> Pattern:
    """At the hours when clocks are changed."""
    minutes = random.sample(range(0, 60, 15), random.randint(1, 3))
    hours = random.sample([22, 23, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4], random.randint(1, 3))
    text = f"{','.join(map(str, minutes))} {','.join(map(str, hours))} * * *"
    return Pattern(text, set(minutes), set(hours), lambda day: True)


@pytest.mark.parametrize(("name", "around"), REMARKABLE)
def test_every_minute_around_a_remarkable_change(name: str, around: str) -> None:
    random = Random(name + around)
    zone, middle = ZoneInfo(name), epoch(around)
    before, after = (
        datetime.fromtimestamp(middle - HOUR, zone),
        datetime.fromtimestamp(middle, zone),
    )
    walked = Walk(zone, middle - 48 * HOUR, middle + 48 * HOUR)
    patterns = [
        Pattern(
            f"{minute} {hour} * * *",
            {minute},
            {hour},
            lambda day: True,
        )
        for minute, hour in [(before.minute, before.hour), (30, after.hour), (15, 0)]
    ]
    hours = {before.hour, (before.hour + 1) % 24, after.hour}
    text = f"5,35 {','.join(map(str, sorted(hours)))} * * *"
    patterns.append(Pattern(text, {5, 35}, hours, lambda day: True))
    patterns += [pattern for _ in range(2) if not (pattern := oracle.pattern(random)).never()]
    minutes = list(range(middle - 12 * HOUR, middle + 12 * HOUR, 60))
    for pattern in patterns:
        for dst in random.sample(CHOICES, 3):
            expected = walked.fires(pattern, dst)
            agree(Zoned(parse_cron(pattern.text), name, dst), expected, minutes)


@pytest.mark.parametrize("seed", range(16))
def test_random_expressions_over_four_weeks_of_minutes(seed: int) -> None:
    random = Random(seed)
    names = [name for area in AREAS.values() for name in area]
    name = random.choice([random.choice(names), random.choice(REMARKABLE)[0]])
    start = epoch("2020-01-01T00:00") + random.randrange(17 * 365) * 24 * HOUR
    end = start + 28 * 24 * HOUR
    walked = Walk(ZoneInfo(name), start - 60 * HOUR, end)
    compared = 0
    for _ in range(8):
        pattern, dst = oracle.pattern(random), random.choice(CHOICES)
        if pattern.never():
            continue
        zoned = Zoned(parse_cron(pattern.text), name, dst)
        expected = [fire for fire in walked.fires(pattern, dst) if fire > start]
        instants = [start, *expected[:300]]
        instants += [random.randrange(start, end) for _ in range(100)]
        compared += agree(zoned, expected, instants)
        between = zoned.between(
            datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end - 1, UTC)
        )
        assert [int(tick.at.timestamp()) for tick in between] == expected
    assert compared


@pytest.mark.parametrize("name", ["Europe/Paris", "Australia/Lord_Howe", "America/Santiago", "UTC"])
@pytest.mark.parametrize("half", [1, 7])
def test_every_second_around_a_change(name: str, half: int) -> None:
    random = Random(f"{name} {half}")
    zone = ZoneInfo(name)
    noons = oracle.days_of_change(zone, 2026, 2026) or [epoch("2026-05-01T12:00")]
    noon = noons[half % len(noons)]
    walked = Walk(zone, noon - HOUR, noon + 24 * HOUR, EVERY_SECOND)
    for _ in range(3):
        seconds_text, seconds = oracle.values(random, 0, 59)
        minutes_text, minutes = oracle.values(random, 0, 59)
        hours = {22, 23, 0, 1, 2, 3, 4}
        pattern = Pattern(
            f"{seconds_text} {minutes_text} 22-23,0-4 * * *",
            minutes,
            hours,
            lambda day: True,
            seconds,
            elapsed="*" in (seconds_text[0], minutes_text[0]),
        )
        dst = random.choice(CHOICES)
        expected = walked.fires(pattern, dst)
        instants = [random.randrange(noon, noon + 24 * HOUR) for _ in range(2000)]
        agree(Zoned(parse_cron(pattern.text), name, dst), expected, [*instants, *expected[:1000]])


@pytest.mark.parametrize("seed", range(4))
def test_days_over_half_a_century(seed: int) -> None:
    random = Random(f"days {seed}")
    first, last = date(1999, 12, 31), date(2051, 1, 1)
    compared = 0
    for _ in range(15):
        text, day = oracle.days(random, special=True)
        calendar = [first + timedelta(i) for i in range((last - first).days)]
        expected = [each for each in calendar if day(each)]
        try:
            cron = parse_cron(f"0 12 {text}")
        except InvalidSchedule:
            assert not expected, text
            continue
        found = []
        for wall in cron.walls(datetime.combine(first, datetime.min.time())):
            if wall.date() >= last:
                break
            found.append(wall.date())
        assert found == expected, text
        compared += len(found)
    assert compared > 1000
