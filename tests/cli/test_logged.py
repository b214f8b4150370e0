"""Changes at the database are in the audit log, in their own transaction: who, on which host."""

import os
import pwd
import socket
from typing import Any

import asyncpg
import pytest

from sexton import Sexton
from sexton.cli.database import Database
from sexton.cli.database.logged import Change, actor
from sexton.errors import InvalidSchedule

from .conftest import Cli
from .test_schedules import DECLARING, here

ME = pwd.getpwuid(os.getuid()).pw_name
NIGHTLY = ("--cron", "0 2 * * *", "--task", "add")


def lines(cli: Cli, *words: str) -> list[dict[str, Any]]:
    """Oldest first."""
    found: list[dict[str, Any]] = cli.json("audit-log", "--limit", "500", *words)["lines"]
    return found[::-1]


def test_every_change_at_the_database_says_who_made_it_where_before_and_after(cli: Cli) -> None:
    cli.json("schedule", "add", "nightly", *NIGHTLY)
    cli.json("schedule", "update", "nightly", "--grace", "2h")
    cli.json("schedule", "put", "nightly", *NIGHTLY)
    cli.json("schedule", "pause", "nightly", "--reason", "closed")
    cli.json("schedule", "resume", "nightly")
    job = cli.json("schedule", "trigger", "nightly", "--args", '{"a": 7}')["job"]
    backfill = cli.json("schedule", "backfill", "nightly", "--from", "-3d", "--to", "-1d")["id"]
    cli.json("schedule", "stop-backfill", "nightly", str(backfill))
    cli.json("schedule", "rm", "nightly", "--reason", "over")
    cli.json("schedule", "add", "nightly", *NIGHTLY)
    cli.json("calendar", "put", "off", "--date", "2030-12-25")
    cli.json("calendar", "put", "off", "--date", "2030-12-26")
    cli.json("calendar", "rm", "off")
    id = cli.json("job", "enqueue", "add", '{"a": 1}', "--key", "k")["id"]
    cli.json("job", "cancel", str(id))
    cli.json("job", "retry", str(id))
    found = lines(cli)
    assert [(each["action"], each["subject"]) for each in found] == [
        ("schedule.create", "nightly"),
        ("schedule.update", "nightly"),
        ("schedule.update", "nightly"),
        ("schedule.pause", "nightly"),
        ("schedule.resume", "nightly"),
        ("schedule.trigger", "nightly"),
        ("schedule.backfill", "nightly"),
        ("schedule.cancel_backfill", "nightly"),
        ("schedule.cancel", "nightly"),
        ("schedule.create", "nightly"),
        ("calendar.put", "off"),
        ("calendar.put", "off"),
        ("calendar.remove", "off"),
        ("job.enqueue", str(id)),
        ("job.cancel", str(id)),
        ("job.retry", str(id)),
    ]
    for each in found:
        assert each["actor"] == f"{ME} at the command line"
        assert (each["address"], each["key_id"]) == (socket.gethostname(), None)
    updated, paused = found[1], found[3]
    assert (updated["before"]["grace"], updated["after"]["grace"]) == (3600, 7200)
    assert (paused["before"]["state"], paused["after"]["reason"]) == ("active", "closed")
    assert found[5]["after"] == {"job": job, "payload": {"a": 7}}
    assert found[11]["before"]["dates"] == ["2030-12-25"]


def test_what_changed_nothing_at_the_database_is_not_logged(cli: Cli) -> None:
    cli.json("schedule", "put", "nightly", *NIGHTLY)
    cli.json("job", "enqueue", "add", "--key", "k")
    cli.json("calendar", "put", "off", "--date", "2030-12-25")
    before = lines(cli)
    for words in (
        ("schedule", "put", "nightly", *NIGHTLY),
        ("schedule", "resume", "nightly"),
        ("job", "enqueue", "add", "--key", "k"),
        ("calendar", "put", "off", "--date", "2030-12-25"),
        ("schedule", "update", "nightly", "--grace", "2h", "--dry-run"),
        ("dead", "redrive", "--all", "--dry-run"),
        ("dead", "purge", "--all", "--yes"),
        ("retention",),
        ("installation",),
    ):
        assert here(cli, *words).code == 0, words
    assert here(cli, "schedule", "add", "nightly", *NIGHTLY).code == 2
    assert here(cli, "schedule", "pause", "nosuch").code == 1
    assert here(cli, "calendar", "rm", "nosuch").code == 1
    assert lines(cli) == before


