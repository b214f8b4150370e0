"""The tables: measured figures, ratios to the floor, and the goals. Markdown everywhere."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import UTC, datetime

from bench.contenders import BY_NAME
from bench.driver import HERE
from bench.goals import GOALS
from bench.results import Results
from bench.scenarios import SCENARIOS
from bench.scenarios.base import Column
from sexton.targets.process import cpus

RECORD = HERE / "RESULTS.md"
WHERE = re.compile(r"(?<!\S)['\"]?(?:\w+://|/)\S+")  # addresses and paths: no use to a reader


def table(head: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(cells: list[str]) -> str:
        first, *rest = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join([first, *rest])} |"

    rule = ["-" * width if i == 0 else "-" * (width - 1) + ":" for i, width in enumerate(widths)]
    return "\n".join([line(head), line(rule), *(line(row) for row in rows)])


def shown(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def measured_columns(results: Results, names: list[str]) -> list[Column]:
    return [
        column
        for scenario in names
        for column in SCENARIOS[scenario].columns
        if any(results.figures[column.key].values())
    ]


def figures(results: Results, scenarios: list[str], contenders: list[str]) -> str:
    """One table for each group of scenarios that share contenders, so few cells are dashes."""
    groups = (
        ["single", "bulk", "drain1", "drain2", "latency"],
        ["wal"],
        ["held"],
        ["idle", "million", "rss"],
        *(["stampede"], ["steady"], ["scale"], ["failover"], ["calendar"]),
    )
    parts: list[str] = []
    for group in groups:
        columns = measured_columns(results, [name for name in group if name in scenarios])
        rows = [
            [name, *(shown(results.median(column.key, name), column.form) for column in columns)]
            for name in contenders
            if any(results.figures[column.key][name] for column in columns)
        ]
        if rows:
            parts.append(table(["median", *(column.title for column in columns)], rows))
        ratios = [
            [
                f"{name} × floor",
                *(shown(results.ratio(column.key, name, "floor"), ".2f") for column in columns),
            ]
            for name in contenders
            if name != "floor" and rows
        ]
        ratios = [row for row in ratios if any(cell != "–" for cell in row[1:])]
        if ratios:
            parts.append(table(["ratio", *(column.title for column in columns)], ratios))
    return "\n\n".join(parts)


def goals(results: Results) -> str:
    rows = []
    for goal in GOALS:
        value = goal.measured(results)
        if value is not None:
            reached = "yes" if goal.reached(value) else "**no**"
            rows.append([goal.about, goal.bound(), format(value, ".3g"), reached])
    return table(["Sexton", "goal", "measured", "reached"], rows) if rows else ""


def commit() -> str:
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True, text=True
    )
    return told.stdout.strip() or "no commit yet"


def circumstances(results: Results, postgresql: str, rounds: int, quick: bool) -> str:
    versions = ", ".join(
        f"{BY_NAME[name].package} {number}" for name, number in results.versions.items() if number
    )
    kind = "quick" if quick else "full"
    load = os.getloadavg()[0]
    return (
        f"{kind} run, {rounds} rounds; commit {commit()}; {cpus()} cores"
        f" ({platform.machine()}), PostgreSQL {postgresql}, Python {platform.python_version()};"
        f" load at the end {load:.1f}; {versions}"
    )


def whole(results: Results, scenarios: list[str], contenders: list[str], about: str) -> str:
    parts = [about, figures(results, scenarios, contenders), goals(results)]
    parts += ["\n".join(f"- {WHERE.sub('…', note)}" for note in results.notes)]
    return "\n\n".join(part for part in parts if part)


def record(text: str) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    if not RECORD.exists():
        RECORD.write_text("# Benchmark runs\n\nAppended by `python -m bench --record`.\n")
    with RECORD.open("a") as file:
        file.write(f"\n## {now}\n\n{text}\n")
