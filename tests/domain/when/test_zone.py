"""Instants from the face of a clock: every choice at every kind of change, in words too."""

import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from itertools import islice, pairwise
from pathlib import Path
from time import process_time
from zoneinfo import TZPATH, ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.domain.when import offsets, zone
from sexton.domain.when.cron import Cron, parse_cron
from sexton.domain.when.zone import Dst, Zoned, zone_named
from sexton.errors import InvalidSchedule

from .oracle import Pattern, Walk

DAY = 86_400


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def local(text: str, zone: str, dst: Dst, start: str, count: int) -> list[str]:
    """The next fires as the wall there shows them, with their offsets."""
    zoned = Zoned(parse_cron(text), zone, dst)
    ticks = zoned.between(instant(start), instant(start) + timedelta(days=400))
    return [f"{tick.at.astimezone(zoned.zone):%d %H:%M%z}" for tick in islice(ticks, count)]


def notes(text: str, zone: str, dst: Dst, start: str, days: int) -> list[str]:
    ticks = Zoned(parse_cron(text), zone, dst).between(
        instant(start), instant(start) + timedelta(days)
    )
    return [tick.note for tick in ticks if tick.note]


@pytest.mark.parametrize(
    ("dst", "expected"),
    [
        ("default", ["28 02:30+0100", "29 03:00+0200", "30 02:30+0200"]),
        ("first", ["28 02:30+0100", "29 03:00+0200", "30 02:30+0200"]),
        ("both", ["28 02:30+0100", "29 03:00+0200", "30 02:30+0200"]),
        ("skip", ["28 02:30+0100", "30 02:30+0200", "31 02:30+0200"]),
        ("shift", ["28 02:30+0100", "29 03:30+0200", "30 02:30+0200"]),
    ],
)
def test_a_time_in_the_gap(dst: Dst, expected: list[str]) -> None:
    assert local("30 2 * * *", "Europe/Paris", dst, "2026-03-27T12:00", 3) == expected


@pytest.mark.parametrize(
    ("dst", "expected"),
    [
        ("default", ["25 02:30+0200", "26 02:30+0100"]),
        ("first", ["25 02:30+0200", "26 02:30+0100"]),
        ("skip", ["25 02:30+0200", "26 02:30+0100"]),
        ("shift", ["25 02:30+0200", "26 02:30+0100"]),
        ("both", ["25 02:30+0200", "25 02:30+0100", "26 02:30+0100"]),
    ],
)
def test_a_time_that_comes_twice(dst: Dst, expected: list[str]) -> None:
    assert local("30 2 * * *", "Europe/Paris", dst, "2026-10-24T12:00", len(expected)) == expected


@pytest.mark.parametrize(
    ("text", "dst", "expected"),
    [
        # Several in one gap fire once, together, and with a regular fire at its end.
        ("0,20,40 2 * * *", "default", ["29 03:00+0200", "30 02:00+0200"]),
        ("0,30 2-3 * * *", "default", ["29 03:00+0200", "29 03:30+0200", "30 02:00+0200"]),
        ("0,30 2-3 * * *", "skip", ["29 03:00+0200", "29 03:30+0200", "30 02:00+0200"]),
        ("20,40 2 * * *", "shift", ["29 03:20+0200", "29 03:40+0200", "30 02:20+0200"]),
        # Shifted ones mix with regular ones, in order, and one that meets another is one.
        ("20 2,3 * * *", "shift", ["29 03:20+0200", "30 02:20+0200"]),
        ("15,45 2,3 * * *", "shift", ["29 03:15+0200", "29 03:45+0200", "30 02:15+0200"]),
    ],
)
def test_several_times_in_one_gap(text: str, dst: Dst, expected: list[str]) -> None:
    start = "2026-03-28T12:00"
    assert local(text, "Europe/Paris", dst, start, len(expected)) == expected


@pytest.mark.parametrize("dst", ["default", "skip", "shift", "first", "both"])
def test_patterns_below_an_hour_follow_elapsed_time(dst: Dst) -> None:
    spring = local("*/30 * * * *", "Europe/Paris", dst, "2026-03-29T00:00", 3)
    assert spring == ["29 01:30+0100", "29 03:00+0200", "29 03:30+0200"]
    autumn = local("0 * * * *", "Europe/Paris", dst, "2026-10-24T23:30", 4)
    assert autumn == ["25 02:00+0200", "25 02:00+0100", "25 03:00+0100", "25 04:00+0100"]
    zoned = Zoned(parse_cron("*/5 * * * *"), "America/New_York", dst)
    ticks = [tick.at for tick in zoned.between(instant("2026-01-01"), instant("2027-01-01"))]
    assert {b - a for a, b in pairwise(ticks)} == {timedelta(minutes=5)}