def test_files_deploys_and_settings_are_logged_too(cli: Cli) -> None:
    (cli.folder / "jobs").write_text('{"task": "add"}\n' * 3)
    (cli.folder / "tab").write_text("@daily backup\n")
    (cli.folder / "shop.py").write_text(DECLARING)
    cli.json("job", "enqueue", "--file", "jobs")
    cli.json("schedule", "import", "tab", "--task", "shell")
    assert cli("schedule", "sync", "shop:app").code == 0
    assert cli("schedule", "sync", "shop:app").code == 0, "which has nothing left to do"
    cli.json("installation", "--history", "30d", "--catch-up-rate", "9")
    found = lines(cli)
    assert [each["action"] for each in found] == [
        *("job.enqueue", "schedule.bulk", "schedule.sync", "installation.set")
    ]
    assert found[0]["after"]["jobs"] == 3
    assert found[2]["after"] == {"hourly": "add", "sum": "add"}
    assert found[3]["before"]["catch_up_rate"] is None
    assert found[3]["after"]["catch_up_rate"] == 9


async def test_a_change_and_its_line_are_one_transaction(app: Sexton, database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.execute("alter table sexton.audit_log add check (subject <> 'forbidden')")
    async with app:
        database = Database(app, "default")
        with pytest.raises(asyncpg.CheckViolationError):
            await database.schedules.add("forbidden", "t", every="1h")
        assert await connection.fetchval("select count(*) from sexton.schedule") == 0

        async def fails(change: Change) -> None:
            change.log("made.up", "thing")
            await change.schedules.add("half", "t", every="1h")
            raise InvalidSchedule("at the last moment")

        with pytest.raises(InvalidSchedule, match="at the last moment"):
            await database.ground.changed(fails)
    assert await connection.fetchval("select count(*) from sexton.schedule") == 0
    assert await connection.fetchval("select count(*) from sexton.audit_log") == 0
    await connection.close()


async def test_a_change_that_collides_is_made_once_it_can_be(
    app: Sexton, database_url: str
) -> None:
    tries = 0
    async with app:
        database = Database(app, "default")

        async def collides(change: Change) -> int:
            nonlocal tries
            tries += 1
            change.log("made.up", "thing")
            if tries < 3:
                raise asyncpg.DeadlockDetectedError("deadlock detected")
            return tries

        assert await database.ground.changed(collides) == 3
        page = await database.audit_log()
    assert [each.action for each in page] == ["made.up"], "not one for each try"


async def test_a_day_without_a_bucket_gets_one(app: Sexton, database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    async with app:
        database = Database(app, "default")
        await database.schedules.add("nightly", "t", cron="0 2 * * *")
        id = (await database.enqueue("t", {}, delay=3600)).id
        for parent in ("attempt", "fire"):
            buckets = await connection.fetch(
                "select inhrelid::regclass::text as name from pg_inherits "
                "where inhparent = to_regclass($1)",
                f"sexton.{parent}",
            )
            for each in buckets:
                await connection.execute(f"drop table {each['name']}")
        assert (await database.cancel(id)).state == "cancelled"
        assert await database.schedules.trigger("nightly") > id
    await connection.close()


def test_whoever_has_no_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr("sexton.cli.database.logged.pwd.getpwuid", unknown)
    monkeypatch.setenv("USER", "somebody else")
    assert actor() == f"user {os.getuid()} at the command line"
