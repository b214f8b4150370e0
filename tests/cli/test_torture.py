"""sexton torture, as far as it goes without being tortured: see tests/torture for the rest."""

import asyncio
import signal
from pathlib import Path

import asyncpg
import pytest

from sexton.cli.output import SIGPIPE_EXIT
from sexton.torture.guest import DROP

from ..support.postgres import Postgres
from .conftest import PATIENCE, Cli


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--seconds", "0"), "'--seconds'"),
        (("--seconds", "inf"), "'--seconds'"),
        (("--seconds", "nan"), "'--seconds'"),
        (("--fires", "inf"), "'--fires'"),
        (("--intensity", "nan"), "'--intensity'"),
        (("--seed", "seven"), "'--seed'"),
        (("--nodes", "0"), "'--nodes'"),
        (("--schema", "other"), "--schema says nothing here"),
        (("--tenant", "acme"), "--tenant says nothing here"),
        (("--server", "http://127.0.0.1:1"), "--server says nothing here"),
        (("--database-url", "postgresql:///scratch"), "a URL with a host"),
        (("--seconds", "2592000", "--fires", "10000"), "fewer --seconds or --fires"),
    ],
)
def test_what_makes_no_sense_is_refused(
    embedded_cli: Cli, words: tuple[str, ...], why: str
) -> None:
    said = embedded_cli("torture", *words, TMPDIR=str(embedded_cli.folder))
    assert (said.code, said.out) == (2, "")
    assert why in said.err
    assert [*embedded_cli.folder.iterdir()] == [], "nothing is left of what was refused"


@pytest.mark.parametrize("what", ["a file", "not empty", "not ours"])
def test_a_folder_that_cannot_be_used_is_refused(embedded_cli: Cli, what: str) -> None:
    place = embedded_cli.folder / "place"
    if what == "a file":
        place.write_text("")
    elif what == "not empty":
        (place / "something").mkdir(parents=True)
    else:
        place = Path("/proc/place")
    said = embedded_cli("torture", "--folder", str(place))
    assert (said.code, said.out) == (2, "")
    assert str(place) in said.err


async def test_a_signal_takes_everything_down_and_leaves_the_database_as_it_was(
    cli: Cli, database_url: str
) -> None:
    cli.environ["TMPDIR"] = str(cli.folder)
    before = {each.name for each in cli.folder.iterdir()}
    running = cli.start(
        *("torture", "--database-url", database_url, "--seconds", "600"),
        *("--nodes", "1", "--workers", "1", "--apis", "1", "--fires", "1"),
    )
    running.line("faults in 600 s")
    said = running.end(signal.SIGTERM)
    assert said.code == 128 + signal.SIGTERM
    assert "taking everything down" in said.err
    assert said.err.endswith("sexton: done: no verdict, and nothing is kept\n")
    assert {each.name for each in cli.folder.iterdir()} == before
    assert await _left(database_url) == 0


async def test_a_run_that_nobody_reads_any_more_ends(cli: Cli, database_url: str) -> None:
    """As with `| head`, while faults stand in somebody's way: it waited for them to be lifted."""
    running = cli.start(
        *("torture", "--database-url", database_url, "--seconds", "30", "--folder", "run"),
        *("--nodes", "1", "--workers", "1", "--apis", "1", "--fires", "1"),
        *("--intensity", "10", "--seed", "7"),
    )
    running.line("faults in 30 s")
    assert running.process.stdout is not None
    running.process.stdout.close()
    assert await asyncio.to_thread(running.process.wait, PATIENCE) == SIGPIPE_EXIT
    assert await _left(database_url) == 0


async def _left(database_url: str) -> int:
    """Of what a run makes on somebody's server."""
    connection = await asyncpg.connect(database_url)
    try:
        left: int = await connection.fetchval(
            "select count(*) from pg_namespace where nspname in ('torture', 'sexton_torture')"
        )
    finally:
        await connection.close()
    return left


@pytest.mark.parametrize("seed", ["6", "7"])  # one of them holds transactions open
async def test_whoever_gives_up_because_the_server_is_away_is_told_what_is_left_where(
    embedded_cli: Cli, own_server: Postgres, seed: str
) -> None:
    await asyncio.to_thread(own_server.create_database, "scratch")
    running = embedded_cli.start(
        *("torture", "--database-url", own_server.url("scratch"), "--folder", "run"),
        *("--seconds", "30", "--nodes", "1", "--workers", "1", "--apis", "1", "--fires", "1"),
        *("--seed", seed),
    )
    await asyncio.to_thread(running.line, "faults in 30 s")
    await asyncio.to_thread(own_server.stop, "immediate")
    await asyncio.to_thread(running.line, "PostgreSQL does not answer")
    said = await asyncio.to_thread(running.end, signal.SIGINT)
    assert said.code == 128 + signal.SIGINT
    lines = said.err.splitlines()
    assert "sexton: could not be removed from your server:" in lines
    assert [line.partition(";")[0].strip() for line in lines if "drop schema" in line] == DROP
    assert lines[-1] == "sexton: done: no verdict, and run is kept"
    assert (embedded_cli.folder / "run" / "run.json").exists()
