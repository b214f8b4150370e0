"""The fixture as users have it, over the application in `shop`."""

import pytest

from sexton.testing import Harness, HarnessFactory

from . import shop


@pytest.fixture
def harness(sexton_harness: HarnessFactory) -> Harness:
    shop.log.clear()
    return sexton_harness(shop.app)