@pytest.mark.parametrize(
    ("text", "name", "start", "expected"),
    [
        ("0 0 * * *", "America/Santiago", "2026-09-05T12:00", ["06 01:00-0300", "07 00:00-0300"]),
        ("30 23 * * *", "America/Santiago", "2026-04-04T12:00", ["04 23:30-0300", "05 23:30-0400"]),
        ("0 0 * * *", "Asia/Beirut", "2026-03-28T12:00", ["29 01:00+0300", "30 00:00+0300"]),
        ("0 0 * * *", "America/Sao_Paulo", "2017-10-14T12:00", ["15 01:00-0200", "16 00:00-0200"]),
        ("0 0 * * *", "Africa/Cairo", "2026-04-23T12:00", ["24 01:00+0300", "25 00:00+0300"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", ["04 02:30+1100"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00", ["05 01:45+1100"]),
        ("0 12 * * *", "Pacific/Apia", "2011-12-29T12:00", ["29 12:00-1000", "31 00:00+1400"]),
        ("0 0 30 12 *", "Pacific/Apia", "2011-12-29T12:00", ["31 00:00+1400", "30 00:00+1400"]),
        ("30 1 * * *", "Antarctica/Troll", "2026-03-28T12:00", ["29 03:00+0200"]),
        ("0 12 * * *", "America/Caracas", "2016-04-30T23:00", ["01 12:00-0400"]),
    ],
)
def test_unusual_changes(text: str, name: str, start: str, expected: list[str]) -> None:
    assert local(text, name, "default", start, len(expected)) == expected


def test_time_never_goes_backwards_between_two_equal_hours() -> None:
    zoned = Zoned(parse_cron("30 2 * * *"), "Europe/Paris")
    second_pass = instant("2026-10-25T01:10")  # 02:10 for the second time
    assert zoned.after(second_pass) == instant("2026-10-26T01:30")


def test_after_is_strict_to_the_microsecond() -> None:
    zoned = Zoned(parse_cron("0 12 * * *"), "UTC")
    noon = instant("2026-05-01T12:00")
    assert zoned.after(noon - timedelta(microseconds=1)) == noon
    assert zoned.after(noon) == noon + timedelta(days=1)
    assert zoned.after(noon + timedelta(microseconds=1)) == noon + timedelta(days=1)
    assert [tick.at for tick in zoned.between(noon - timedelta(1), noon)] == [noon]
    assert list(zoned.between(noon, noon + timedelta(hours=23))) == []


def test_instants_of_other_zones_mean_the_same() -> None:
    zoned = Zoned(parse_cron("0 12 * * *"), "Asia/Tokyo")
    asked = instant("2026-05-01T12:00")
    found = zoned.after(asked.astimezone(ZoneInfo("America/New_York")))
    assert found == zoned.after(asked)
    assert found is not None
    assert found.tzinfo is UTC


@pytest.mark.parametrize(
    ("text", "dst", "start", "expected"),
    [
        (
            "30 2 * * *",
            "default",
            "2026-03-28",
            "02:30 does not exist on 2026-03-29 in Europe/Paris: moved to 03:00",
        ),
        (
            "30 2 * * *",
            "shift",
            "2026-03-28",
            "02:30 does not exist on 2026-03-29 in Europe/Paris: moved to 03:30",
        ),
        (
            "30 2 * * *",
            "skip",
            "2026-03-28",
            "02:30 does not exist on 2026-03-29 in Europe/Paris: skipped",
        ),
        (
            "0,30 2 * * *",
            "default",
            "2026-03-28",
            "02:00, 02:30 do not exist on 2026-03-29 in Europe/Paris: moved to 03:00",
        ),
        (
            "15 0/10 2 * * *",
            "default",
            "2026-03-28",
            "02:00:15, 02:10:15, 02:20:15, … do not exist on 2026-03-29 in Europe/Paris: "
            "moved to 03:00",
        ),
        (
            "30 2 * * *",
            "default",
            "2026-10-24",
            "02:30 comes twice on 2026-10-25 in Europe/Paris: fires the first time only",
        ),
    ],
)
def test_what_the_clocks_did_is_said_in_words(
    text: str, dst: Dst, start: str, expected: str
) -> None:
    assert notes(text, "Europe/Paris", dst, start, 4) == [expected]


def test_notes_tell_the_two_passes_apart() -> None:
    first, second = notes("30 2 * * *", "Europe/Paris", "both", "2026-10-24", 3)
    assert first == "02:30 comes twice on 2026-10-25 in Europe/Paris: this is the first time"
    assert second == "02:30 comes twice on 2026-10-25 in Europe/Paris: this is the second time"


def test_a_note_names_the_day_when_a_fire_moves_to_another() -> None:
    assert notes("0 12 * * *", "Pacific/Apia", "default", "2011-12-29T12:00", 3) == [
        "12:00 does not exist on 2011-12-30 in Pacific/Apia: moved to 2011-12-31 00:00"
    ]


def test_a_fire_that_no_clock_touched_has_no_note() -> None:
    assert notes("30 4 * * *", "Europe/Paris", "default", "2026-01-01", 365) == []
    assert notes("0 3 * * *", "Europe/Paris", "skip", "2026-01-01", 300) == []
    assert notes("30 2 * * *", "UTC", "default", "2026-01-01", 365) == []


class OnlyWalls:
    """A rule that can do nothing but name its walls, as a recurrence does."""

    def __init__(self, cron: Cron, limit: datetime) -> None:
        self.cron = cron
        self.limit = limit
        self.sub_hourly = cron.sub_hourly

    def walls(self, start: datetime) -> Iterator[datetime]:
        for wall in self.cron.walls(start):
            if wall > self.limit:
                return
            yield wall


@pytest.mark.parametrize("dst", ["default", "skip", "shift", "first", "both"])
@pytest.mark.parametrize("text", ["0,30 1-3 * * *", "*/20 * * * *", "30 2 * * sun"])
def test_any_rule_about_walls_gets_the_same_instants(text: str, dst: Dst) -> None:
    cron = parse_cron(text)
    known = Zoned(cron, "Europe/Paris", dst)
    plain = Zoned(OnlyWalls(cron, datetime.fromisoformat("2026-12-01")), "Europe/Paris", dst)
    start, end = instant("2026-03-01"), instant("2026-11-30")
    expected = list(known.between(start, end))
    assert list(plain.between(start, end)) == expected
    for tick, following in pairwise(expected[:50]):
        assert plain.after(tick.at) == following.at
    assert plain.after(instant("2026-12-02")) is None


def test_a_rule_that_ends_still_fires_in_the_second_pass() -> None:
    last = datetime.fromisoformat("2026-10-25T02:30")
    zoned = Zoned(OnlyWalls(parse_cron("30 2 * * *"), last), "Europe/Paris", "both")
    assert zoned.after(instant("2026-10-25T00:45")) == instant("2026-10-25T01:30")
    assert zoned.after(instant("2026-10-25T01:30")) is None


def forget() -> None:
    for remembered in (offsets.changes, offsets.spans_of, zone._spans):
        remembered.cache_clear()


@pytest.mark.parametrize("beside", [-7200, -1800, 0, 1800, 7200])
@pytest.mark.parametrize("change", ["2026-03-29T01:00", "2026-10-25T01:00"])
def test_a_change_at_the_seam_of_two_years(
    change: str, beside: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    middle = int(instant(change).timestamp())
    monkeypatch.setattr(offsets, "YEAR", middle + beside)
    monkeypatch.setattr(zone, "YEAR", middle + beside)
    forget()
    try:
        walked = Walk(ZoneInfo("Europe/Paris"), middle - 2 * DAY, middle + 2 * DAY)
        for minutes, hours in ((30, 2), (0, 3), (0, 2)):
            pattern = Pattern(f"{minutes} {hours} * * *", {minutes}, {hours}, lambda day: True)
            for dst in ("default", "skip", "shift", "both"):
                zoned = Zoned(parse_cron(pattern.text), "Europe/Paris", dst)
                expected = walked.fires(pattern, dst)
                for start in range(middle - DAY, middle + DAY // 2, 300):
                    following = next(fire for fire in expected if fire > start)
                    assert zoned.after_epoch(start) == following, f"{zoned} after {start}"
    finally:
        forget()


ZONES = st.sampled_from(["Europe/Paris", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Gaza", "UTC"])
TEXTS = st.sampled_from(["* * * * * *", "*/7 * * * *", "30 2 * * *", "0 0 L * *", "0 0 29 2 *"])
CHOICES = st.sampled_from(["default", "skip", "shift", "first", "both"])
SECONDS = st.integers(-60_000_000_000, 215_000_000_000)


@given(SECONDS, TEXTS, ZONES, CHOICES)
def test_the_next_is_later_and_nothing_lies_between(
    second: int, text: str, name: str, dst: Dst
) -> None:
    zoned = Zoned(parse_cron(text), name, dst)
    found = zoned.after_epoch(second)
    assert found is not None
    assert found > second
    assert zoned.after_epoch(found - 1) == found
    assert zoned.after_epoch((second + found) // 2) == found


@pytest.mark.parametrize("name", ["Pacific/Kiritimati", "Etc/GMT+12", "Europe/Paris"])
def test_the_ends_of_time_are_met_without_an_error(name: str) -> None:
    zoned = Zoned(parse_cron("* * * * *"), name)
    assert zoned.after(datetime.min.replace(tzinfo=UTC)) is not None
    assert zoned.after(datetime.max.replace(tzinfo=UTC)) is None
    assert zoned.after(instant("9000-01-03")) is None
    assert zoned.after(instant("8999-12-30")) == instant("8999-12-30T00:01")


def test_the_rarest_fire_is_found_without_delay() -> None:
    zoned = Zoned(parse_cron("0 0 29 2 */7"), "America/New_York")
    began = process_time()
    found = zoned.after(instant("2060-03-01"))
    assert process_time() - began < 2
    assert found is not None
    assert found.date().isoformat() == "2088-02-29"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("europe/paris", "did you mean 'Europe/Paris'?"),
        ("Europe/Pari", "did you mean 'Europe/Paris'?"),
        ("new york", "did you mean 'America/New_York'?"),
        ("+02:00", "'Etc/GMT-2' for two hours ahead of UTC"),
        ("CEST", "abbreviations mean several things"),
        ("", "give a name like 'Europe/Paris' or 'UTC'"),
        ("right/Europe/Paris", "is not known"),
        ("localtime", "is not known"),
        ("../../etc/passwd", "is not known"),
        ("Europe", "is not known"),
        ("UTC\0", "is not known"),
        (None, "give a name like"),
        (["UTC"], "give a name like"),
    ],
)
def test_unknown_zones_are_refused_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        zone_named(name)
    assert str(refused.value).startswith(f"timezone {name!r} is not known")
    assert hint in str(refused.value)


def test_every_zone_is_known() -> None:
    for name in available_timezones() - {"localtime", "Factory"}:
        assert zone_named(name).key == name


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(InvalidSchedule, match="choose one of default, skip, shift, first, both"):
        Zoned(parse_cron("@daily"), "UTC", "never")  # type: ignore[arg-type]


def transitions(name: str) -> list[tuple[int, int, int]]:
    """Instant, offset before and after, as zoneinfo's own file has them (RFC 9636)."""
    roots = [Path(root) for root in TZPATH if Path(root, name).is_file()]
    data = (roots[0] if roots else files("tzdata.zoneinfo")).joinpath(name).read_bytes()
    # The block with 32 bits is passed over.
    utc, std, leap, times, kinds, letters = struct.unpack(">6l", data[20:44])
    start = 44 + times * 5 + kinds * 6 + letters + leap * 8 + std + utc
    times, kinds = struct.unpack(">2l", data[start + 32 : start + 40])
    start += 44
    instants = struct.unpack(f">{times}q", data[start : start + 8 * times])
    becomes = data[start + 8 * times : start + 9 * times]
    offset = [at for at, *_ in struct.iter_unpack(">lBB", data[start + 9 * times :][: 6 * kinds])]
    before = [offset[0], *(offset[kind] for kind in becomes)]
    changed = zip(instants, before, before[1:], strict=False)
    return [change for change in changed if change[1] != change[2]]


def test_no_zone_changes_so_often_or_so_far_that_a_change_is_overlooked() -> None:
    for name in available_timezones() - {"localtime", "Factory"}:
        changes = transitions(name)
        for (at, _, _), (following, _, _) in pairwise(changes):
            assert following - at > offsets.MARGIN, f"{name} at {at}"
        assert all(abs(after - before) <= DAY for _, before, after in changes), name


@pytest.mark.parametrize(
    "name", ["Africa/Casablanca", "Asia/Gaza", "Europe/Warsaw", "Africa/Cairo"]
)
def test_changes_are_found_to_the_second(name: str) -> None:
    expected = [change for change in transitions(name) if change[0] > -2_000_000_000]
    first, last = expected[0][0], expected[-1][0]
    years = range(first // offsets.YEAR, last // offsets.YEAR + 1)
    found = {change for year in years for change in offsets.changes(ZoneInfo(name), year)[1]}
    assert sorted(tuple(change) for change in found if first <= change.at <= last) == expected
