"""The checker on claims: who may make one, who goes on with it, and how often it is delivered."""

import json
from pathlib import Path
from typing import Any

import pytest

from sexton.torture.check import judge

from .by_hand import BEGINS, SECOND, Line, Run

HTTP = "http:7"
HOLDER: Line = {"name": "202 accepted", "queues": [], "tenant": 1}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "run")


def _violations(run: Run, name: str) -> list[str]:
    verdict = judge(run.save())
    [invariant] = [each for each in verdict.invariants if each.name == name]
    return [each.what for each in invariant.violations]


def _faults(run: Run, *faults: tuple[float, float, str, str]) -> None:
    """Each from when until when, of which kind, and to whom."""
    lines = [
        {"at": BEGINS + round(at * SECOND), "event": event, "n": n, "fault": kind, "target": whom}
        for n, (began, ended, kind, whom) in enumerate(faults)
        for at, event in ((began, "begin"), (ended, "end"))
    ]
    (run.folder / "faults.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))


def _effects(run: Run, *told: tuple[float, str, int, str | None]) -> None:
    """What the endpoint wrote of job 1: when, which event, under which fence, and why."""
    more = {"job": 1, "attempt": 1, "idempotency_key": "one", "tenant": "default", "fire_at": None}
    more |= {"task": "http:7", "payload": {}}
    lines = [
        {"at": BEGINS + round(at * SECOND), "event": event, "fence": fence, "why": why, **more}
        for at, event, fence, why in told
    ]
    text = "".join(json.dumps(each) + "\n" for each in lines)
    (run.folder / "effects" / "sink-1.jsonl").write_text(text)


# ── who is gone claims nothing ──────────────────────────────────────────────


@pytest.mark.parametrize(
    ("claimed", "faults", "many"),
    [
        (4.5, [], 0),
        (5.5, [], 1),
        (5.5, [(4.0, 5.0, "hog", "host")], 0),
        (12.5, [(4.0, 5.0, "restart", "postgres")], 0),
        (13.5, [(4.0, 5.0, "restart", "postgres")], 1),
        (5.5, [(4.0, 5.0, "stop", "worker-2")], 1),
        (5.5, [(1.0, 2.0, "restart", "postgres")], 1),
    ],
)
def test_a_claim_may_have_begun_before_its_worker_was_gone(
    run: Run, claimed: float, faults: list[tuple[float, float, str, str]], many: int
) -> None:
    """By so much as a statement may take, and longer while everybody is in trouble."""
    run.worker(0, 1)
    run.job(1, 1)
    was = {"lease": BEGINS + 3 * SECOND, "renewed": BEGINS, "gone": None}
    now = {"lease": BEGINS + 3 * SECOND, "gone": BEGINS + 3 * SECOND, "why": "lost"}
    run.change(3, "worker", "U", 1, was=was, now=now)
    run.claim(claimed, 1, 7, due=1)
    _faults(run, *faults)
    assert len(_violations(run, "no-stale-write")) == many


# ── who goes on with a claim ────────────────────────────────────────────────


def _handed_over(run: Run, *, holder: Line = HOLDER, **stood: Any) -> None:
    """Job 1 is claimed by worker 1 with fence 7, and then goes to worker 2."""
    run.worker(0, 1)
    run.job(1, 1, task=HTTP)
    run.claim(2, 1, 7, due=1)
    was = {"fence": 7, "by": 1, "attempt": 1, "due": BEGINS + SECOND} | stood
    now = {**was, "by": 2, "after": None, "tenant": 1, "cancel": False}
    run.change(3, "job", "U", 1, was=was, now=now)
    began = {"pid": 2, "started": BEGINS, "lease": BEGINS, "gone": None}
    run.change(3, "worker", "I", 2, now={**began, **holder})


def test_an_endpoint_that_accepted_a_claim_goes_on_with_it(run: Run) -> None:
    _handed_over(run)
    assert not _violations(run, "no-stale-write"), "nobody says what endpoints accepted"
    _effects(run, (2.5, "begin", 7, None), (2.5, "effect", 7, "202"))
    assert not _violations(run, "no-stale-write")


def test_a_claim_is_handed_over_once_more_if_the_answer_was_lost(run: Run) -> None:
    """To the same holder, or to the next one."""
    _handed_over(run)
    _effects(run, (2.5, "effect", 7, "202"))
    began = {"pid": 3, "started": BEGINS, "lease": BEGINS, "gone": None}
    run.change(3, "worker", "I", 3, now={**began, **HOLDER})
    for at, holder in ((4, 2), (5, 3)):
        was = {"fence": 7, "by": 2, "attempt": 1, "due": BEGINS + SECOND}
        now = {**was, "by": holder, "after": None, "tenant": 1, "cancel": False}
        run.change(at, "job", "U", 1, was=was, now=now)
    assert not _violations(run, "no-stale-write")


@pytest.mark.parametrize(
    ("holder", "told"),
    [
        ({"name": "worker-2", "queues": ["default"], "tenant": None}, "no endpoint is behind that"),
        ({**HOLDER, "queues": ["default"]}, "no endpoint is behind that"),
        ({**HOLDER, "tenant": 2}, "another tenant's"),
    ],
)
def test_a_claim_goes_to_no_other_worker(run: Run, holder: Line, told: str) -> None:
    _handed_over(run, holder=holder)
    [what] = _violations(run, "no-stale-write")
    assert told in what


@pytest.mark.parametrize(
    "heard",
    [
        [(2.5, "begin", 7, None), (2.6, "end", 7, None), (2.6, "effect", 5, "202")],
        [(3.5, "begin", 7, None), (3.5, "effect", 7, "202")],
    ],
)
def test_a_stale_worker_cannot_hand_over_the_claim_of_another(
    run: Run, heard: list[tuple[float, str, int, str | None]]
) -> None:
    """What was accepted is the claim before, or this one, but later."""
    _handed_over(run)
    _effects(run, *heard)
    [what] = _violations(run, "no-stale-write")
    assert what.endswith("under fence 7, which no endpoint had accepted")


def test_nobody_gets_a_job_without_a_claim(run: Run) -> None:
    _handed_over(run, by=None)
    assert "job 1 was given to worker 2 without a claim" in _violations(run, "no-stale-write")


# ── deliveries ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("task", "begins", "faults", "many"),
    [
        (HTTP, 1, [], 0),
        (HTTP, 2, [(2.4, 2.4, "reset", "http-sink")], 0),
        (HTTP, 2, [(1.0, 4.0, "refuse", "http-rough")], 0),
        (HTTP, 2, [], 1),
        (HTTP, 2, [(2.4, 2.4, "reset", "worker-1")], 1),
        (HTTP, 2, [(2.4, 2.4, "reset", "http-api-1")], 1),
        (HTTP, 2, [(1.0, 4.0, "latency", "http-sink")], 1),
        (HTTP, 2, [(1.0, 4.0, "half_open", "http-sink")], 1),
        (HTTP, 2, [(1.0, 4.0, "blackhole", "http-sink")], 1),
        (HTTP, 2, [(-9.0, 4.0, "refuse", "http-sink")], 1),
        (HTTP, 2, [(22.4, 22.4, "reset", "http-sink")], 1),
        (HTTP, 3, [(2.4, 2.4, "reset", "http-sink")], 1),
        ("quick", 2, [(2.4, 2.4, "reset", "http-sink")], 1),
    ],
)
def test_a_claim_is_delivered_once_more_only_if_its_connection_broke(
    run: Run, task: str, begins: int, faults: list[tuple[float, float, str, str]], many: int
) -> None:
    run.worker(0, 1)
    run.job(1, 1, task=task)
    run.claim(2, 1, 7, due=1)
    _effects(run, *[(2.5 + nth / 10, "begin", 7, None) for nth in range(begins)])
    _faults(run, *faults)
    assert len(_violations(run, "effects-apart")) == many


