"""The pytest plugin: fixtures for the tests of applications that use Sexton.

pytest imports this wherever Sexton is installed, so nothing else is imported before a test
asks for a fixture.
"""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from sexton.app import Sexton
    from sexton.testing.clock import ManualClock
    from sexton.testing.databases import DatabaseServer
    from sexton.testing.harness import Harness


class HarnessFactory(Protocol):
    """What the fixture `sexton_harness` is."""

    def __call__(self, app: "Sexton", *, noise: float | None = 1.0) -> "Harness": ...


@pytest.fixture(scope="session")
def sexton_server() -> "Iterator[DatabaseServer]":
    """A PostgreSQL for this run: embedded and temporary, or that of SEXTON_TEST_DATABASE_URL."""
    from sexton.testing.databases import DatabaseServer

    with DatabaseServer.running() as server:
        yield server


@pytest.fixture
def sexton_database(sexton_server: "DatabaseServer") -> Iterator[str]:
    """The URL of a migrated database of this test's own."""
    with sexton_server.database() as url:
        yield url


@pytest.fixture
def sexton_clock() -> "ManualClock":
    """The clock of this test, at 2026-01-05 12:00 UTC until it is moved."""
    from sexton.testing.clock import ManualClock

    return ManualClock()


@pytest.fixture
def sexton_harness(sexton_database: str, sexton_clock: "ManualClock") -> Iterator[HarnessFactory]:
    """`sexton_harness(app)` lends the application this test's database and clock."""
    from sexton.testing.binding import bound

    with contextlib.ExitStack() as stack:
        lent: dict[int, Harness] = {}

        def lend(app: "Sexton", *, noise: float | None = 1.0) -> "Harness":
            if id(app) not in lent:
                binding = bound(app, sexton_database, sexton_clock, noise=noise)
                lent[id(app)] = stack.enter_context(binding)
            return lent[id(app)]

        yield lend
