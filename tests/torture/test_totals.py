"""What many runs came to is what each came to, added up."""

from typing import Any

from torture.totals import tables


def report(seed: int, fires: int, violations: int, p50: float | None) -> dict[str, Any]:
    counts = {"faults": 10, "fires decided": fires, "jobs": 2 * fires, "attempts": 3 * fires}
    figure = {"name": "failover gap", "means": "to its successors", "count": 4 if p50 else 0}
    figure |= {"left_out": 3, "never": violations}
    return {
        "seed": seed,
        "counts": counts,
        "decisions": {"fired": fires, "missed": 1},
        "violations": violations,
        "not_checked": ["the end: the run was cut short"] if seed == 5 else [],
        "events": {"by_kind": {"kill": 7, "stop": seed}},
        "invariants": [{"name": "none-early", "checked": fires, "violations": violations}],
        "figures": [{**figure, "p50": p50, "p99": p50 and 2 * p50, "max": p50 and 3 * p50}],
    }


def test_runs_are_added_up_and_the_worst_of_their_gaps_is_told() -> None:
    runs = [report(9, 2000, 1, 3.0), report(2, 1000, 0, 1.0), report(5, 1, 0, None)]
    lines = list(tables(runs))
    assert [line.split("|")[1].strip() for line in lines[2:6]] == ["2", "5", "9", "**3 runs**"]
    assert "| **3 runs** | 30 | 3,001 | 6,002 | 9,003 | 1 | 1 |" in lines
    assert "Seed 5, not checked: the end: the run was cut short." in lines
    assert "| fired | 3,001 |" in lines
    assert "| missed | 3 |" in lines
    assert "| kill | 21 |" in lines
    assert "| none-early | 3,001 | 1 |" in lines
    assert "| failover gap | 8 | 9 | 1 | 2.00 | 6.00 | 9.00 | to its successors |" in lines


def test_what_never_happened_is_told_as_that() -> None:
    assert "| failover gap | 0 | 3 | 0 | – | – | – | to its successors |" in list(
        tables([report(1, 1, 0, None)])
    )
