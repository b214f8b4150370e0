"""The tables, in Markdown, and the record of a run."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.report import commit, table

from torture.peers.count import CALM, Fire, Tally, by_kind, gaps, percentile
from torture.peers.run import Outcome
from torture.peers.timeline import ABOUT, KINDS, Fault

RECORD = Path(__file__).parent / "RESULTS.md"
GROUPS = {
    ("ten", "minute"): "Schedules of every ten seconds and of every minute",
    ("second",): "Schedules of every second",
}


def whole(outcomes: Sequence[Outcome], faults: Sequence[Fault], seed: int, seconds: int) -> str:
    """Everything there is to say about a run."""
    parts = [_circumstances(outcomes, faults, seed, seconds)]
    for groups, title in GROUPS.items():
        rows = [_row(outcome, fires) for outcome, fires in _of(outcomes, groups)]
        if rows:
            parts += [f"### {title}", table(HEAD, rows)]
    parts += ["### By the fault before", _kinds(outcomes)]
    parts += ["### Seconds until every fire was prompt again", _gaps(outcomes)]
    parts += ["\n".join(f"- {note}" for note in _notes(outcomes))]
    return "\n\n".join(part for part in parts if part)


HEAD = [
    "per 100,000 due (number)",
    "due",
    "missed",
    "of them cut off",
    "run twice",
    "one job run again",
    "late p50, s",
    "p99, s",
    "most, s",
]


def _of(
    outcomes: Iterable[Outcome], groups: tuple[str, ...]
) -> Iterable[tuple[Outcome, list[Fire]]]:
    for outcome in outcomes:
        fires = [fire for fire in outcome.fires if fire.schedule.group in groups]
        if fires:
            yield outcome, fires


def _row(outcome: Outcome, fires: list[Fire]) -> list[str]:
    tally = Tally.of(fires)
    lags = [fire.lag for fire in fires if not fire.missed]
    numbers = (tally.missed, tally.cut_off, tally.twice, tally.rerun)
    return [
        outcome.system.name,
        f"{tally.due:,}",
        *(f"{tally.per_100k(number):,.0f} ({number:,})" for number in numbers),
        *(f"{percentile(lags, share):.2f}" for share in (0.5, 0.99, 1.0)),
    ]


def _kinds(outcomes: Sequence[Outcome]) -> str:
    """Missed and doubled for each kind; the schedules that everybody has."""
    kinds = [CALM, *KINDS]
    rows = []
    for outcome, fires in _of(outcomes, ("ten", "minute")):
        tallies = by_kind(fires, outcome.faults)
        for what in ("missed", "run twice", "run again"):
            row = [f"{outcome.system.name}: {what}"]
            for kind in kinds:
                tally = tallies.get(kind, Tally())
                number = {"missed": tally.missed, "run twice": tally.twice}.get(what, tally.rerun)
                row.append(f"{tally.per_100k(number):,.0f} ({number:,})")
            if any(not cell.endswith("(0)") for cell in row[1:]):
                rows.append(row)
    return table(["per 100,000 due (number)", *kinds], rows) if rows else "Nothing to blame."


def _gaps(outcomes: Sequence[Outcome]) -> str:
    rows = []
    for outcome, fires in _of(outcomes, ("ten", "minute")):
        found = gaps(fires, outcome.faults, outcome.end)
        row = [outcome.system.name]
        for kind in KINDS:
            of_kind = sorted(
                (gap for gap in found if gap.kind == kind), key=lambda gap: gap.seconds
            )
            row.append(
                " · ".join(f"{'≥ ' if gap.open else ''}{gap.seconds:.1f}" for gap in of_kind) or "–"
            )
        rows.append(row)
    return table(["each fault of the kind", *KINDS], rows)


def _notes(outcomes: Iterable[Outcome]) -> Iterable[str]:
    for outcome in outcomes:
        more = f"; {outcome.stray} runs when nothing was due" if outcome.stray else ""
        more += "" if outcome.steady else "; it was not prompt even before the first fault"
        yield (
            f"{outcome.system.name}: {outcome.system.settings}; processes ended by themselves"
            f" {outcome.gave_up} times{more}; load {outcome.load[0]:.0f} to {outcome.load[1]:.0f}."
        )


def _circumstances(
    outcomes: Sequence[Outcome], faults: Sequence[Fault], seed: int, seconds: int
) -> str:
    versions = ", ".join(dict.fromkeys(outcome.version for outcome in outcomes))
    kinds = ", ".join(
        f"{ABOUT[kind]} ×{sum(fault.kind == kind for fault in faults)}" for kind in KINDS
    )
    return (
        f"{seconds} s each, seed {seed}, {len(faults)} faults ({kinds}); commit {commit()};"
        f" {os.cpu_count()} cores ({platform.machine()}), PostgreSQL 18, Python"
        f" {platform.python_version()}; {versions}"
    )


def record(text: str) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    if not RECORD.exists():
        RECORD.write_text(
            "# Side by side under faults\n\nAppended by `python -m torture.peers --record`. What"
            " the columns mean, and what each system was asked for, is in [README.md](README.md).\n"
        )
    with RECORD.open("a") as file:
        file.write(f"\n## {now}\n\n{text}\n")