@pytest.mark.parametrize(
    ("task", "begins", "outcome", "error", "faults", "wrong"),
    [
        ("t", True, "failed", "boom", [], []),
        ("t", False, "failed", "boom", [], ["never began"]),
        ("t", False, "snoozed", "not now", [], ["never began"]),
        ("t", False, "failed", "boom", [(2.4, 2.4, "reset", "http-sink")], ["never began"]),
        ("t", False, "failed", "it was not started within its maximum age", [], []),
        (HTTP, False, "failed", "no answer", [], ["never began"]),
        (HTTP, False, "failed", "no answer", [(1.0, 4.0, "half_open", "http-rough")], []),
        (HTTP, False, "failed", "no answer", [(1.0, 4.0, "blackhole", "http-sink")], []),
        (HTTP, False, "failed", "no answer", [(1.0, 4.0, "latency", "http-sink")], ["never began"]),
        (HTTP, False, "failed", "no answer", [(1.0, 4.0, "reset", "http-api-1")], ["never began"]),
        (HTTP, False, "failed", "no answer", [(-9.0, -4.0, "reset", "http-sink")], ["never began"]),
        (HTTP, False, "snoozed", "its host does not answer and is left alone", [], []),
    ],
)
def test_a_job_fails_without_having_begun_only_if_its_way_led_nowhere(
    run: Run,
    task: str,
    begins: bool,
    outcome: str,
    error: str,
    faults: list[tuple[float, float, str, str]],
    wrong: list[str],
) -> None:
    _attempt(run, task, outcome, error)
    if begins:
        _effects(run, (2.2, "begin", 7, None), (2.6, "fail", 7, "boom"))
    _faults(run, *faults)
    found = _violations(run, "no-stale-write")
    assert [each.partition("whose attempt ")[2] for each in found] == wrong


