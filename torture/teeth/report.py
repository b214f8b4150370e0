"""The tables of the mutants and of the control, for people."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from torture.teeth.mutant import ROOT
from torture.teeth.trials import Control, Outcome

RESULTS = Path(__file__).with_name("RESULTS.md")
_TITLE = "# Teeth: what kills each mutant of the engine"
_ABOUT = """\
Written by `python -m torture.teeth --record`. A mutant is the engine with one thing undone. What
killed it is the first stage of the rig that reported a violation; the seconds are those of all its
stages up to there."""
_MUTANTS = (
    "| mutant | what somebody did | killed by | after | when, of which commit |",
    "|---|---|---|---:|---|",
)
_CONTROL = "The engine as it is, through the same stages:"
_STAGES = ("| stage | control | after | when, of which commit |", "|---|---|---:|---|")


def table(outcomes: Iterable[Outcome]) -> str:
    return "\n".join([*_MUTANTS, *(_of_mutant(each) for each in outcomes)])


def summary(outcomes: Sequence[Outcome]) -> str:
    killed = sum(each.by is not None for each in outcomes)
    return f"{killed} of {len(outcomes)} mutants killed"


def record(outcomes: Iterable[Outcome], controls: Iterable[Control], names: Sequence[str]) -> None:
    """Rows in the place of older ones; those of mutants that are no more go."""
    rows = _recorded()
    rows |= {each.mutant.name: _of_mutant(each) for each in outcomes}
    rows |= {each.stage.name: _of_stage(each) for each in controls}
    mutants = [rows[name] for name in names if name in rows]
    stages = [row for name, row in sorted(rows.items()) if name not in names and _is_stage(row)]
    parts = [_TITLE, "", _ABOUT, "", *_MUTANTS, *mutants, "", _CONTROL, "", *_STAGES, *stages]
    RESULTS.write_text("\n".join(parts) + "\n")


def _of_mutant(outcome: Outcome) -> str:
    by = outcome.by or ("no verdict" if outcome.wrong else "**nothing**")
    return _row(outcome.mutant.name, outcome.mutant.does, by, outcome.seconds)


def _of_stage(control: Control) -> str:
    # What was found is said when it is found; a row has one line.
    said = (control.wrong or "passes").splitlines()[0]
    return _row(control.stage.name, said, control.seconds)


def _row(*cells: str | float) -> str:
    *texts, seconds = cells
    when = f"{datetime.now(UTC):%Y-%m-%d}, {_commit()}"
    return f"| {' | '.join(map(str, texts))} | {seconds:.0f} s | {when} |"


def _recorded() -> dict[str, str]:
    """Rows by the names in their first cell."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    rows = [line for line in lines if line.startswith("| ")]
    found = {line.split(" | ")[0].removeprefix("| "): line for line in rows}
    return {name: row for name, row in found.items() if row not in (_MUTANTS[0], _STAGES[0])}


def _is_stage(row: str) -> bool:
    return row.count(" | ") == _STAGES[0].count(" | ")


def _commit() -> str:
    asked = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False)
    return said.stdout.strip() or "unknown"
