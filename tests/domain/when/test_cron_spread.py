"""`H` spreads schedules by their names, and never moves one."""

import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.domain.when.cron import Dialect, parse_cron
from sexton.errors import InvalidSchedule


def test_the_value_follows_from_the_name_and_nothing_else() -> None:
    # Written down: were these to change, every schedule that spreads would move.
    assert str(parse_cron("H H * * *", name="nightly-report")) == "44 20 * * *"
    assert str(parse_cron("H/15 * * * *", name="poll")) == "11-59/15 * * * *"


def test_another_process_spreads_alike() -> None:
    code = (
        "from sexton.domain.when.cron import parse_cron;"
        "print(parse_cron('H H H H H', name='the same'))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == str(parse_cron("H H H H H", name="the same"))


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("H 0 * * *", range(60)),
        ("H(10-19) 0 * * *", range(10, 20)),
        ("0 H * * *", range(24)),
        ("0 0 H * *", range(1, 29)),  # the days that every month has
        ("0 0 1 H *", range(1, 13)),
        ("0 0 * * H", range(7)),
        ("0 0 * * H(MON-FRI)", range(1, 6)),
        ("H 0 0 * * *", range(60)),
    ],
)
def test_names_spread_evenly_over_the_whole_range(text: str, allowed: range) -> None:
    index = next(i for i, part in enumerate(text.split()) if part.startswith("H"))
    names = [f"schedule {number}" for number in range(100 * len(allowed))]
    found = Counter(int(str(parse_cron(text, name=name)).split()[index]) for name in names)
    assert set(found) == set(allowed)
    assert max(found.values()) < 160


def test_fields_spread_independently() -> None:
    found = {tuple(str(parse_cron("H H * * *", name=str(i))).split()[:2]) for i in range(1000)}
    assert len(found) > 480


def test_steps_begin_at_a_place_of_their_own() -> None:
    offsets = set()
    for number in range(200):
        cron = parse_cron("H/15 3 * * *", name=str(number))
        minutes = [minute for minute in range(60) if cron.minutes >> (3 * 60 + minute) & 1]
        assert [minute - minutes[0] for minute in minutes] == [0, 15, 30, 45]
        offsets.add(minutes[0])
    assert offsets == set(range(15))
    within = parse_cron("H(0-29)/10 * * * *", name="x").minutes & (1 << 60) - 1
    assert within.bit_count() == 3
    assert within < 1 << 30


def test_lists_and_thursdays_are_left_alone() -> None:
    assert str(parse_cron("0 0 * * thu", name="x")) == "0 0 * * thu"
    spread = str(parse_cron("H,30 0 * * THU", name="x"))
    assert spread.endswith(",30 0 * * THU")


@given(
    st.sampled_from(
        ["H H * * *", "H/7 H(0-7) H/3 * THU", "H H H ? * H(2-6)", "@daily", "0 0 L * *"]
    ),
    st.text(max_size=20).filter(lambda name: name.isprintable()),
)
def test_its_text_means_the_same_as_the_expression(text: str, name: str) -> None:
    dialect: Dialect = "quartz" if "?" in text else "cron"
    cron = parse_cron(text, dialect=dialect, name=name)
    again = parse_cron(str(cron), dialect=dialect, name="another")
    assert again == cron
    assert str(again) == str(cron)
    assert hash(again) == hash(cron)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("H(5) * * * *", "minute: H(5) needs a range, like H(0-29)"),
        ("H() * * * *", "minute: H() needs a range"),
        ("H(30-10) * * * *", "minute: the range of H(30-10) runs backwards"),
        ("H(0-99) * * * *", "minute: 99 is not from 0 to 59"),
        ("H/0 * * * *", "minute: a step of 0 goes nowhere"),
        ("H(0-9)/20 * * * *", "minute: a step of 20 does not fit into 0-9"),
        ("5-H * * * *", "minute: '5-H' is not a way to spread"),
        ("H( * * * *", "minute: 'H(' is not a way to spread"),
    ],
)
def test_what_cannot_spread_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        parse_cron(text)
    assert reason in str(refused.value)