@pytest.mark.parametrize(
    ("outcome", "ended", "faults", "wrong"),
    [
        ("succeeded", 2.6, [], []),
        ("failed", 2.6, [], ["had succeeded"]),
        ("snoozed", 2.6, [], ["had succeeded"]),
        ("released", 2.6, [], ["had succeeded"]),
        # It was put back by a worker that left; the thread that did not react went on.
        ("released", 4.5, [], []),
        # It was put back before its end, and that was written after it.
        ("released", 2.6, [(2.5, 3.5, "restart", "postgres")], []),
        ("released", 2.6, [(2.5, 3.5, "stop", "w1")], []),
        ("released", 2.6, [(2.5, 3.5, "stop", "w2")], ["had succeeded"]),
        ("failed", 2.6, [(2.5, 3.5, "restart", "postgres")], ["had succeeded"]),
    ],
)
def test_what_had_succeeded_is_not_tried_again(
    run: Run,
    outcome: str,
    ended: float,
    faults: list[tuple[float, float, str, str]],
    wrong: list[str],
) -> None:
    _attempt(run, "t", outcome, None)
    _effects(run, (2.2, "begin", 7, None), (ended, "end", 7, None))
    _faults(run, *faults)
    found = _violations(run, "no-stale-write")
    assert [each.partition("whose attempt ")[2] for each in found] == wrong


def _attempt(run: Run, task: str, outcome: str, error: str | None) -> None:
    """Of job 1, claimed at 2 under fence 7, and settled at 3."""
    budget = {"max_attempts": 5, "base": 1, "factor": 2, "cap": 9}
    run.dumps["tasks"] = [{"task": task, **budget}]
    run.worker(0, 1)
    run.job(1, 1, task=task)
    run.claim(2, 1, 7, due=1)
    stood = {"fence": 7, "by": 1, "attempt": 1, "due": BEGINS + SECOND}
    now = {**stood, "by": None, "after": None, "tenant": 1, "cancel": False}
    told = {"tenant": 1, "fence": 7, "attempt": 1, "outcome": outcome, "worker": 1, "error": error}
    more = {"finished": BEGINS + 3 * SECOND, "gone": None}
    if outcome == "succeeded":
        run.change(3, "job", "D", 1, was={"fence": 7, "by": 1, "attempt": 1})
        run.change(3, "attempt", "I", 1, now={**told, **more, "next": "succeeded"})
    else:
        run.change(3, "job", "U", 1, was=stood, now=now)
        run.change(3, "attempt", "I", 1, now={**told, **more, "next": "waiting"})
    run.changes[-1]["tx"] = run.changes[-2]["tx"]
