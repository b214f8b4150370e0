"""The same answers as cronsim, which follows Debian's cron, wherever the two mean the same."""

from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from sexton.domain.when.cron import parse_cron
from sexton.domain.when.zone import Zoned

from . import oracle

ZONES = [
    "America/New_York",
    "America/Santiago",
    "Asia/Beirut",
    "Asia/Tokyo",
    "Australia/Lord_Howe",
    "Europe/Paris",
    "Pacific/Apia",
]
START = datetime(2020, 1, 1, tzinfo=UTC)


def shared(random: Random, wild: bool) -> str:
    """An expression that both understand in the same way."""
    while True:
        pattern = oracle.pattern(random, wild=wild, special=False)
        over_the_weekend = pattern.text.split()[-1][0].isalpha()  # a range that cronsim refuses
        all_hours_in_a_list = pattern.elapsed and not wild  # wall time to cronsim
        if not (pattern.never() or over_the_weekend or all_hours_in_a_list):
            return pattern.text


@pytest.mark.parametrize("name", ZONES)
def test_times_of_day_in_a_zone(name: str) -> None:
    random, zone = Random(name), ZoneInfo(name)
    compared = 0
    for _ in range(60):
        text = shared(random, wild=False)
        zoned = Zoned(parse_cron(text), name)
        for _ in range(10):
            instant = START + timedelta(seconds=random.randrange(17 * 365 * 86400))
            expected = next(CronSim(text, instant.astimezone(zone))).astimezone(UTC)
            if expected > instant:  # in the second of two hours it may go back to the first
                assert zoned.after(instant) == expected, f"{text} after {instant}"
                compared += 1
    assert compared > 500


@pytest.mark.parametrize("seed", range(4))
def test_every_pattern_without_a_zone(seed: int) -> None:
    random = Random(f"cronsim {seed}")
    for _ in range(50):
        text = shared(random, wild=True)
        zoned = Zoned(parse_cron(text), "UTC")
        instant = START + timedelta(seconds=random.randrange(17 * 365 * 86400))
        ours, theirs = instant, CronSim(text, instant)
        for _ in range(10):
            following = zoned.after(ours)
            assert following == next(theirs), f"{text} after {ours}"
            ours = following
