"""The pure part: what versions promise, slice by slice, and what is made of many lags."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.domain.audit import Auditor, Lags, Passed, Stray
from sexton.domain.expected import (
    DAY,
    NOTHING,
    SECOND,
    Promised,
    Slice,
    Version,
    instant,
    micros,
    slices,
)
from sexton.domain.when import Definition, Timetable

BEGIN = datetime(2026, 3, 28, 22, 30, tzinfo=UTC)
KINDS: list[dict[str, Any]] = [
    {"cron": "*/7 * * * *", "timezone": "Europe/Paris"},
    {"every": 611},
    {"every": 0.7, "jitter": 0.6},
    {"cron": "*/5 * * * *", "jitter": 299},
    {"cron": "0 * * * *", "jitter": 7200, "jitter_kind": "fixed"},
    {"any": ["3 * * * *", {"every": 3000}], "jitter": 60, "starts_at": "2026-03-28T23:10:00Z"},
    {"cron": "*/7 * * * *", "ends_at": "2026-03-29T00:00:00Z"},
    {"at": "2026-03-28T23:00:00Z"},
]


def version(since: int, until: int | None = None, **more: Any) -> Version:
    anchor = micros(BEGIN - timedelta(seconds=123))
    fields = {"state": "active", "stops": None, "next_fire": None, "late": False} | more
    return Version(9, since, until, fields["state"], 1, anchor, *list(fields.values())[1:])


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_version_promises_what_its_timetable_would_fire_one_by_one(kind: dict[str, Any]) -> None:
    timetable = Timetable.compile(Definition.of(**kind))
    noise = random.Random(str(kind))
    for _ in range(20):
        since = micros(BEGIN) + noise.randrange(3600 * SECOND)
        until = noise.choice([None, since + noise.randrange(3600 * SECOND)])
        begins = micros(BEGIN) + noise.randrange(3600 * SECOND)
        ends = begins + noise.randrange(1, 3600 * SECOND)
        said = version(since, until)
        expected = []
        anchor = instant(said.anchor)
        at = timetable.after(instant(since), anchor)
        while at is not None and micros(at) < ends:
            fire = micros(timetable.fire_at(at, anchor, said.schedule))
            if begins <= fire < ends and (until is None or fire <= until):
                expected.append((fire, micros(at)))
            at = timetable.after(at, anchor)
        promised = Slice(begins, ends).promised(said, timetable)
        assert list(zip(*promised, strict=True)) == expected


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_slices_together_promise_the_whole_and_nothing_twice(kind: dict[str, Any]) -> None:
    timetable = Timetable.compile(Definition.of(**kind))
    begins, ends = micros(BEGIN), micros(BEGIN) + 3 * 3600 * SECOND
    said = version(begins - 1)
    whole = Slice(begins, ends).promised(said, timetable)
    middle = begins + 4_567_891_234
    one = Slice(begins, middle).promised(said, timetable)
    assert one.then(Slice(middle, ends).promised(said, timetable)) == Promised(
        list(whole.fires), list(whole.scheduled)
    )


def test_one_that_has_used_up_its_fires_promises_no_more() -> None:
    timetable = Timetable.compile(Definition.of(every=60))
    begins = micros(BEGIN)
    whole = Slice(begins, begins + 600 * SECOND).promised(version(begins), timetable)
    third = whole.fires[2]
    for until in (None, third + 1, begins + 599 * SECOND):
        said = version(begins, until, state="ended", stops=third)
        cut = Slice(begins, begins + 600 * SECOND).promised(said, timetable)
        assert list(cut.fires) == list(whole.fires[:3])


@given(st.integers(0, 5 * DAY), st.integers(0, 5 * DAY))
def test_slices_are_days_without_a_gap(one: int, other: int) -> None:
    begins, ends = sorted((one, other))
    found = slices(begins, ends)
    assert sum(last - first for first, last in found) == ends - begins
    for first, last in found:
        assert first < last
        assert first // DAY == (last - 1) // DAY


@given(st.lists(st.integers(0, 10**10), min_size=1, max_size=300))
def test_percentiles_are_right_to_three_digits_in_little_room(values: list[int]) -> None:
    lags = Lags()
    for lag in values:
        lags.add([lag])
    found = lags.summary()
    ranked = sorted(values)
    assert found.max == ranked[-1] / SECOND
    for percent, got in ((50, found.p50), (99, found.p99)):
        exact = ranked[-(-len(ranked) * percent // 100) - 1] / SECOND
        assert got is not None
        assert exact * (1 - 1 / 500) <= got <= exact


def test_many_lags_take_little_room() -> None:
    lags = Lags()
    lags.add(range(0, 10**9, 1009))
    assert len(lags._counts) < 20_000


def test_a_job_of_a_missing_fire_is_its_trace_and_a_second_one_is_doubled() -> None:
    fire = micros(BEGIN)
    strays = [Stray(9, fire, job, None, None) for job in (1, 2, 3)]
    auditor = Auditor(fire + 60 * SECOND, strays)
    auditor.check(9, Promised([fire], [fire]), [], [], None)
    assert auditor.concerned() == {9}
    found = auditor.result(fire, fire + 1, {9: "bell"})
    assert (found.missing, found.doubled) == (1, 2)
    assert {each.schedule for each in found.violations} == {"bell"}


def test_what_was_passed_over_without_a_promise_is_counted_once() -> None:
    begins = micros(BEGIN)
    passed = [
        Passed(begins + 1, begins + DAY, "excluded", 7),
        Passed(begins - 1, begins + DAY, "excluded", 100, begins_here=False),
        Passed(begins + 1, begins + DAY, "paused", None),
        Passed(begins + 1, begins + 9, "paused", 5),
        Passed(begins + 1, begins + DAY, "missed", 1000),
    ]
    auditor = Auditor(begins)
    auditor.check(9, NOTHING, [], passed, None)
    assert auditor.passed_over == {"excluded": 7, "paused": 5}
    assert not auditor.decisions
    # Two of the five were promised: they had been due when the pause began.
    auditor = Auditor(begins)
    promised = [begins + 3, begins + 4]
    auditor.check(9, Promised(promised, promised), [], passed[3:4], None)
    assert (auditor.decisions, auditor.passed_over) == ({"paused": 2}, {"paused": 3})
