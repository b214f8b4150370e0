"""sexton audit, schedule explain, cluster: words, shapes, exit codes."""

import asyncio
from datetime import datetime
from typing import Any

import asyncpg
import pytest

from sexton.cli.main import main

from .conftest import HOSTILE, Cli

ROUNDS = 2000


def execute(cli: Cli, statement: str) -> str:
    """As somebody would who can write to the database; returns how many rows."""

    async def run() -> str:
        connection = await asyncpg.connect(cli.environ["SEXTON_DATABASE_URL"])
        try:
            done: str = await connection.execute(statement)
            return done
        finally:
            await connection.close()

    return asyncio.run(run())


def fired(cli: Cli, many: int) -> dict[str, Any]:
    """The audit, as soon as so many fires are in it."""
    for _ in range(ROUNDS):
        found: dict[str, Any] = cli.json("audit", "--from", "-1m", "--to", "now")
        if found["fired"] >= many:
            return found
    pytest.fail(f"there were never {many} fires, but {found}")


def test_a_beat_is_audited_explained_and_its_node_shown(cli: Cli) -> None:
    said = cli("audit")
    assert (said.code, said.err) == (0, "")
    assert "every fire has its one decision" in said.out
    assert cli("cluster").out.startswith("no nodes")
    assert cli.json("cluster")["nodes"] == []

    cli.json("schedule", "add", "beat", "--cron", "* * * * * *", "--task", "beat",
             "--overlap", "allow")  # fmt: skip
    node = cli.start("scheduler", "--name", "one")
    found = fired(cli, 2)
    assert list(found)[:6] == ["expected", "fired", "missing", "doubled", "early", "lag"]
    assert list(found["lag"]) == ["p50", "p99", "max"]
    assert (found["missing"], found["doubled"], found["early"], found["unexpected"]) == (0, 0, 0, 0)
    assert found["expected"] == found["fired"] + found["pending"]
    assert 0 <= found["lag"]["p50"] <= found["lag"]["p99"] <= found["lag"]["max"]
    assert (found["violations"], found["unchecked"]) == ([], [])

    shown = cli.json("cluster")
    [one] = shown["nodes"]
    assert (one["name"], one["leader"], one["partitions"]) == ("one", True, 256)
    assert (one["pid"], one["id"]) == (node.process.pid, shown["leader"])
    assert shown["term"] >= 1
    table = cli("cluster").out
    assert "partitions" in table
    assert f"term {shown['term']}" in table
    assert node.end().code == 0

    at = datetime.fromisoformat(found["to"]).replace(microsecond=0).isoformat()
    told = cli("schedule", "explain", "beat", "--at", at)
    assert (told.code, "fire" in told.out) == (0, True)
    found = cli.json("schedule", "explain", "beat", "--at", at)
    assert found["sentences"]
    assert found["version"] == 1
    assert cli.json("schedule", "explain", "beat", "--at", "-1d")["verdict"] == "not_created"


def test_violations_are_a_finding_and_are_told(cli: Cli) -> None:
    cli.json("schedule", "add", HOSTILE.replace("\r\n", " "), "--cron", "* * * * * *", "--task",
             "beat", "--overlap", "allow")  # fmt: skip
    node = cli.start("scheduler")
    until = fired(cli, 3)["to"]
    node.end()
    at = "(select min(fire_at) from sexton.fire)"
    assert execute(cli, f"delete from sexton.fire where fire_at = {at}") == "DELETE 1"
    early = f"update sexton.fire set decided_at = fire_at - interval '1s' where fire_at = {at}"
    assert execute(cli, early) == "UPDATE 1"

    said = cli("audit", "--from", "-2m", "--to", until, "--json")
    assert said.code == 1
    assert (said.json["missing"], said.json["early"]) == (1, 1)
    assert [each["what"] for each in said.json["violations"]] == ["missing", "early"]
    said = cli("audit", "--from", "-2m", "--to", until)
    assert said.code == 1
    assert "2 violations" in said.out
    assert "1 s before its time" in said.out
    assert "\x1b" not in said.out
    assert cli("audit", "--from", "-3h", "--to", "-2h").code == 0


def test_a_schedule_that_is_not_there_is_a_finding(cli: Cli) -> None:
    for words in (("audit", "--schedule", "beat"), ("schedule", "explain", "beat", "--at", "now")):
        said = cli(*words)
        assert (said.code, said.out) == (1, "")
        assert "no schedule 'beat'" in said.err


def test_days_that_are_not_kept_are_refused_as_wrong_usage(cli: Cli) -> None:
    cli.json("schedule", "add", "beat", "--cron", "* * * * *", "--task", "beat")
    execute(cli, "update sexton.schedule set created_at = now() - interval '1 year'")
    said = cli("audit", "--from", "-300d")
    assert (said.code, said.out) == (2, "")
    assert "the ledger is kept from" in said.err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("audit", "--from", "yesterday"), "is not an instant"),
        (("audit", "--from", "-5s", "--to", "-1h"), "is not before"),
        (("schedule", "explain", "beat"), "--at"),
        (("schedule", "explain", "beat", "--at", "noon"), "is not an instant"),
    ],
)
def test_wrong_usage_has_exit_code_2(
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    why: str,
) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    monkeypatch.setenv("SEXTON_DATABASE_URL", cli.environ["SEXTON_DATABASE_URL"])
    monkeypatch.setattr("sys.argv", ["sexton", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capfd.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    assert why in said.err
