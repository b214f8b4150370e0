"""Real PostgreSQL for every test: one server, a fresh database each, made from a template."""

import asyncio
import inspect
import itertools
import signal
from collections.abc import Iterator

import pytest

from sexton import Sexton
from sexton.store.connection import Address

from .support import undertaker
from .support.postgres import Postgres

# A shell that starts us in the background has SIGINT ignored, and so would everybody whom we start.
signal.signal(signal.SIGINT, signal.default_int_handler)

undertaker.engage()
_number = itertools.count(1)
LONGEST_TEST = 100.0


# Files that take longest come first, so that nobody waits for them at the end.
LONG = (
    *("torture/test_run", "firing/test_nodes", "torture/test_crash_points", "api/test_contract"),
    *("faults/test_workers_die", "torture/test_peers", "cluster/test_processes"),
    *("faults/test_postgresql_goes_away", "torture/test_check_teeth", "testing/test_docs"),
    *("torture/test_work", "cli/test_torture", "targets/test_process", "torture/test_simulate"),
    *("when/test_oracle", "cli/test_server"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONG)}

    def place(item: pytest.Item) -> int:
        return places.get(f"{item.path.parent.name}/{item.path.stem}", len(LONG))

    items.sort(key=place)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run `async def test_…`, and demand that it ends."""
    function = pyfuncitem.obj
    if not inspect.iscoroutinefunction(function):
        return None
    names = inspect.signature(function).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    marked = pyfuncitem.get_closest_marker("timeout")
    longest = LONGEST_TEST if marked is None else 0.9 * marked.args[0]

    async def bounded() -> None:
        async with asyncio.timeout(longest):
            await function(**arguments)

    asyncio.run(bounded())
    return True


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    """The server that most tests share; nobody may stop it."""
    with Postgres.running() as server:
        yield server


@pytest.fixture
def own_server() -> Iterator[Postgres]:
    """A server of this test's own, to be stopped and killed at will."""
    with Postgres.running() as server:
        yield server


@pytest.fixture
def database_url(server: Postgres) -> Iterator[str]:
    """A migrated database of this test's own."""
    name = f"test_{next(_number)}"
    server.create_database(name)
    yield server.url(name)
    server.drop_database(name)


@pytest.fixture(scope="module")
def module_database_url(server: Postgres) -> Iterator[str]:
    """A migrated database for all tests of a module: for those that leave nothing behind in it."""
    name = f"test_{next(_number)}"
    server.create_database(name)
    yield server.url(name)
    server.drop_database(name)


@pytest.fixture
def app(database_url: str) -> Sexton:
    """An application without tasks, quick to notice things."""
    return Sexton(database_url, lease=3, poll=1, grace=5, patience=5)


@pytest.fixture
def address(database_url: str) -> Address:
    return Address(database_url, patience=10.0)
