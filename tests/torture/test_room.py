"""What a run wants of its host is said before it begins."""

from dataclasses import replace
from pathlib import Path

import pytest

from sexton.errors import ConfigurationError
from sexton.torture.cast import Size
from sexton.torture.room import Needs, make_sure, needs

QUARTER, EIGHT_HOURS = 900.0, 8 * 3600.0
NOTHING = Needs(folder=0, servers=0, memory=0)
TOO_MUCH = 10**18


def test_a_quarter_of_an_hour_wants_what_it_was_seen_to_take() -> None:
    wanted = needs(QUARTER, Size(), own_servers=True)
    assert 380e6 < wanted.folder < 450e6
    assert 350e6 < wanted.memory < 450e6
    assert wanted.servers < 2e9


def test_what_is_wanted_grows_with_the_time_and_the_fires() -> None:
    short, long = (needs(each, Size(), own_servers=True) for each in (QUARTER, EIGHT_HOURS))
    assert long.memory == 32 * short.memory
    assert long.folder == 32 * short.folder
    few = needs(QUARTER, Size(fires_per_second=10), own_servers=True)
    assert few.folder < short.folder / 3


def test_an_operators_server_is_not_on_this_disk() -> None:
    assert needs(EIGHT_HOURS, Size(), own_servers=False).servers == 0


def test_what_there_is_room_for_is_not_spoken_of(tmp_path: Path) -> None:
    assert [*make_sure(needs(10, Size(), own_servers=True), tmp_path / "new" / "run")] == []


@pytest.mark.parametrize("which", ["folder", "servers"])
def test_a_run_that_would_fill_a_disk_is_refused(tmp_path: Path, which: str) -> None:
    wanted = replace(NOTHING, **{which: TOO_MUCH})
    with pytest.raises(ConfigurationError, match="GB to the disk of"):
        [*make_sure(wanted, tmp_path / "new" / "run")]
    assert not (tmp_path / "new").exists()


def test_a_verdict_that_wants_much_memory_can_be_given_elsewhere(tmp_path: Path) -> None:
    [warning] = make_sure(replace(NOTHING, memory=TOO_MUCH), tmp_path)
    assert "python -m sexton.torture.check" in warning
