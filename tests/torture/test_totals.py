"""What many runs came to is what each came to, added up."""

import json
from pathlib import Path
from typing import Any

import pytest
from torture.totals import tables

from torture import totals


def report(seed: int, fires: int, violations: int, spread: list[float]) -> dict[str, Any]:
    counts = {"schedules": 1400, "faults": 12, "fires decided": fires + 1, "fires fired": fires}
    figure = {"name": "failover gap", "means": "to its successors", "count": 2 * len(spread)}
    figure |= {"left_out": 3, "never": violations, "spread": spread, "max": max(spread, default=0)}
    return {
        "seed": seed,
        "seconds": 900.0,
        "replay": f"sexton torture --seed {seed}" + " --fires 60" * (seed == 2),
        "commit": "abcdef0",
        "began_at": 1_794_995_675_039_492,
        "counts": counts | {"jobs": 2 * fires, "attempts": 3 * fires},
        "decisions": {"fired": fires, "missed": 1},
        "violations": violations,
        "not_checked": ["the end: the run was cut short"] if seed == 5 else [],
        "events": {"faults": 10, "by_kind": {"kill": 7, "stop": seed}},
        "invariants": [{"name": "none-early", "checked": fires, "violations": violations}],
        "figures": [figure],
        "text": "for people",
    }


def test_runs_are_added_up_and_their_gaps_put_together() -> None:
    runs = [
        report(9, 2000, 1, [1.0, 2.0, 9.0]),
        report(2, 1000, 0, [1.0]),
        report(5, 1, 0, []),
    ]
    runs[0]["events"] |= {"fell": [{"who": "node-1"}], "did_not_end": [{"who": "worker-4"}]}
    lines = list(tables(runs))
    assert [line.split("|")[1].strip() for line in lines[4:8]] == ["2", "5", "9", "**3**"]
    about = "| 2026-11-18 09:54 | abcdef0 | 15 |"
    assert lines[4].startswith(f"| 2 {about} 60 | 1,400 | 10 | 1,001 | 1,000 |")
    assert lines[5].startswith(f"| 5 {about} 110 | 1,400 | 10 |")
    assert "| **3** | | | 45 | | | 30 | 3,004 | 3,001 | 6,002 | 9,003 | 1 | 2 | 1 |" in lines
    assert "Seed 5, not checked: the end: the run was cut short." in lines
    assert {"Seed 9: node-1 fell.", "Seed 9: worker-4 did not end."} <= {*lines}
    assert "| fired | 3,001 |" in lines
    assert "| missed | 3 |" in lines
    assert "| kill | 21 |" in lines
    assert "| none-early | 3,001 | 1 |" in lines
    gap = "| failover gap | 8 | 9 | 1 | 1.00 | 9.00 | 9.00 | 9.00 | to its successors |"
    assert gap in lines


def test_a_run_with_many_cases_weighs_more_than_one_with_few() -> None:
    many, few = report(1, 1, 0, [1.0, 1.0]), report(2, 1, 0, [5.0, 5.0])
    many["figures"][0]["count"] = 980
    few["figures"][0]["count"] = 20
    [line] = [each for each in tables([many, few]) if each.startswith("| failover gap")]
    assert "| 1,000 | 6 | 0 | 1.00 | 1.00 | 5.00 | 5.00 |" in line


def test_what_never_happened_is_told_as_that() -> None:
    assert "| failover gap | 0 | 3 | 0 | – | – | – | – | to its successors |" in list(
        tables([report(1, 1, 0, [])])
    )


def test_what_is_recorded_is_told_of_together_with_what_was_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(totals, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(totals, "RESULTS", tmp_path / "RESULTS.md")
    totals.record([report(1, 10, 0, [1.0])])
    totals.record([report(2, 20, 0, [2.0])])
    assert (
        "| **2** | | | 30 | | | 20 | 32 | 30 | 60 | 90 | 0 | 0 | 0 |" in totals.RESULTS.read_text()
    )
    assert "text" not in json.loads((totals.RUNS / "1.json").read_text())


def test_what_is_published_is_what_the_recorded_runs_come_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    published = totals.RESULTS.read_text()
    monkeypatch.setattr(totals, "RESULTS", tmp_path / "RESULTS.md")
    totals.record([])
    assert totals.RESULTS.read_text() == published


def test_the_page_tells_what_the_recorded_runs_come_to() -> None:
    page = totals.RESULTS.parents[1] / "docs" / "reliability.md"
    told = page.read_text().partition("<!-- from torture/RESULTS.md -->\n")[2].partition("\n\n")[0]
    recorded = totals.RESULTS.read_text().partition("## How long things took\n\n")[2]
    assert told == recorded.rstrip()
    runs = [json.loads(each.read_text()) for each in totals.RUNS.glob("*.json")]
    fires = sum(each["counts"]["fires fired"] for each in runs)
    faults = sum(each["events"]["faults"] for each in runs)
    violations = sum(each["violations"] for each in runs)
    assert f"{fires:,} fires, {faults:,} faults, **{violations} violations**" in page.read_text()


def test_a_file_that_is_no_report_is_refused_by_name(tmp_path: Path) -> None:
    for text in ("nonsense", "{}", "[]"):
        file = tmp_path / "x.json"
        file.write_text(text)
        with pytest.raises(SystemExit, match=r"x\.json is not what `sexton torture --json` prints"):
            totals._read(file)
