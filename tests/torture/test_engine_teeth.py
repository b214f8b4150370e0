"""The mutants of the engine are still mutants of this engine, and still run.

`python -m torture.teeth` tells whether the rig kills them; that takes an hour.
"""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest
from torture.teeth.mutant import SOURCE, UNTOUCHED, Change, DoesNotApply, Mutant
from torture.teeth.mutants import ALL
from torture.teeth.rig import Ran, copied
from torture.teeth.stages import NoVerdict, Stage

from sexton import sql
from sexton.torture.check.folder import Change as Row
from sexton.torture.check.invariant import Violation
from sexton.torture.check.timeline import Timeline
from sexton.torture.crash.point import WAYS
from sexton.torture.crash.steps import STEPS
from torture.teeth import report, trials

from ..support.postgres import Postgres

MIGRATIONS = "sql/migrations/"
STATEMENTS = [
    (mutant, file)
    for mutant in ALL
    for file in sorted({change.file for change in mutant.changes})
    if file.endswith(".sql") and not file.startswith(MIGRATIONS)
]
MIGRATED = [
    mutant for mutant in ALL if any(each.file.startswith(MIGRATIONS) for each in mutant.changes)
]


@pytest.fixture(scope="module")
def known(server: Postgres) -> Iterator[str]:
    """A migrated database for all, in which nothing is changed."""
    server.create_database("known")
    yield server.url("known")
    server.drop_database("known")


def _name(each: object) -> str:
    return each.name if isinstance(each, Mutant) else str(each)


@pytest.mark.parametrize("mutant", ALL, ids=_name)
def test_a_mutant_applies_and_compiles(mutant: Mutant) -> None:
    for file, text in mutant.texts().items():
        assert text != (SOURCE / file).read_text()
        if file.endswith(".py"):
            ast.parse(text, file)
    assert {*mutant.crash} <= STEPS.keys()
    assert {*mutant.ways} <= WAYS.keys()
    assert mutant.crash or not mutant.ways


def _run(violations: int) -> dict[str, Any]:
    found = {"name": "none-early", "violations": violations}
    return {"invariants": [found], "events": {"did_not_come_back": []}}


def _told(violations: int) -> str:
    return json.dumps(_run(violations))


@pytest.mark.parametrize(("mutant", "file"), STATEMENTS, ids=_name)
async def test_a_mutated_statement_prepares(mutant: Mutant, file: str, known: str) -> None:
    connection = await asyncpg.connect(known)
    try:
        prepared = await connection.prepare(mutant.texts()[file])
        was = await connection.prepare(sql.statement(Path(file).stem, "sexton"))
        assert len(prepared.get_parameters()) == len(was.get_parameters())
    finally:
        await connection.close()


async def test_mutated_migrations_migrate(database_url: str) -> None:
    """Each in a transaction that is rolled back; from the first that differs on, all of them."""
    files = sorted((SOURCE / MIGRATIONS).glob("*.sql"))
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("drop schema sexton cascade")
        for mutant in MIGRATED:
            texts = mutant.texts()
            moved = connection.transaction()
            await moved.start()
            await connection.execute("create schema sexton")
            for file in files:
                text = texts.get(MIGRATIONS + file.name) or file.read_text()
                await connection.execute(text)
            await moved.rollback()
    finally:
        await connection.close()


def test_there_are_enough_of_them_and_each_has_a_name_of_its_own() -> None:
    assert len(ALL) >= 22
    assert len({each.name for each in ALL}) == len(ALL)


def test_a_mutant_of_another_engine_is_refused() -> None:
    gone = Mutant("x", "y", [Change("sql/clock.sql", "no such text", "")])
    with pytest.raises(DoesNotApply, match="has this 0 times, not 1"):
        gone.texts()


def test_a_copy_is_changed_and_gone_afterwards() -> None:
    [mutant] = [each for each in ALL if each.name == "one attempt too many"]
    with copied(mutant) as folder:
        [(file, text)] = mutant.texts().items()
        assert (folder / "sexton" / file).read_text() == text
    assert not folder.exists()
    assert (SOURCE / file).read_text() != text


