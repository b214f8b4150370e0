"""The checker on tenants: what is another's is not found, not answered, and not done."""

import json
from pathlib import Path
from typing import Any

import pytest

from sexton.torture.check import judge
from sexton.torture.check.complete import VERBS, not_checked
from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import Folder

from .by_hand import BEGINS, SECOND, Line, Run

NOT_FOUND = "Answered: 404: there is no such thing"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(tmp_path / "run")
    run.dumps["tenant"].append({"id": 2, "name": "acme"})
    return run


def _violations(run: Run) -> list[str]:
    verdict = judge(run.save())
    [invariant] = [each for each in verdict.invariants if each.name == "tenants-apart"]
    return [each.what for each in invariant.violations]


class Asked:
    """What an operator asked for, and was told."""

    def __init__(self, run: Run) -> None:
        self._lines: list[Line] = []
        self._path = run.folder / "acks" / "operator-1.jsonl"

    def __call__(self, verb: str, tenant: str, told: Any, **more: Any) -> None:
        """Told is an answer, or the text of a refusal."""
        n, at = len(self._lines), BEGINS + len(self._lines) * SECOND // 10
        said = {"answer": told} if isinstance(told, dict) else {"error": told, "unsure": False}
        event = "ack" if isinstance(told, dict) else "error"
        ask = {"at": at, "event": "ask", "n": n, "verb": verb, "tenant": tenant, "via": "api"}
        self._lines += [{**ask, **more}, {"at": at + 1, "event": event, "n": n, **said}]
        self._path.write_text("".join(json.dumps(each) + "\n" for each in self._lines))


@pytest.fixture
def asked(run: Run) -> Asked:
    return Asked(run)


def _trespass(asked: Asked, what: str, subject: Any, told: Any) -> None:
    asked("trespass", "acme", told, subject=subject, body={"what": what, "owner": "default"})


def test_what_is_refused_or_comes_to_nothing_is_no_trespass(run: Run, asked: Asked) -> None:
    run.job(0, 1)
    for what in ("cancel_job", "read_job"):
        _trespass(asked, what, 1, NOT_FOUND)
    for what in ("read_schedule", "pause", "trigger", "cancel_schedule"):
        _trespass(asked, what, "s00009", NOT_FOUND)
    _trespass(asked, "redrive", 1, {"jobs": []})
    asked("trespass", "acme", NOT_FOUND, subject=1)
    assert not _violations(run)


@pytest.mark.parametrize(
    ("what", "subject", "answer"),
    [
        ("cancel_job", 1, {"ended": False}),
        ("read_job", 1, {"id": 1, "state": "running"}),
        ("redrive", 1, {"jobs": [{"id": 1, "revived": False}]}),
        ("read_schedule", "s00009", {"version": 1}),
        ("pause", "s00009", {"version": 2}),
        ("trigger", "s00009", {"job": 5}),
        ("cancel_schedule", "s00009", {}),
    ],
)
def test_who_is_heard_about_what_is_anothers_trespasses(
    run: Run, asked: Asked, what: str, subject: Any, answer: Line
) -> None:
    run.job(0, 1)
    _trespass(asked, what, subject, answer)
    assert _violations(run) == [f"'acme' was heard ({what}) about {subject!r}, which is another's"]


@pytest.mark.parametrize(("own", "many"), [(1, 0), (0, 1)])
def test_a_job_comes_back_for_its_own_tenant_only(
    run: Run, asked: Asked, own: int, many: int
) -> None:
    """Whatever the other was told."""
    run.job(0, 1)
    run.change(1, "job", "D", 1, was={"fence": 0, "by": None, "attempt": 0})
    run.change(2, "dead", "D", 1)
    run.job(2, 1)
    for _ in range(own):
        told = {"jobs": [{"id": 1, "revived": True}]}
        asked("redrive", "default", told, body={"ids": [1]})
    asked("redrive", "default", {"jobs": []}, body={"ids": [2]})
    _trespass(asked, "redrive", 1, {"jobs": []})
    assert len(_violations(run)) == many


def _not_checked(run: Run) -> list[str]:
    run.run |= {"planned": 0, "seconds": 600}
    evidence = Evidence(Folder(run.save()))
    return [each for each in not_checked(evidence, []) if "another tenant" in each]


def test_in_a_long_run_somebody_is_told_that_what_is_anothers_is_not_there(
    run: Run, asked: Asked
) -> None:
    for verb in VERBS:
        asked(verb, "default", {})
    nobody = "what is another tenant's: nobody was told that there is no such thing"
    assert _not_checked(run) == [nobody]
    _trespass(asked, "cancel_job", 1, "Answered: 422: that is no id")
    assert _not_checked(run) == [nobody]
    _trespass(asked, "read_job", 1, NOT_FOUND)
    assert _not_checked(run) == [
        "cancel_job of what is another tenant's: refused, but never as not found"
    ]
    _trespass(asked, "cancel_job", 1, NOT_FOUND)
    _trespass(asked, "redrive", 1, "Answered: 409: it is under way")
    assert not _not_checked(run)
