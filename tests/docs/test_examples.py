"""What the documentation shows is so: its examples run, its commands, settings and links exist."""

import ast
import asyncio
import inspect
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import CodeType
from typing import Any

import asyncpg
import pytest
from typer.main import get_command

from sexton import Sexton
from sexton.cli.main import app as program
from sexton.cli.main import global_first
from sexton.settings import Settings
from sexton.testing import Harness, Ran

from ..testing.test_docs import ASYNC_TESTS
from ..testing.test_plugin import run_pytest
from . import pages
from .pages import PAGES, README, ROOT, Block

CONCEPTS = ROOT / "docs" / "concepts.md"
OPERATIONS = ROOT / "docs" / "operations.md"
SCHEDULES = ROOT / "docs" / "schedules.md"
TAKES_VALUE = (
    *("--database-url", "--schema", "--data-folder"),
    *("--server", "--key-file", "--tenant"),
)
NOT_SETTINGS = {"SEXTON_TEST_DATABASE_URL", "SEXTON_SERVER", "SEXTON_KEY"}


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def modules(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder on the path, and the environment that the examples are written for."""
    monkeypatch.setenv("SEXTON_DATABASE_URL", database_url)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if (tmp_path / f"{name}.py").exists():
            del sys.modules[name]


def compiled(block: Block, page: Path) -> CodeType:
    """With the page's own line numbers, and `await` allowed as inside an async function."""
    text = "\n" * (block.line - 1) + block.text
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code: CodeType = compile(text, named(page), "exec", flags=flags, dont_inherit=True)
    return code


async def run(page: Path, folder: Path) -> dict[str, Any]:
    """Every Python block of a page, from top to bottom; those that are a file become one."""
    names: dict[str, Any] = {"__name__": "examples"}
    for block in pages.blocks(page, "python"):
        code = compiled(block, page)
        if block.file is not None:
            (folder / block.file).write_text(block.text)
            continue
        returned = eval(code, names)  # what it returns is a coroutine if it awaits
        if inspect.isawaitable(returned):
            await returned
    return names


async def query(database_url: str, *statements: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


def became(ran: list[Ran], task: str) -> list[tuple[str, str]]:
    return [(each.outcome, each.state) for each in ran if each.task == task]


async def test_the_tour_of_the_readme_runs_from_top_to_bottom(
    modules: Path, database_url: str
) -> None:
    names = await run(README, modules)
    await query(database_url, *(block.text for block in pages.blocks(README, "sql")))
    app: Sexton = names["app"]
    async with Harness(app) as harness:
        ran = await harness.drain()
        invoices = became(ran, "send_invoice")
        assert len(invoices) > 100
        assert set(invoices) == {("succeeded", "succeeded")}
        assert sorted(became(ran, "charge")) == [
            ("failed", "dead"),
            ("failed", "waiting"),
            ("failed", "waiting"),
            ("snoozed", "waiting"),
            ("succeeded", "succeeded"),
        ]
        for task, times in (("rebuild_index", 4), ("mark_sent", 1), ("mark_sent_too", 1)):
            assert became(ran, task) == [("succeeded", "succeeded")] * times, ran[-1]
        assert [each.result for each in ran if each.task == "import_file"] == [3]
    connection = await asyncpg.connect(database_url)
    marked = await connection.fetchval(
        "select array_agg(id order by id) from invoice where sent_at is not null"
    )
    await connection.close()
    assert marked == [20, 21]
    await asyncio.to_thread(synchronous_caller, names)


def synchronous_caller(names: dict[str, Any]) -> None:
    assert names["in_a_flask_or_django_view"](30) > 0
    names["app"].close_sync()


def test_the_test_that_the_readme_shows_passes(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(ASYNC_TESTS)
    for block in pages.blocks(README, "python"):
        if block.file is not None:
            (tmp_path / block.file).write_text(block.text)
    done = run_pytest(tmp_path)
    assert "1 passed" in done.stdout, done.stdout


@pytest.fixture
def nothing_configured(modules: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """As it is after the quick start; where the user who runs PostgreSQL for root can reach it."""
    with tempfile.TemporaryDirectory(prefix="sextest-") as folder:
        Path(folder).chmod(0o755)
        monkeypatch.delenv("SEXTON_DATABASE_URL")
        monkeypatch.setenv("SEXTON_DATA_FOLDER", f"{folder}/.sexton")
        yield modules


async def test_the_tour_of_the_readme_runs_on_the_embedded_postgresql(
    nothing_configured: Path,
) -> None:
    """The one that the README has just set up, without any setting."""
    names = await run(README, nothing_configured)
    app: Sexton = names["app"]
    assert app.settings.database_url is None
    connection = await asyncpg.connect(names["url"])
    assert await connection.fetchval("select array_agg(id order by id) from invoice") == [
        20,
        21,
        22,
    ]
    await connection.close()
    await app.close()


@pytest.mark.parametrize("page", [CONCEPTS, OPERATIONS, SCHEDULES], ids=named)
async def test_the_examples_of_a_page_run(page: Path, modules: Path, database_url: str) -> None:
    names = await run(page, modules)
    await query(database_url, *(block.text for block in pages.blocks(page, "sql")))
    if isinstance(app := names.get("app"), Sexton):
        async with Harness(app) as harness:
            ran = await harness.drain()
        assert {each.outcome for each in ran} == {"succeeded"}, ran


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_example_is_python(page: Path) -> None:
    for block in pages.blocks(page, "python"):
        compiled(block, page)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_exists_with_its_options(page: Path) -> None:
    for words in pages.commands(page):
        demand_command(words)


def demand_command(words: list[str]) -> None:
    """The parser takes these words: the command, each option, and its values."""
    command: Any = get_command(program)
    words = global_first(words)
    while hasattr(command, "commands"):
        while words and words[0].startswith("-"):
            demand_option(command, words[0])
            words = words[2 if words[0] in TAKES_VALUE else 1 :]
        if not words:
            return
        assert words[0] in command.commands, f"{command.name} has no command {words[0]!r}"
        command, words = command.commands[words[0]], words[1:]
    for word in words:
        if word.startswith("--"):
            demand_option(command, word)
    # A command named in passing has no arguments; one that is shown with some must parse.
    if any(not word.startswith("--") and not word.isupper() for word in words):
        command.make_context(command.name, list(words))


def demand_option(command: Any, word: str) -> None:
    known = {opt for each in command.params for opt in each.opts} | {"--help"}
    assert word.partition("=")[0] in known, f"{command.name} has no {word}"


def test_every_setting_is_in_the_readme_and_every_one_named_exists() -> None:
    exist = {f"SEXTON_{field.name.upper()}" for field in fields(Settings)}
    assert exist <= pages.settings(README)
    for page in PAGES:
        assert pages.settings(page) <= exist | NOT_SETTINGS, page


def test_the_defaults_in_the_readme_are_the_real_ones() -> None:
    shown = {
        row[1].strip(" `"): row[2].strip(" `").removesuffix(" s").replace(",", "")
        for row in (line.split("|") for line in README.read_text().splitlines())
        if len(row) == 5 and row[1].startswith(" `SEXTON_")
    }
    for field in fields(Settings):
        default: Any = field.default
        if field.name == "data_folder":
            expected = "./.sexton"
        elif default is None:
            expected = "–"
        elif isinstance(default, bool):
            expected = "yes" if default else "no"
        else:
            expected = f"{default:g}" if isinstance(default, float) else str(default)
        assert shown[f"SEXTON_{field.name.upper()}"] == expected, field.name


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in pages.links(page):
        path, _, fragment = link.partition("#")
        target = page if not path else (page.parent / path).resolve()
        assert target.exists(), f"{named(page)} links to {link}"
        if fragment:
            assert fragment in pages.anchors(target), f"{named(page)} links to {link}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_file_that_is_named_exists(page: Path) -> None:
    places = (ROOT, ROOT / "src" / "sexton", ROOT / "src", page.parent)
    for file in pages.files(page):
        assert any((place / file).exists() for place in places), f"{named(page)} names {file}"


def test_the_decisions_are_numbered_without_a_gap_and_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    files = sorted(folder.glob("0*.md"))
    assert [file.name[:4] for file in files] == [f"{n:04}" for n in range(1, len(files) + 1)]
    listed = {Path(link).name for link in pages.links(folder / "README.md")}
    assert listed >= {file.name for file in files}
    for file in files:
        text = file.read_text()
        for part in ("## Context", "## Choice", "## Measured", "## Rejected"):
            assert part in text, f"{file.name} has no {part}"
