"""What many runs came to: `python -m torture.totals FILE…` adds what `torture --json` printed.

With --record they are kept in torture/runs, and torture/RESULTS.md is written from all that are
there; without a FILE it is only written anew.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sexton.torture.cast import Size
from sexton.torture.report import FINDINGS

Report = dict[str, Any]

RUNS = Path(__file__).with_name("runs")
RESULTS = Path(__file__).with_name("RESULTS.md")
ABOUT = """\
# Runs under faults

Written by `python -m torture.totals --record` from the reports in [runs](runs), each what
`sexton torture --json` printed, without its text. What is done, what is checked and what the words
mean is in [docs/reliability.md](../docs/reliability.md)."""
# What a report has for people, and for whoever looks into one run.
LEFT_OUT = ("text", "found", "folder", "left_behind", "unclear")
_ABOUT = ("seed", "when", "commit", "minutes", "fires/s", "schedules")
_COUNTED = (
    *("faults", "instants", "fires", "jobs", "attempts"),
    *("violations", "misbehaved", "not checked"),
)
_SHARES = (0.5, 0.9, 0.99)


def tables(reports: Iterable[Report]) -> Iterator[str]:
    """Markdown: the runs, what was done to them, what was checked, and how long things took."""
    runs = sorted(reports, key=lambda each: each["seed"])
    for title, part in _PARTS.items():
        yield from (f"## {title}", "")
        yield from part(runs)
        yield ""


def _runs(runs: list[Report]) -> Iterator[str]:
    """A fire is an instant that made a job; each other instant has a reason. Who misbehaved fell,
    did not end when it was told to, or did not come back."""
    names = (*_ABOUT, *_COUNTED)
    yield f"| {' | '.join(names)} |"
    yield "|---:|---|---|" + "---:|" * (len(names) - 3)
    rows = [_counted(each) for each in runs]
    for each, row in zip(runs, rows, strict=True):
        minutes = f"{(each.get('seconds') or 0) / 60:g}"
        about = [
            *(each["seed"], _when(each), each.get("commit") or "?", minutes),
            *(_rate(each), f"{each['counts']['schedules']:,}"),
        ]
        yield f"| {' | '.join(map(str, about))} | {_row(row)} |"
    minutes = f"{sum(each.get('seconds') or 0 for each in runs) / 60:g}"
    total = _row(map(sum, zip(*rows, strict=True)))
    yield f"| **{len(runs)}** | | | {minutes} | | | {total} |"
    for each in runs:
        for why in each["not_checked"]:
            yield from ("", f"Seed {each['seed']}, not checked: {why}.")
        for finding in FINDINGS:
            for one in each["events"].get(finding, ()):
                yield from ("", f"Seed {each['seed']}: {one['who']} {finding.replace('_', ' ')}.")


def _counted(run: Report) -> list[int]:
    counts, events = run["counts"], run["events"]
    misbehaved = sum(len(events.get(each, ())) for each in FINDINGS)
    return [
        *(events["faults"], counts["fires decided"], counts["fires fired"]),
        *(counts["jobs"], counts["attempts"]),
        *(run["violations"], misbehaved, len(run["not_checked"])),
    ]


def _when(run: Report) -> str:
    began = run.get("began_at")
    return "?" if began is None else f"{datetime.fromtimestamp(began / 1e6, UTC):%Y-%m-%d %H:%M}"


def _rate(run: Report) -> str:
    """What it was asked for."""
    asked = re.search(r"--fires (\S+)", run.get("replay") or "")
    return asked[1] if asked else f"{Size().fires_per_second:g}"


def _decisions(runs: list[Report]) -> Iterator[str]:
    made: Counter[str] = Counter()
    for each in runs:
        made.update(each["decisions"])
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
    """Of all runs together: each run's spread stands for all of its cases."""
    found: dict[str, list[Report]] = {}
    for run in runs:
        for each in run["figures"]:
            found.setdefault(each["name"], []).append(each)
    yield "| seconds | cases | left out | never | p50 | p90 | p99 | max | |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---|"
    for name, figures in found.items():
        counts = _row(
            sum(each[which] for each in figures) for which in ("count", "left_out", "never")
        )
        told = [each for each in figures if each["count"]]
        shown = ["–"] * (len(_SHARES) + 1)
        if told:
            most = max(each["max"] for each in told)
            shown = [f"{min(each, most):.2f}" for each in (*_quantiles(told), most)]
        yield f"| {name} | {counts} | {' | '.join(shown)} | {figures[0]['means']} |"


def _quantiles(figures: Sequence[Report]) -> Iterator[float]:
    weighed = sorted(
        (seconds, each["count"] / len(each["spread"]))
        for each in figures
        for seconds in each["spread"]
    )
    total = sum(weight for _, weight in weighed)
    for share in _SHARES:
        below = 0.0
        for seconds, weight in weighed:
            below += weight
            if below >= share * total:
                yield seconds
                break


def _row(numbers: Iterable[int]) -> str:
    return " | ".join(f"{each:,}" for each in numbers)


_PARTS = {
    "The runs": _runs,
    "What became of each instant": _decisions,
    "What was done to them": _faults,
    "What was checked": _invariants,
    "How long things took": _figures,
}


def record(reports: Iterable[Report]) -> None:
    """Keep them, and tell of all that are kept."""
    RUNS.mkdir(exist_ok=True)
    for each in reports:
        kept = {name: value for name, value in each.items() if name not in LEFT_OUT}
        (RUNS / f"{each['seed']}.json").write_text(json.dumps(kept, separators=(",", ":")) + "\n")
    every = [json.loads(path.read_text()) for path in RUNS.glob("*.json")]
    RESULTS.write_text("\n".join([ABOUT, "", *tables(every)]).rstrip() + "\n")


def _read(file: Path) -> Report:
    try:
        report: Report = json.loads(file.read_text())
        next(_runs([report]))
        _counted(report)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SystemExit(f"{file} is not what `sexton torture --json` prints: {error}") from error
    return report


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m torture.totals",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("reports", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--record", action="store_true", help="keep them, and write RESULTS.md")
    given = parser.parse_args()
    if not given.reports and not given.record:
        parser.error("give a FILE, or --record")
    reports = [_read(each) for each in given.reports]
    if given.record:
        record(reports)
    else:
        sys.stdout.writelines(f"{line}\n" for line in tables(reports))


if __name__ == "__main__":
    main()
