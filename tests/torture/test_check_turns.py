"""The checker on what is made up for: backfills at their rate, and tenants one after the other."""

from pathlib import Path

import pytest

from sexton.torture.check import judge

from .by_hand import BEGINS, SECOND, Line, Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "run")


def _violations(run: Run) -> list[str]:
    verdict = judge(run.save())
    [invariant] = [each for each in verdict.invariants if each.name == "catch-up-rate"]
    return [each.what for each in invariant.violations]


def _fire(run: Run, at: float, schedule: int, kind: str, term: int = 1) -> None:
    past = BEGINS - 60 * SECOND
    now = {
        **{"fire_at": past, "scheduled": past, "decided": BEGINS, "job": None, "term": term},
        **{"node": None, "decision": "fired", "kind": kind},
    }
    run.change(at, "fire", "I", schedule, now=now)


# ── backfills ───────────────────────────────────────────────────────────────


class Backfill:
    """One that goes on as it is told to; the order of what a transaction writes is no order."""

    def __init__(self, run: Run, id: int, rate: float) -> None:
        self._run = run
        self._id = id
        self._row: Line = {"schedule": 10 + id, "from": 0, "to": 1, "next": 0, "rate": rate}
        self._row |= {"fired": 0, "finished": None}
        run.change(0, "backfill", "I", id, now={**self._row})

    def go_on(self, at: float, fires: int, term: int = 1) -> None:
        self._row["fired"] += fires
        changes = self._run.changes
        first = len(changes)
        for nth in range(fires):
            if nth == fires // 2:
                self._run.change(at, "backfill", "U", self._id, now={**self._row})
            _fire(self._run, at, self._row["schedule"], "backfill", term)
        for each in changes[first:]:
            each["tx"] = 10**6 + first


@pytest.mark.parametrize(
    ("rate", "fires", "many"), [(5, 5, 0), (5, 6, 1), (0.5, 1, 0), (0.5, 2, 1)]
)
def test_a_backfill_makes_up_for_a_second_at_once(
    run: Run, rate: float, fires: int, many: int
) -> None:
    Backfill(run, 1, rate).go_on(1, fires)
    found = _violations(run)
    assert len(found) == many
    assert all(
        each.startswith(f"{fires} fires of backfill 1 were released at {rate:g}") for each in found
    )


def test_a_backfill_goes_on_at_its_rate(run: Run) -> None:
    """With what it saved up, and what the answer that was lost had told; four times a second."""
    one, two = Backfill(run, 1, 4.0), Backfill(run, 2, 1.0)
    for nth in range(4):
        one.go_on(1 + nth / 10, 4)
    for nth in range(80):
        one.go_on(1.5 + nth / 4, 1)
        if nth % 4 == 0:
            two.go_on(1.5 + nth / 4, 1)
    assert not _violations(run)


@pytest.mark.parametrize(("apart", "seconds"), [(0.1, 1), (0.3, 5), (0.75, 20)])
def test_a_backfill_that_deducts_nothing_is_seen(run: Run, apart: float, seconds: int) -> None:
    backfill = Backfill(run, 1, 2.0)
    for nth in range(40):
        backfill.go_on(1 + nth * apart, 2)
    assert any(each.endswith(f"in {seconds} s") for each in _violations(run))


def test_each_leader_has_a_burst_of_its_own(run: Run) -> None:
    backfill = Backfill(run, 1, 2.0)
    for term in range(7):
        backfill.go_on(1 + term / 10, 2, term)
    assert not _violations(run)


# ── tenants ─────────────────────────────────────────────────────────────────


def _due(run: Run, at: float, schedule: int, tenant: int, *, late: bool, next: float = 0) -> None:
    """Where a schedule stands from now on; before that it was late, unless it is now."""
    until = BEGINS + round(next * SECOND)
    more = {"stamp": 1, "scheduled": None, "left": None, "last": None, "tenant": tenant}
    was = {"next": BEGINS, "stamp": 1, "late": True}
    run.change(at, "due", "U", schedule, was=was, now={**more, "next": until, "late": late})


def _others_catch_up(run: Run, *seconds: int) -> None:
    """Every second a few schedules of the first tenant are moved on, and stay late."""
    for second in seconds:
        for nth in range(3):
            at = second + 0.3 * nth
            _due(run, at, 1, 1, late=True, next=at)
            _fire(run, at, 1, "catch_up")


@pytest.mark.parametrize(
    ("seconds", "turn", "many"),
    [
        (range(1, 60), None, 1),
        (range(1, 60), 58, 1),
        (range(1, 60), 30, 0),
        (range(1, 39), None, 0),
        (range(1, 39), 300, 0),
    ],
)
def test_a_tenant_that_is_not_caught_up_with_starves(
    run: Run, seconds: range, turn: int | None, many: int
) -> None:
    """Not while nobody is, nor if somebody moves one of its schedules on, whoever that is."""
    _due(run, 0, 1, 1, late=True)
    _due(run, 0, 2, 2, late=True)
    _due(run, 0, 3, 2, late=True)
    for second in seconds:
        _others_catch_up(run, second)
        if second == turn:
            _due(run, turn + 0.9, 3, 2, late=False, next=999)
    if turn == 300:
        _due(run, turn, 2, 2, late=False, next=999)
        _due(run, turn, 3, 2, late=False, next=999)
    found = _violations(run)
    assert len(found) == many
    assert all(each.startswith("tenant 2 waited for ") for each in found)


def test_a_look_at_a_schedule_is_no_turn(run: Run) -> None:
    """It is late as before, and where it was."""
    _due(run, 0, 1, 1, late=True)
    _due(run, 0, 2, 2, late=True)
    for second in range(1, 60):
        _others_catch_up(run, second)
        _due(run, second + 0.9, 2, 2, late=True)
    assert len(_violations(run)) == 1
