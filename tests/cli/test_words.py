"""Instants, lengths and other people's text, without any process."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import typer

from sexton.cli.instants import Instant, parse_instant
from sexton.cli.output import clean, compact, dated, first_line, lasted
from sexton.cli.parameters import json_object, one_of

NOW = datetime(2026, 3, 28, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("now", NOW),
        ("+2h", NOW + timedelta(hours=2)),
        ("-25s", NOW - timedelta(seconds=25)),
        ("-1h30m", NOW - timedelta(minutes=90)),
        ("2026-03-28T12:00:00Z", NOW),
        ("2026-03-28T13:00:00+01:00", NOW),
        ("20260328T120000Z", NOW),
    ],
)
def test_an_instant_is_read(text: str, instant: datetime) -> None:
    assert parse_instant(text).resolved(NOW) == instant


def test_an_instant_without_an_offset_is_this_machines() -> None:
    local = parse_instant("2026-03-28T12:00")
    assert local == Instant(absolute=datetime(2026, 3, 28, 12).astimezone())


@pytest.mark.parametrize("text", ["", "+", "tomorrow", "-2x", "25s", "2026-13-01", "+inf"])
def test_what_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a"):
        parse_instant(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("日本 é ✓", "日本 é ✓"),
        ("\x1b[2J", r"\x1b[2J"),
        ("\x9b0m", r"\x9b0m"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\u202e\u200b\u2028", r"\u202e\u200b\u2028"),
        ("\ud800", r"\ud800"),
    ],
)
def test_text_is_made_harmless(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_lines_are_kept_where_lines_are_wanted() -> None:
    assert clean("a\nb\x1b", lines=True) == "a\nb\\x1b"
    assert first_line("\n\n  first \n second") == "first"
    assert len(first_line("x" * 10_000)) == 200
    assert compact({"a": "é\x1b"}) == '{"a": "é\\u001b"}'
    assert len(compact({"a": "x" * 1000})) == 60


@pytest.fixture
def in_paris(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Europe/Paris")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_paris")
def test_where_there_is_room_an_instant_has_its_day_and_its_zone() -> None:
    assert dated(NOW) == "2026-03-28 13:00:00 CET"
    assert dated(NOW + timedelta(days=1)) == "2026-03-29 14:00:00 CEST"
    assert dated(None) == ""


def test_lengths_of_time_are_said() -> None:
    assert [lasted(each) for each in (0.0123, 2.5, 61, 7260, 90000)] == [
        *("12 ms", "2.5 s", "1 m 01 s", "2 h 01 m", "1 d 01 h")
    ]


@pytest.mark.parametrize(
    "text", ["{oops", "[1]", "1", '{"a": NaN}', '{"a": Infinity}', '{"a": "\\ud800"}', "", "{}{}"]
)
def test_what_the_service_would_not_read_is_no_object_here_either(text: str) -> None:
    """NaN, written again, would arrive as null."""
    with pytest.raises(ValueError, match=r"not JSON|not a JSON object"):
        json_object(text)


def test_an_object_is_read_whole() -> None:
    assert json_object('{"a": 123456789012345678901234567890, "b": [null, "é"]}') == {
        "a": 123456789012345678901234567890,
        "b": [None, "é"],
    }


def test_a_word_that_must_be_known_is_refused_with_what_was_meant() -> None:
    read = one_of(("fired", "missed"))
    assert read("fired") == "fired"
    with pytest.raises(typer.BadParameter, match="did you mean 'missed'"):
        read("mised")
