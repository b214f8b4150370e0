"""What many runs came to: `python -m torture.totals FILE…` adds what `torture --json` printed."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

Report = dict[str, Any]
COUNTED = {"faults": "faults", "fires decided": "fires", "jobs": "jobs", "attempts": "attempts"}


def tables(reports: Iterable[Report]) -> Iterator[str]:
    """Markdown: the runs, what was done to them, what was checked, and how long things took."""
    runs = sorted(reports, key=lambda each: each["seed"])
    yield from _runs(runs)
    yield ""
    yield from _decisions(runs)
    yield ""
    yield from _faults(runs)
    yield ""
    yield from _invariants(runs)
    yield ""
    yield from _figures(runs)


def _runs(runs: list[Report]) -> Iterator[str]:
    yield f"| seed | {' | '.join(COUNTED.values())} | violations | not checked |"
    yield "|---:" * (len(COUNTED) + 3) + "|"
    rows = [[*(each["counts"][name] for name in COUNTED), *_found(each)] for each in runs]
    for each, row in zip(runs, rows, strict=True):
        yield f"| {each['seed']} | {_row(row)} |"
    yield f"| **{len(runs)} runs** | {_row(map(sum, zip(*rows, strict=True)))} |"
    for each in runs:
        for why in each.get("not_checked", ()):
            yield ""
            yield f"Seed {each['seed']}, not checked: {why}."


def _found(run: Report) -> tuple[int, int]:
    return run["violations"], len(run.get("not_checked", ()))


def _decisions(runs: list[Report]) -> Iterator[str]:
    made: Counter[str] = Counter()
    for each in runs:
        made.update(each.get("decisions", {}))
    yield "| instants | |"
    yield "|---|---:|"
    for name, many in made.most_common():
        yield f"| {name} | {many:,} |"


def _faults(runs: list[Report]) -> Iterator[str]:
    kinds: Counter[str] = Counter()
    for each in runs:
        kinds.update(each["events"]["by_kind"])
    yield "| fault | times |"
    yield "|---|---:|"
    for kind, times in kinds.most_common():
        yield f"| {kind} | {times:,} |"


def _invariants(runs: list[Report]) -> Iterator[str]:
    checked: Counter[str] = Counter()
    violated: Counter[str] = Counter()
    for run in runs:
        for each in run["invariants"]:
            checked[each["name"]] += each["checked"]
            violated[each["name"]] += each["violations"]
    yield "| invariant | checked | violated |"
    yield "|---|---:|---:|"
    for name, many in checked.items():
        yield f"| {name} | {many:,} | {violated[name]:,} |"


def _figures(runs: list[Report]) -> Iterator[str]:
    """Quantiles of runs cannot be added: the middle one of their medians, the worst of the rest."""
    found: dict[str, list[Report]] = {}
    for run in runs:
        for each in run["figures"]:
            found.setdefault(each["name"], []).append(each)
    yield "| seconds | cases | left out | never | p50 | p99 | max | |"
    yield "|---|---:|---:|---:|---:|---:|---:|---|"
    for name, figures in found.items():
        told = [each for each in figures if each["count"]]
        counts = _row(
            sum(each.get(which, 0) for each in figures) for which in ("count", "left_out", "never")
        )
        if not told:
            yield f"| {name} | {counts} | – | – | – | {figures[0]['means']} |"
            continue
        middle = median(each["p50"] for each in told)
        p99, most = (max(each[which] for each in told) for which in ("p99", "max"))
        shown = f"{middle:.2f} | {p99:.2f} | {most:.2f}"
        yield f"| {name} | {counts} | {shown} | {figures[0]['means']} |"


def _row(numbers: Iterable[int]) -> str:
    return " | ".join(f"{each:,}" for each in numbers)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m torture.totals", description=__doc__)
    parser.add_argument("reports", nargs="+", type=Path, metavar="FILE")
    given = parser.parse_args()
    for line in tables(json.loads(each.read_text()) for each in given.reports):
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