def test_only_a_violation_that_the_rig_reports_kills() -> None:
    run = Stage("a run", (), 1.0)
    clean = _told(0)
    assert run.killed_by(Ran(0, clean, "", 1.0)) is None
    assert run.killed_by(Ran(1, _told(2), "", 1.0)) == "a run: none-early"
    point = '{"failed": [{"step": "fire", "way": "kill", "at": 3, "wrong": ["one_owner: x"]}]}'
    assert run.killed_by(Ran(1, point, "", 1.0)) == "crash point fire/kill: one_owner"
    for code, said in ((1, "Traceback …"), (2, clean), (1, ""), (3, ""), (-9, "")):
        with pytest.raises(NoVerdict):
            run.killed_by(Ran(code, said, "it fell over", 1.0))


@pytest.mark.parametrize(
    "said",
    [
        {"failed": [], "not_reached": [{"step": "fire"}], "unproved": [], "uncut": []},
        {"failed": [], "not_reached": [], "unproved": ["fire"], "uncut": []},
        {**_run(0), "not_checked": ["what should be in effects/, which is empty"]},
        {**_run(0), "events": {"did_not_come_back": [], "fell": [{"who": "node-1"}]}},
    ],
)
def test_a_stage_that_did_not_look_at_everything_is_not_passed_by_the_engine_as_it_is(
    said: dict[str, Any],
) -> None:
    stage = Stage("a stage", (), 1.0)
    for code in (1, 3):
        was = Ran(code, json.dumps(said), "", 1.0)
        assert stage.killed_by(was) is None, "and it kills no mutant either"
        assert (stage.failed_by(was) or "").startswith("a stage was not clean: {")
    assert stage.failed_by(Ran(0, json.dumps(said), "", 1.0)) is None


def test_a_stage_that_the_engine_itself_fails_kills_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[str] = []

    def through(stage: Stage, mutant: Mutant) -> Ran:
        tried.append(mutant.name)
        many = 0 if len(tried) < 4 else 2
        return Ran(int(many > 0), _told(many), "", 1.0)

    monkeypatch.setattr(trials, "_through", through)
    [mutant] = [each for each in ALL if each.name == "retries without jitter"]
    trial = trials.Trials(lambda _: None)
    found = trial.hold(mutant)
    assert found.by == "a run of 25 s: none-early"
    assert tried == [UNTOUCHED.name, mutant.name] * 2
    found = trials.Trials(lambda _: None).hold(mutant)
    assert found.by is None
    assert found.wrong == "without it, a run of 10 s: none-early"


def test_rows_of_other_mutants_stay_when_one_is_recorded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path / "RESULTS.md")
    names = [each.name for each in ALL]
    first, second, *_ = ALL
    control = trials.Control(Stage("a run", (), 1.0), None, 9.0)
    report.record([trials.Outcome(first, "a run: none-early", 3.0)], [control], names)
    report.record([trials.Outcome(second, None, 4.0)], [], names)
    text = (tmp_path / "RESULTS.md").read_text()
    assert f"| {first.name} | {first.does} | a run: none-early | 3 s |" in text
    assert f"| {second.name} | {second.does} | **nothing** | 4 s |" in text
    assert "| a run | passes | 9 s |" in text
    report.record([], [], names[1:])
    assert first.name not in (tmp_path / "RESULTS.md").read_text()


def test_the_story_of_a_violation_may_have_rows_that_were_deleted() -> None:
    gone = Row(1, 5, 9, "dead", "D", 7, None, None)  # type: ignore[arg-type]
    folder = SimpleNamespace(changes=lambda: [gone], effects=list, faults=[])
    violation = Violation("nothing-lost", "job 7 is nowhere", 6, job=7)
    world = SimpleNamespace(jobs={}, schedules={})
    evidence: Any = SimpleNamespace(folder=folder, world=world, asks=[])
    [told] = Timeline(evidence, [violation]).tell()
    assert told == ["00:00:00.000005  - dead 7  (tx 9)"]
