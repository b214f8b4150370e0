"""What a run wants of its host is said before it begins."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sexton.errors import ConfigurationError
from sexton.torture.cast import Size
from sexton.torture.command import Asked, perform
from sexton.torture.room import Needs, make_sure, needs
from sexton.torture.stand.pair import SETTINGS

QUARTER, EIGHT_HOURS = 900.0, 8 * 3600.0
NOTHING = Needs(folder=0, servers=0, memory=0)
TOO_MUCH = 10**18


def test_a_quarter_of_an_hour_wants_what_it_was_seen_to_take() -> None:
    wanted = needs(QUARTER, Size(), own_servers=True)
    assert 380e6 < wanted.folder < 450e6
    assert 350e6 < wanted.memory < 450e6
    assert 2.6e9 < wanted.servers < 4e9


def test_the_logs_that_both_servers_keep_are_reckoned_with() -> None:
    kept = sum(_bytes(SETTINGS[each]) for each in ("wal_keep_size", "max_wal_size"))
    assert needs(1, Size(), own_servers=True).servers > 2 * kept


def test_what_is_wanted_grows_with_the_time_and_the_fires() -> None:
    short, long = (needs(each, Size(), own_servers=True) for each in (QUARTER, EIGHT_HOURS))
    assert long.memory == 32 * short.memory
    assert long.folder == 32 * short.folder
    few = needs(QUARTER, Size(fires_per_second=10), own_servers=True)
    assert few.folder < short.folder / 3


def test_an_operators_server_is_not_on_this_disk() -> None:
    assert needs(EIGHT_HOURS, Size(), own_servers=False).servers == 0


def test_what_there_is_room_for_is_not_spoken_of(tmp_path: Path) -> None:
    assert make_sure(replace(NOTHING, folder=1, servers=1), tmp_path / "new" / "run") == []


@pytest.mark.parametrize("which", ["folder", "servers"])
def test_a_run_that_would_fill_a_disk_is_refused(tmp_path: Path, which: str) -> None:
    wanted = replace(NOTHING, **{which: TOO_MUCH})
    with pytest.raises(ConfigurationError, match="GB to the disk of"):
        make_sure(wanted, tmp_path / "new" / "run")
    assert not (tmp_path / "new").exists()


def test_a_run_that_would_leave_next_to_nothing_free_is_refused(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    assert make_sure(replace(NOTHING, folder=free // 2), tmp_path) == []
    with pytest.raises(ConfigurationError, match="GB to the disk of"):
        make_sure(replace(NOTHING, folder=round(free * 0.95)), tmp_path)


async def test_nobody_performs_a_run_that_was_not_looked_at_first(tmp_path: Path) -> None:
    told: list[str] = []
    asked = Asked(tmp_path / "run", 1, 1e12, None, Size())
    with pytest.raises(ConfigurationError, match="fewer --seconds or --fires"):
        await perform(asked, say=told.append)
    assert (told, [*tmp_path.iterdir()]) == ([], [])


@pytest.mark.parametrize(("what", "why"), [("file", "is a file"), ("full", "is not empty")])
async def test_nothing_is_said_or_made_for_a_folder_that_is_somebody_elses(
    tmp_path: Path, what: str, why: str
) -> None:
    place = tmp_path / what
    (tmp_path / "full").mkdir()
    for each in ("file", "full/thing"):
        (tmp_path / each).touch()
    told: list[str] = []
    with pytest.raises(ConfigurationError, match=f"{place} {why}"):
        await perform(Asked(place, 1, 10.0, None, Size()), say=told.append)
    assert told == []


def test_a_verdict_that_wants_much_memory_can_be_given_elsewhere(tmp_path: Path) -> None:
    [warning] = make_sure(replace(NOTHING, memory=TOO_MUCH), tmp_path)
    assert "python -m sexton.torture.check" in warning


def _bytes(setting: str) -> int:
    return int(setting.removesuffix("MB")) * 1024 * 1024
