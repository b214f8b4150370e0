"""The checker on quotas: who is said to have as many jobs as it may has, and nobody else."""

from pathlib import Path
from typing import Any

import pytest

from sexton.torture.check.quotas import UNSAID

from .story import Story

QUOTA = 10


class Tenant(Story):
    """The first one, with a quota of ten live jobs."""

    jobs = 0

    def start(self) -> None:
        self.change(0, "tenant", "I", 1, now=self._row(over=False))
        self.begin()

    def say(self, at: float, *, over: bool) -> None:
        self.change(at, "tenant", "U", 1, now=self._row(over=over))

    def make(self, at: float, many: int) -> None:
        for _ in range(many):
            self.jobs += 1
            self.job(at, 1000 + self.jobs)

    def finish(self, at: float, many: int) -> None:
        for _ in range(many):
            self.end(at, 1000 + self.jobs)
            self.jobs -= 1

    def lead(self, first: int, last: int) -> None:
        """Somebody does, and says so every second."""
        for at in range(first, last):
            stood = {"node": 1, "term": 1, "lease": self.at(at + 1)}
            more = {"node_lease": self.at(at + 1), "node_gone": None}
            now = {**stood, "lease": self.at(at + 2)}
            self.change(at, "leader", "U", 1, was={**stood, **more}, now=now)

    def _row(self, *, over: bool) -> dict[str, Any]:
        return {"name": "default", "max_live_jobs": QUOTA, "over_quota": over}


@pytest.fixture
def tenant(tmp_path: Path) -> Tenant:
    made = Tenant(tmp_path / "run")
    made.start()
    return made


def _violations(tenant: Tenant) -> list[str]:
    return tenant.found("reasons-hold")


@pytest.mark.parametrize(("live", "ended", "many"), [(10, 0, 0), (9, 0, 1), (9, 1, 0), (9, 9, 1)])
def test_a_tenant_is_over_its_quota_with_so_many_jobs(
    tenant: Tenant, live: int, ended: float, many: int
) -> None:
    """Or if somebody saw one that ended a moment ago."""
    tenant.make(1, live + bool(ended))
    if ended:
        tenant.finish(20 - ended, 1)
    tenant.say(20, over=True)
    found = _violations(tenant)
    assert found == ["tenant 1 is over its quota of 10 with 9 live jobs"] * many


@pytest.mark.parametrize(("live", "came", "many"), [(9, 0, 0), (10, 0, 1), (9, 19, 0), (9, 11, 1)])
def test_a_tenant_is_within_its_quota_only_with_fewer(
    tenant: Tenant, live: int, came: float, many: int
) -> None:
    """Or if one came a moment ago, which may not be committed."""
    tenant.make(1, 12)
    tenant.say(2, over=True)
    tenant.finish(3, 12 - live)
    tenant.make(came, 1 if came else 0)
    tenant.say(20, over=False)
    found = _violations(tenant)
    assert found == ["tenant 1 is within its quota of 10 with 10 live jobs"] * many


def test_who_was_hurt_may_have_counted_long_ago(tenant: Tenant) -> None:
    tenant.make(1, 10)
    tenant.finish(5, 5)
    tenant.fault(16, 19, "postgres")
    tenant.say(20, over=True)
    assert not _violations(tenant)


@pytest.mark.parametrize("over", [True, False])
@pytest.mark.parametrize(("seconds", "many"), [(UNSAID - 2, 0), (UNSAID + 10, 1)])
def test_what_is_so_is_said_before_long(
    tenant: Tenant, over: bool, seconds: int, many: int
) -> None:
    """As long as somebody leads."""
    if over:
        tenant.make(1, 10)
        tenant.say(2, over=True)
        tenant.finish(3, 5)
    else:
        tenant.make(3, 10)
    tenant.lead(9, 9 + seconds)
    said = "still over its quota, with 5" if over else "not yet over its quota, with 10"
    assert _violations(tenant) == [f"for {UNSAID} s tenant 1 is {said}"] * many


def test_nothing_is_expected_while_nobody_leads(tenant: Tenant) -> None:
    tenant.make(1, 10)
    tenant.lead(5, 9)
    tenant.lead(200, 210)
    assert not _violations(tenant)


@pytest.mark.parametrize(
    ("at", "decision", "what"),
    [
        (10, "fired", []),
        (10, "quota", ["its tenant was not over its quota"]),
        (20, "fired", []),
        (20, "quota", []),
        (30, "fired", ["its tenant was over its quota"]),
        (30, "quota", []),
        (40, "quota", []),
        (50, "quota", ["its tenant was not over its quota"]),
    ],
)
def test_a_tenant_that_is_over_its_quota_makes_no_jobs(
    tenant: Tenant, at: int, decision: str, what: list[str]
) -> None:
    """What was said a second before may not have been seen."""
    tenant.make(1, 10)
    job = 1 if decision == "fired" else None
    for now in (10, 19, 20, 30, 39, 40, 50):
        if now == 19:
            tenant.say(now, over=True)
        elif now == 39:
            tenant.finish(38, 5)
            tenant.say(now, over=False)
        elif now == at:
            tenant.fire(now, decision=decision, job=job)
    assert _violations(tenant) == what
