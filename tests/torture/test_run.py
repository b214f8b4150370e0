"""The whole rig, small: a cluster of real processes under faults, and an independent judgement."""

import json
from pathlib import Path

import asyncpg
import pytest

from sexton.errors import ConfigurationError
from sexton.torture.cast import Size
from sexton.torture.command import SCRATCH, Asked, perform

SEED = 20261
SMALL = Size(nodes=3, workers=2, apis=1, fires_per_second=30.0, enqueues_per_second=9.0)


@pytest.mark.timeout(900)
async def test_a_cluster_under_faults_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    """About two minutes; `make torture` is the same for a quarter of an hour."""
    asked = Asked(tmp_path / "run", SEED, 35.0, None, SMALL)
    report = await perform(asked, say=lambda _: None)
    assert report.clean, "\n".join(report.lines())
    checked = {each["name"]: each["checked"] for each in report.verdict["invariants"]}
    assert checked["one-job-per-fire"] > 300
    assert checked["every-fire-decided"] > 300
    assert report.verdict["events"]["faults"] > 8
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["behind"] == 0, "what was missed has been made up for"


async def test_a_database_with_something_in_it_is_not_tortured(
    tmp_path: Path, database_url: str
) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(f"create schema {SCRATCH}")
    finally:
        await connection.close()
    asked = Asked(tmp_path / "run", SEED, 10.0, database_url, SMALL)
    with pytest.raises(ConfigurationError, match="give a scratch database"):
        await perform(asked, say=lambda _: None)


def test_the_command_that_replays_a_run_has_what_is_not_usual() -> None:
    asked = Asked(Path("x"), 7, 60.0, None, Size(nodes=3))
    assert asked.command == "sexton torture --seed 7 --seconds 60 --nodes 3"
