"""The service on a real port: `api.caller("operator", "acme")` is a client with a key."""

from collections.abc import Iterator

import pytest

from sexton import Sexton

from .served import Served, served


@pytest.fixture
def api(app: Sexton) -> Iterator[Served]:
    with served(app) as service:
        yield service
