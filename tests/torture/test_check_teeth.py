"""A check that cannot fail is worthless: each invariant finds what it is for, and no other does.

One small real run is recorded and found clean. Then it is tampered with, in one way at a time.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.torture.check import judge
from sexton.torture.check.judge import INVARIANTS

from ..support.postgres import Postgres
from .recorded import record
from .tampering import TEETH, Line, Tamper, Tampered
from .teeth import (  # noqa: F401 - they are in TEETH
    asks,
    attempts,
    calendars,
    effects,
    enqueues,
    fires,
    jobs,
    owners,
    policies,
)


@pytest.fixture(scope="module")
def recorded(server: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Played once; every test has its own copy."""
    server.create_database("recorded")
    yield record(server.url("recorded"), tmp_path_factory.mktemp("run") / "run")
    server.drop_database("recorded")


def test_a_real_run_is_clean_and_every_invariant_had_something_to_check(recorded: Path) -> None:
    verdict = judge(recorded)
    said = [violation.what for each in verdict.invariants for violation in each.violations]
    assert not said
    assert [each.name for each in verdict.invariants if not each.checked] == []
    assert not verdict.unclear


@pytest.mark.parametrize(
    ("invariant", "tamper"), TEETH, ids=lambda each: getattr(each, "__name__", each)
)
def test_what_was_tampered_with_is_found_by(
    invariant: str, tamper: Tamper, recorded: Path, tmp_path: Path
) -> None:
    tampered = Tampered(recorded, tmp_path / "run")
    tamper(tampered)
    verdict = judge(tampered.save())
    said = {
        each.name: [violation.what for violation in each.violations]
        for each in verdict.invariants
        if each.count
    }
    assert {*said} == {invariant}, said


def test_every_invariant_has_teeth() -> None:
    assert {name for name, _ in TEETH} == {each.name for each in INVARIANTS}


def _of_the_rig(recorded: Path, folder: Path) -> Path:
    """As if the rig had made it, and brought it to its end."""
    shutil.copytree(recorded, folder)
    about = folder / "run.json"
    tables = {each.name for each in (folder / "dump").iterdir()}
    tables -= {"calendars.jsonl", "ledger.jsonl", "population.jsonl", "tasks.jsonl"}
    lines = sum(len((folder / "dump" / each).read_text().splitlines()) for each in tables)
    run = json.loads(about.read_text())
    about.write_text(json.dumps({**run, "planned": 2, "ended_at": 1, "lines": lines}))
    return folder


def test_a_run_of_the_rig_that_is_whole_is_clean(recorded: Path, tmp_path: Path) -> None:
    verdict = judge(_of_the_rig(recorded, tmp_path / "run"))
    assert not verdict.not_checked
    assert verdict.clean


@pytest.mark.parametrize(
    ("gone", "why"),
    [
        ("dump/gap.jsonl", "anything: dump/ is without gap.jsonl"),
        ("dump/population.jsonl", "anything: dump/ is without population.jsonl"),
        ("dump/change.jsonl", "anything: dump/ is without change.jsonl"),
        ("effects", "what should be in effects/, which is empty"),
        ("effects", "effects-apart, idempotency-key: nothing happened that they are about"),
        ("acks", "what should be in acks/, which is empty"),
        ("faults.jsonl", "what should be in faults.jsonl, which is missing"),
    ],
)
def test_a_run_of_the_rig_is_not_clean_without(
    gone: str, why: str, recorded: Path, tmp_path: Path
) -> None:
    folder = _of_the_rig(recorded, tmp_path / "run")
    target = folder / gone
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    verdict = judge(folder)
    assert why in verdict.not_checked
    assert not verdict.clean


def test_a_dump_that_lost_a_line_is_not_whole(recorded: Path, tmp_path: Path) -> None:
    folder = _of_the_rig(recorded, tmp_path / "run")
    gaps = folder / "dump" / "gap.jsonl"
    gaps.write_text("".join(gaps.read_text().splitlines(keepends=True)[:-1]))
    [why] = judge(folder).not_checked
    assert "lines of tables" in why


@pytest.mark.parametrize("name", ["effects", "acks"])
def test_a_log_that_lost_a_line_is_not_whole(name: str, recorded: Path, tmp_path: Path) -> None:
    """What was cut short by a kill has never been counted."""
    folder = _of_the_rig(recorded, tmp_path / "run")
    [log] = (folder / name).iterdir()
    many = len(log.read_text().splitlines())
    about = folder / "run.json"
    written = {"effects": 0, "acks": 0, name: many}
    about.write_text(json.dumps({**json.loads(about.read_text()), "written": written}))
    with log.open("a") as file:
        file.write('{"at": 1, "eve')
    assert judge(folder).clean
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-2]))
    assert f"what should be in {name}/, which lost 1 of {many} lines" in judge(folder).not_checked


@pytest.mark.parametrize(
    ("fault", "then", "found"),
    [
        ("promote", {"event": "end", "detail": {"failed": "StandError: no"}}, True),
        ("promote", {"event": "end", "detail": {}}, False),
        ("message", {"event": "end", "detail": {}}, True),
        ("message", {"event": "note", "what": "tripped", "detail": {"n": 9}}, False),
    ],
)
def test_a_long_run_in_which_a_fault_always_came_to_nothing_is_no_proof(
    fault: str, then: Line, found: bool, recorded: Path, tmp_path: Path
) -> None:
    folder = _of_the_rig(recorded, tmp_path / "run")
    about = folder / "run.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "seconds": 900}))
    known = {"at": 1, "n": 9, "fault": fault, "target": "node-1"}
    with (folder / "faults.jsonl").open("a") as file:
        for line in ({**known, "event": "begin"}, {**known, **then}):
            file.write(json.dumps(line) + "\n")
    nothing = [each for each in judge(folder).not_checked if "each time it came to nothing" in each]
    assert any(fault in each for each in nothing) == found
