"""The whole rig, small: a cluster of real processes under faults, and an independent judgement."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sexton
from sexton.errors import Unavailable
from sexton.torture.cast import Size
from sexton.torture.command import Asked, Report, perform
from sexton.torture.faults.log import FILE
from sexton.torture.guest import DROP
from sexton.torture.report import events
from sexton.torture.stand import StandError

from ..support.postgres import Postgres

SEED = 20261
SMALL = Size(nodes=3, workers=2, apis=1, fires_per_second=30.0, enqueues_per_second=9.0)


@pytest.mark.timeout(900)
async def test_a_cluster_under_faults_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    """About two minutes; `make torture` is the same for a quarter of an hour."""
    asked = Asked(tmp_path / "run", SEED, 35.0, None, SMALL)
    told: list[str] = []
    report = await perform(asked, say=told.append)
    assert report.clean, "\n".join(report.lines())
    assert sum(" of 35 s: " in line for line in told) >= 3, "it says how far it has come"
    checked = {each["name"]: each["checked"] for each in report.verdict["invariants"]}
    assert checked["one-job-per-fire"] > 300
    assert checked["every-fire-decided"] > 300
    assert report.verdict["events"]["faults"] > 8
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["behind"] == 0, "what was missed has been made up for"
    assert min(about["written"][name] for name in ("effects", "acks")) > 300


async def test_what_is_left_on_a_server_that_went_away_is_said_though_there_is_no_report(
    own_server: Postgres, tmp_path: Path
) -> None:
    await asyncio.to_thread(own_server.create_database, "scratch")
    asked = Asked(tmp_path / "run", SEED, 10.0, own_server.url("scratch"), SMALL)
    warned: list[str] = []

    def stop_when_it_begins(line: str) -> None:
        if line.startswith("migrating"):
            own_server.stop("immediate")

    with pytest.raises(Unavailable):
        await perform(asked, say=stop_when_it_begins, warn=warned.append)
    [left] = warned
    assert left.startswith("could not be removed from your server:\n    drop schema if exists ")
    assert all(statement in left for statement in DROP)


def test_a_server_that_went_away_is_not_called_a_failure_of_the_rig() -> None:
    away = ConnectionRefusedError(111, "Connect call failed")
    url = "postgresql://me:secret@there/scratch"
    why = Asked(Path("x"), 7, 60.0, url, Size()).no_verdict(away)
    assert why.startswith("no verdict: your server at postgresql://me@there/scratch does not")
    assert "the rig itself failed" in Asked(Path("x"), 7, 60.0, None, Size()).no_verdict(away)


def test_the_end_of_a_log_is_the_end_of_what_is_said_of_who_fell() -> None:
    log = "".join(f"line {n}\n" for n in range(100)) + "\nsexton: too many connections\n"
    fell = StandError(f"worker-2 has ended. logs/worker-2.log ends:\n{log}")
    first, *rest = Asked(Path("x"), 7, 60.0, None, Size()).no_verdict(fell).splitlines()
    assert first.endswith("see x: StandError: worker-2 has ended. logs/worker-2.log ends:")
    assert rest[-2:] == ["    line 99", "    sexton: too many connections"]
    assert len(rest) < 20


def test_who_falls_stays_away_or_does_not_end_makes_a_run_unclean(tmp_path: Path) -> None:
    told = {
        "fell": {"code": 2},
        "did not end": {"error": "not within 23 s"},
        "did not come back": {"error": "not ready in 60 s. x.log ends:\none\nother\n"},
    }
    for what, detail in told.items():
        line = {"at": 1, "event": "note", "what": what, "target": "node-1", "detail": detail}
        (tmp_path / FILE).write_text(json.dumps(line) + "\n")
        verdict = {
            "clean": True,
            "violations": 0,
            "seed": 1,
            "text": "",
            "events": events(tmp_path),
        }
        report = Report(tmp_path, verdict)
        assert report.broken
        assert not report.clean
        assert not report.as_json["clean"]
        assert any(line.startswith(f"{what.upper()} node-1") for line in report.lines())
        assert all("\n" not in line for line in report.lines())


def test_every_fault_that_was_announced_is_accounted_for(tmp_path: Path) -> None:
    """One was done, one could not be, and one waited for a message that never came."""
    begin = {"event": "begin", "target": "x", "for_s": 1, "detail": {}, "at": 1}
    end = {"event": "end", "target": "x", "at": 2}
    lines = [
        {**begin, "n": 1, "fault": "kill"},
        {**begin, "n": 2, "fault": "promote"},
        {**begin, "n": 3, "fault": "message"},
        {**end, "n": 1, "fault": "kill", "detail": {}},
        {**end, "n": 2, "fault": "promote", "detail": {"failed": "NotInSync: it is behind"}},
        {**end, "n": 3, "fault": "message", "detail": {}},
    ]
    (tmp_path / FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    verdict = {"clean": True, "violations": 0, "seed": 1, "text": "", "events": events(tmp_path)}
    told = [*Report(tmp_path, verdict).lines()]
    assert "1 fault: 1 kill" in told
    assert "1 more could not be done when they were due" in told
    assert "1 more came to nothing: no message came to be cut at" in told


def test_a_package_that_is_installed_below_somebodys_repository_has_no_commit_of_theirs(
    tmp_path: Path,
) -> None:
    """Where a project keeps its environment; the version says more than their last commit."""
    ask = "from sexton.torture.run import _commit; print(_commit())"
    who = ("-c", "user.name=me", "-c", "user.email=me@example.org")
    for words in (("init", "-q"), (*who, "commit", "-q", "--allow-empty", "-m", "theirs")):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    shutil.copytree(
        *(Path(sexton.__file__).parent, tmp_path / "env" / "sexton"),
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    command = [sys.executable, "-c", ask]
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "env")}
    said = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, check=True)
    assert said.stdout == b"None\n"


def test_what_was_not_checked_is_neither_clean_nor_a_broken_promise(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("")
    verdict = {"clean": False, "violations": 0, "events": events(tmp_path)}
    assert (Report(tmp_path, verdict).clean, Report(tmp_path, verdict).broken) == (False, False)
    verdict["violations"] = 1
    assert Report(tmp_path, verdict).broken


@pytest.mark.parametrize(
    ("code", "age", "asked", "ready", "many"),
    [
        *((0, 900, 1, True, 0), (-9, 900, 1, True, 0), (1, 3, 1, False, 1)),
        *((-15, 3, 1, False, 0), (-15, 3, 1, None, 0), (-15, 900, 1, False, 1)),
        (-15, 3, 1, True, 1),  # it could do its work, and did not hear
        *((3, 3, 1, False, 0), (3, 900, 1, False, 1)),
        (-15, 900, 2, True, 0),  # twice does not wait
        *((1, 900, 0, None, 0), (3, 900, 0, None, 0)),  # before; if it fell, that was said then
    ],
)
def test_who_does_not_end_in_order_when_it_is_asked_to_has_fallen(
    tmp_path: Path, code: int, age: int, asked: int, ready: bool | None, many: int
) -> None:
    detail = {"after": 0.5, "code": code, "age": age, "asked": asked, "ready": ready}
    line = {"at": 10**6, "event": "note", "what": "ended", "target": "node-1", "detail": detail}
    (tmp_path / FILE).write_text(json.dumps(line) + "\n")
    assert len(events(tmp_path)["fell"]) == many


def test_the_command_that_replays_a_run_has_what_is_not_usual() -> None:
    asked = Asked(Path("x"), 7, 60.0, None, Size(nodes=3))
    assert asked.command == "sexton torture --seed 7 --seconds 60 --nodes 3"


def test_the_command_that_replays_a_run_on_a_server_names_it_without_its_password() -> None:
    asked = Asked(Path("x"), 7, 60.0, "postgresql://me:secret@there/scratch", Size())
    assert asked.command.endswith("--database-url postgresql://me@there/scratch")
