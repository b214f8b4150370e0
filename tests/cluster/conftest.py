"""A server for the tests of this folder that stop and start it; each leaves it running."""

from collections.abc import Iterator

import pytest

from ..support.postgres import Postgres


@pytest.fixture(scope="package")
def restartable() -> Iterator[Postgres]:
    with Postgres.running() as server:
        yield server
