"""The service on a real port, for those who speak to it from afar."""

from collections.abc import Iterator

import pytest

from sexton import Sexton

from ..api.served import Served, served


@pytest.fixture
def api(app: Sexton) -> Iterator[Served]:
    with served(app) as service:
        yield service
