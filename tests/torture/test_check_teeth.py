"""A check that cannot fail is worthless: each invariant finds what it is for, and no other does.

One small real run is recorded and found clean. Then it is tampered with, in one way at a time.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.torture.check import judge
from sexton.torture.check.judge import INVARIANTS

from ..support.postgres import Postgres
from .recorded import record
from .tampering import TEETH, Tamper, Tampered
from .teeth import asks, effects, fires, jobs, owners  # noqa: F401 - they are in TEETH


@pytest.fixture(scope="module")
def recorded(server: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Played once; every test has its own copy."""
    server.create_database("recorded")
    yield record(server.url("recorded"), tmp_path_factory.mktemp("run") / "run")
    server.drop_database("recorded")


def test_a_real_run_is_clean_and_every_invariant_had_something_to_check(recorded: Path) -> None:
    verdict = judge(recorded)
    said = [violation.what for each in verdict.invariants for violation in each.violations]
    assert not said
    assert [each.name for each in verdict.invariants if not each.checked] == []
    assert not verdict.unclear


@pytest.mark.parametrize(
    ("invariant", "tamper"), TEETH, ids=lambda each: getattr(each, "__name__", each)
)
def test_what_was_tampered_with_is_found_by(
    invariant: str, tamper: Tamper, recorded: Path, tmp_path: Path
) -> None:
    tampered = Tampered(recorded, tmp_path / "run")
    tamper(tampered)
    verdict = judge(tampered.save())
    said = {
        each.name: [violation.what for violation in each.violations]
        for each in verdict.invariants
        if each.count
    }
    assert {*said} == {invariant}, said


def test_every_invariant_has_teeth() -> None:
    assert {name for name, _ in TEETH} == {each.name for each in INVARIANTS}
