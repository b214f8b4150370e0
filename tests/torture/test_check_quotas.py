"""The checker on quotas: who is said to have as many jobs as it may has, and nobody else."""

from pathlib import Path
from typing import Any

import pytest

from sexton.torture.check.quotas import UNDER_WAY, UNSAID

from .story import Story

QUOTA = 100
FEW, MANY = QUOTA - UNDER_WAY, QUOTA + UNDER_WAY  # beyond doubt


class Tenant(Story):
    """The first one, with a quota of a hundred live jobs."""

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

    def lead(self, at: float) -> None:
        stood = {"node": None, "term": 0, "lease": None, "node_lease": None, "node_gone": None}
        self.change(at, "leader", "U", 1, was=stood, now={"node": 1, "term": 1, "lease": None})

    def go_on(self, first: int, last: int) -> None:
        """Every second somebody fires something."""
        for at in range(first, last):
            instants = dict.fromkeys(("fire_at", "scheduled", "decided", "began"), self.at(at))
            more = {"job": None, "term": 1, "node": None, "decision": "missed", "kind": "due"}
            self.change(at, "fire", "I", 999, now={**instants, **more})

    def _row(self, *, over: bool) -> dict[str, Any]:
        return {"name": "default", "max_live_jobs": QUOTA, "over_quota": over}


@pytest.fixture
def tenant(tmp_path: Path) -> Tenant:
    made = Tenant(tmp_path / "run")
    made.start()
    return made


def _violations(tenant: Tenant) -> list[str]:
    return tenant.found("reasons-hold")


@pytest.mark.parametrize(
    ("live", "ended", "many"), [(FEW, 0, 0), (FEW - 1, 0, 1), (FEW - 1, 1, 0), (FEW - 1, 9, 1)]
)
def test_a_tenant_is_over_its_quota_with_so_many_jobs(
    tenant: Tenant, live: int, ended: float, many: int
) -> None:
    """Or if somebody saw one that ended a moment ago; some may be in transactions that go on."""
    tenant.make(1, live + bool(ended))
    if ended:
        tenant.finish(20 - ended, 1)
    tenant.say(20, over=True)
    found = _violations(tenant)
    assert found == [f"tenant 1 is over its quota of {QUOTA} with {FEW - 1} live jobs"] * many


@pytest.mark.parametrize(
    ("live", "came", "many"), [(MANY - 1, 0, 0), (MANY, 0, 1), (MANY - 1, 29, 0), (MANY - 1, 9, 1)]
)
def test_a_tenant_is_within_its_quota_only_with_fewer(
    tenant: Tenant, live: int, came: float, many: int
) -> None:
    """Or if one came within half a minute, which may not be committed."""
    tenant.make(1, MANY + 5)
    tenant.say(2, over=True)
    tenant.finish(3, MANY + 5 - live)
    tenant.make(came, 1 if came else 0)
    tenant.say(40, over=False)
    found = _violations(tenant)
    assert found == [f"tenant 1 is within its quota of {QUOTA} with {MANY} live jobs"] * many


@pytest.mark.parametrize(("target", "many"), [("postgres", 0), ("host", 1), ("node-1", 1)])
def test_while_postgresql_is_in_trouble_ends_may_not_be_committed(
    tenant: Tenant, target: str, many: int
) -> None:
    tenant.make(1, FEW)
    tenant.finish(13, 5)
    tenant.fault(11, 19, target)
    tenant.say(20, over=True)
    assert len(_violations(tenant)) == many


@pytest.mark.parametrize("over", [True, False])
@pytest.mark.parametrize(("seconds", "many"), [(UNSAID - 2, 0), (UNSAID + 10, 1)])
def test_what_is_so_is_said_before_long(
    tenant: Tenant, over: bool, seconds: int, many: int
) -> None:
    """As long as somebody leads, and nobody is hurt."""
    tenant.lead(0)
    if over:
        tenant.make(1, QUOTA)
        tenant.say(2, over=True)
        tenant.finish(3, QUOTA - FEW + 1)
    else:
        tenant.make(3, MANY)
    tenant.go_on(9, 9 + seconds)
    said = (
        f"still over its quota, with {FEW - 1}" if over else f"not yet over its quota, with {MANY}"
    )
    assert _violations(tenant) == [f"for {UNSAID} s tenant 1 is {said}"] * many


@pytest.mark.parametrize("target", ["node-1", "nodes", "postgres", "host", "everyone", None])
def test_nothing_is_expected_while_nobody_leads_or_who_does_is_hurt(
    tenant: Tenant, target: str | None
) -> None:
    now = {"name": "node-1", "pid": 1, "started": tenant.at(0), "lease": tenant.at(9), "gone": None}
    tenant.change(0, "node", "I", 1, now={**now, "why": None})
    if target is not None:
        tenant.lead(0)
        tenant.fault(15, 16, target)
    tenant.make(1, MANY)
    tenant.go_on(5, 5 + UNSAID + 7)
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
    tenant.make(1, QUOTA)
    job = 1 if decision == "fired" else None
    for now in (10, 19, 20, 30, 39, 40, 50):
        if now == 19:
            tenant.say(now, over=True)
        elif now == 39:
            tenant.finish(38, QUOTA // 2)
            tenant.say(now, over=False)
        elif now == at:
            tenant.fire(now, decision=decision, job=job)
    assert _violations(tenant) == what
