"""The program itself: help, versions, migrations, servers that are not there, closed pipes."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from sexton import __version__
from sexton.cli.locate import locate
from sexton.cli.main import exit_code, global_first
from sexton.cli.output import ExitCode
from sexton.errors import ConfigurationError

from .conftest import PATIENCE, PROGRAM, SHOP, Cli


def test_help_says_the_exit_codes_and_version_says_the_version(embedded_cli: Cli) -> None:
    said = embedded_cli("--help", COLUMNS="300")
    assert said.code == 0
    assert "3 PostgreSQL is not available, or the service" in said.out
    assert embedded_cli("--version").out == f"sexton {__version__}\n"
    assert not list(embedded_cli.folder.iterdir()), "looking at the help starts nothing"


def test_migrate_checks_applies_and_refuses_a_newer_schema(cli: Cli) -> None:
    missing = cli("migrate", "--check", "--schema", "other", "--json")
    assert (missing.code, missing.json["version"], missing.json["current"]) == (1, 0, False)
    for words in (("worker", "shop:app"), ("queues",), ("job", "enqueue", "add")):
        refused = cli("--schema", "other", *words)
        assert refused.code == 2
        assert "run `sexton migrate`" in refused.err

    applied = cli("migrate", "--schema", "other")
    assert applied.code == 0
    assert "applied 0001 queue" in applied.out
    assert cli("migrate", "--schema=other").out.count("\n") == 1
    assert cli("migrate", "--check", "--schema", "other").code == 0

    async def age() -> None:
        connection = await asyncpg.connect(cli.environ["SEXTON_DATABASE_URL"])
        await connection.execute("insert into other.migration values (9999, 'from the future')")
        await connection.close()

    asyncio.run(age())
    newer = cli("migrate", "--check", "--schema", "other", "--json")
    assert (newer.code, newer.json["version"]) == (2, 9999)
    assert cli("migrate", "--schema", "other").code == 2
    refused = cli("job", "ls", "--schema", "other")
    assert (refused.code, "newer than this code" in refused.err) == (2, True)


def test_a_server_that_is_not_there_is_exit_code_3_and_one_line(embedded_cli: Cli) -> None:
    nowhere = "postgresql://127.0.0.1:1/x"
    said = embedded_cli("job", "ls", "--database-url", nowhere)
    assert (said.code, said.err.count("\n")) == (3, 1)
    assert said.err.startswith("sexton: cannot reach PostgreSQL")
    told = embedded_cli("job", "ls", "--debug", SEXTON_DATABASE_URL=nowhere)
    assert (told.code, "Traceback" in told.err) == (3, True)
    folder = embedded_cli("migrate", "--data-folder", "/proc/nothing/here")
    assert (folder.code, folder.err.count("\n")) == (3, 1)


def test_a_connection_that_is_cut_in_mid_statement_is_a_server_that_is_not_there() -> None:
    """Whoever supervises a worker is to start it again, not to look for a mistake on its line."""
    cut = asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
    assert exit_code(cut) == ExitCode.UNAVAILABLE
    assert exit_code(asyncpg.UndefinedTableError("no such table")) == ExitCode.USAGE


def test_a_reader_that_leaves_is_no_error(cli: Cli) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*PROGRAM, "job", "ls"],
        cwd=cli.folder,
        env=cli.environ,
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=PATIENCE,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_global_options_may_stand_anywhere() -> None:
    assert global_first(["job", "ls", "--schema", "x", "--debug", "--json"]) == [
        *("--schema", "x", "--debug"),
        *("job", "ls", "--json"),
    ]
    assert global_first(["job", "--schema=x", "--", "--schema", "y"]) == [
        *("--schema=x", "job", "--", "--schema", "y")
    ]


MODULES = {
    "shop": SHOP,
    "empty": "x = 1\n",
    "needy": "\nimport no_such_thing\n",
    "broken": "def (\n",
    "leaving": "import sys\nsys.exit('bye')\n",
}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("shoq:app", r"no module 'shoq'.*did you mean 'shop'\?"),
        ("shop", r"like shop:app; there is shop:app$"),
        ("shop.py:app", r"write shop:app"),
        ("shop:", r"like shop:app"),
        ("shop:apq", r"has no 'apq'; did you mean 'app'\?"),
        ("shop:zebra", r"has no 'zebra'; there is shop:app$"),
        ("shop:add", r"shop:add is a Task, not a Sexton; there is shop:app$"),
        ("shop:not_an_app", r"is a int, not a Sexton; there is shop:app$"),
        ("empty:app", r"no Sexton in 'empty': make one"),
        ("needy:app", r"needy.py, line 2: ModuleNotFoundError: No module named 'no_such_thing'"),
        ("broken:app", r"broken.py, line 1: SyntaxError"),
        ("leaving:app", r"leaving.py, line 2: SystemExit: bye"),
        ("a b:app", r"is not module:attribute"),
    ],
)
def test_an_application_that_is_not_there_is_explained(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.path", sys.path[:])
    monkeypatch.delitem(sys.modules, name.partition(":")[0], raising=False)
    for module, text in MODULES.items():
        (folder / f"{module}.py").write_text(text)
    with pytest.raises(ConfigurationError, match=why):
        locate(name)


def test_an_application_is_found_in_the_current_folder(cli: Cli) -> None:
    said = cli("worker", "shop:apq")
    assert said.code == 2
    assert said.err == "sexton: module 'shop' has no 'apq'; did you mean 'app'?\n"


def test_to_look_for_jobs_is_no_reason_to_make_a_database(embedded_cli: Cli) -> None:
    said = embedded_cli("job", "ls", "--data-folder", str(embedded_cli.folder / "nothing"))
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "there is no Sexton in" in said.err
    assert not (embedded_cli.folder / "nothing").exists()
