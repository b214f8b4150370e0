"""The checker on turns: of tenants in a queue, of queues, and of lanes whose limit has room."""

from pathlib import Path

import pytest

from sexton.torture.check import judge

from .by_hand import BEGINS, SECOND, Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Run(tmp_path / "run")
    made.run["calm_at"] = BEGINS + 9999 * SECOND  # this is not about the end
    return made


def _found(run: Run) -> list[str]:
    verdict = judge(run.save())
    [invariant] = [each for each in verdict.invariants if each.name == "nothing-starves"]
    return [each.what for each in invariant.violations]


def _others(run: Run, since: float, until: float, every: float) -> None:
    """Others of the queue, claimed one after the other as soon as they are there."""
    at = since
    while at < until:
        id = 1000 + len(run.changes)
        run.job(at, id)
        run.claim(at + 0.1, id, id, due=at)
        at += every


@pytest.mark.parametrize("every", [0.25, 1.25], ids=["busy", "at 48 a minute"])
def test_a_tenant_that_never_has_its_turn_starves(run: Run, every: float) -> None:
    run.job(0, 1, tenant=2)
    _others(run, 0, 75, every)
    [what] = _found(run)
    assert "other tenants" in what


def test_a_tenant_of_a_queue_in_which_nothing_is_claimed_does_not_starve(run: Run) -> None:
    """An outage, for example; it is over for others when it is for this one."""
    run.job(0, 1, tenant=2)
    _others(run, 0, 10, 0.25)
    _others(run, 300, 309, 0.25)
    run.claim(309, 1, 1, due=0)
    assert not _found(run)


@pytest.mark.parametrize(("turn", "many"), [(None, 1), (18, 0)])
def test_a_tenant_whose_turn_comes_very_late_starves(
    run: Run, turn: float | None, many: int
) -> None:
    """Its own claim at the end is no excuse; one in between is."""
    run.job(0, 1, tenant=2)
    run.job(0, 2, tenant=2, priority=1)
    _others(run, 0, 18, 0.25)
    if turn is not None:
        run.claim(turn, 2, 1, due=0)
    _others(run, 18.25, 36, 0.25)
    run.claim(36, 1, 2, due=0)
    found = [each for each in _found(run) if "job 1 waited" in each]
    assert len(found) == many


@pytest.mark.parametrize(("seconds", "many"), [(28, 0), (35, 1)])
def test_a_queue_of_which_nobody_claims_starves(run: Run, seconds: int, many: int) -> None:
    run.job(0, 1, queue="forgotten")
    _others(run, 0, seconds, 0.25)
    assert ["other queues" in each for each in _found(run)] == [True] * many


@pytest.mark.parametrize(("full_for", "many"), [(0, 1), (10, 1), (25, 0)])
def test_a_lane_whose_limit_has_room_starves(run: Run, full_for: float, many: int) -> None:
    """The time is left out in which all that its limit allows run."""
    limit = {"max_running": 1, "max_running_per_key": None}
    policy = {"max_attempts": 1, "base": 1, "factor": 1, "cap": 1}
    run.change(0, "task", "I", None, now={"name": "limited", **policy, **limit})
    of = {"task": "limited", "limited": True, "limit_key": None}
    run.job(0, 1, **of)
    if full_for:
        run.job(0, 2, **of)
        run.claim(0.05, 2, 1, due=0)
    run.job(0.1, 3, **of)
    _others(run, 0.2, full_for, 0.25)
    if full_for:
        run.change(full_for, "job", "D", 2, was={"fence": 1, "by": 1, "attempt": 1})
    _others(run, full_for + 0.1, 35, 0.25)
    run.claim(35, 1, 2, due=0)
    found = [each for each in _found(run) if "job 1 waited" in each]
    assert ["other lanes" in each for each in found] == [True] * many
