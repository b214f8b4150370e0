"""sexton schedule … and sexton calendar …, as operators and their scripts use them."""

import contextlib
import io
import json
import os
import signal
import sys
from typing import Any
from unittest import mock

import pytest

from sexton.cli.main import main

from .conftest import HOSTILE, SHOP, Cli, Said
from .test_jobs import UNSAFE

DECLARING = (
    SHOP
    + """

@app.schedule(every="1h", name="hourly", arguments={"a": 1})
@app.schedule("0 6 * * *", timezone="Europe/Paris", arguments={"a": 2})
@app.task(name="sum")
async def also(a: int) -> int:
    return a
"""
)


def here(cli: Cli, *words: str, **more: str) -> Said:
    """In this process, because starting another takes longer than most commands."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.chdir(cli.folder),
        mock.patch.dict(os.environ, cli.environ | more, clear=True),
        mock.patch.object(sys, "argv", ["sexton", *words]),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    code = ended.value.code
    assert isinstance(code, int)
    return Said(code, out.getvalue(), err.getvalue())


def test_a_schedule_goes_through_all_its_verbs(cli: Cli) -> None:
    made = cli.json(
        *("schedule", "add", "beat", "--cron", "0 6 * * *", "--timezone", "Europe/Paris"),
        *("--task", "add", "--args", '{"a": 1}', "--tag", "x", "--tag", "y", "--grace", "2h"),
    )
    assert (made["name"], made["state"], made["version"]) == ("beat", "active", 1)
    assert made["payload"] == {"a": 1}
    assert (made["tags"], made["grace"], made["target"]) == (["x", "y"], 7200, {"task": "add"})
    assert cli.json("schedule", "show", "beat") == made
    changed = cli.json(
        *("schedule", "update", "beat", "--every", "90s", "--unset", "timezone"),
        *("--unset", "tag", "--args", '{"a": 2}', "--max-fires", "9"),
    )
    assert (changed["every"], changed["grace"], changed["max_fires"]) == (90, 7200, 9)
    assert (changed["tags"], changed["timezone"], "cron" in changed) == ([], "UTC", False)
    paused = cli.json("schedule", "pause", "beat", "--reason", "broken", "--until", "+2h")
    assert (paused["state"], paused["reason"]) == ("paused", "broken")
    assert paused["until"] is not None
    job = cli.json("schedule", "trigger", "beat", "--args", '{"a": 3}')["job"]
    assert cli.json("job", "show", str(job))["payload"] == {"a": 3}
    assert cli.json("schedule", "resume", "beat")["state"] == "active"
    assert cli.json("schedule", "cancel", "beat", "--reason", "over")["state"] == "cancelled"
    versions = cli.json("schedule", "versions", "beat")["versions"]
    assert [each["ended_by"] for each in versions] == [None, "cancel", "resume", "pause", "update"]
    assert cli.json("schedule", "ls", "--state", "cancelled")["schedules"][0]["name"] == "beat"
    again = cli.json("schedule", "add", "beat", "--at", "+1h", "--task", "add", "--replace")
    assert (again["version"], again["state"]) == (6, "active")
    assert cli.json("schedule", "rm", "beat")["state"] == "cancelled"


def test_the_example_of_the_design_fires(cli: Cli) -> None:
    dev = cli.start("dev", "shop:app")
    dev.line("look:")
    cli.json(
        "schedule", "add", "beat", "--cron", "* * * * * *", "--task", "add", "--args", '{"a":1}'
    )
    dev.line("add attempt 1", "succeeded")
    cli.json("schedule", "cancel", "beat")
    assert dev.end(signal.SIGINT).code == 0


def test_people_see_tables(cli: Cli) -> None:
    assert here(cli, "schedule", "ls").out == "no schedules\n"
    added = here(cli, "schedule", "add", "beat", "--every", "90s", "--task", "add", "--queue", "q")
    assert added.code == 0
    for words in (("beat", "every 90s", "active", "version", "q"),):
        assert all(word in added.out for word in words)
    cli.json("schedule", "pause", "beat", "--reason", "broken")
    listed = here(cli, "schedule", "ls").out
    assert listed.splitlines()[0].split() == ["name", "state", "when", "task", "next", "last"]
    assert listed.splitlines()[1].split()[:4] == ["beat", "paused", "every", "90s"]
    assert here(cli, "schedule", "ls", "--text", "nosuch").out == "no schedules like that\n"
    versions = here(cli, "schedule", "versions", "beat").out.splitlines()
    assert (len(versions), "pause" in versions[2]) == (3, True)
    assert here(cli, "schedule", "trigger", "beat").out == "job 1 made by beat\n"


def test_fires_to_come_are_previewed_with_notes(cli: Cli) -> None:
    words = ("schedule", "preview", "30 2 * * *", "--timezone", "Europe/Paris")
    found = cli.json(*words, "--from", "2026-03-28T12:00:00Z", "--count", "2")["fires"]
    assert [each["fire_at"] for each in found] == ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
    assert "does not exist" in found[0]["note"]
    assert found[1]["note"] is None
    shown = here(cli, *words, "--from", "2026-03-28T12:00:00Z", "--count", "2").out
    assert "Sun 2026-03-29 03:00:00 CEST" in shown
    cli.json("calendar", "put", "noon", "--window", "12:00-13:00")
    cli.json(
        "schedule", "add", "beat", "--cron", "30 * * * *", "--task", "add", "--exclude", "noon"
    )
    by_name = cli.json("schedule", "preview", "beat", "--from", "2026-03-28T11:00:00Z")["fires"]
    assert [each["fire_at"][11:16] for each in by_name[:2]] == ["11:30", "13:30"]
    by_rule = cli.json(
        *("schedule", "preview", "30 * * * *", "--exclude", "noon"),
        *("--from", "2026-03-28T11:00:00Z"),
    )["fires"]
    assert by_rule == by_name
    cli.json("schedule", "update", "beat", "--timezone", "Asia/Tokyo")
    shown = here(cli, "schedule", "preview", "beat", "--from", "2026-03-28T01:00:00Z").out
    assert "Sat 2026-03-28 10:30:00 JST" in shown, "the hours of the schedule, not of this host"
    assert len(cli.json("schedule", "preview", "--every", "5m", "--count", "3")["fires"]) == 3
    assert cli.json("schedule", "preview", "--at", "2001-01-01T00:00:00Z")["fires"] == []


def test_an_expression_is_previewed_without_any_database(embedded_cli: Cli) -> None:
    found = embedded_cli.json("schedule", "preview", "@daily", "--count", "1")["fires"]
    assert found[0]["fire_at"].endswith("T00:00:00Z")
    assert not list(embedded_cli.folder.iterdir())


def test_the_past_is_backfilled(cli: Cli) -> None:
    cli.json("schedule", "add", "beat", "--cron", "* * * * *", "--task", "add", "--args", '{"a":1}')
    begun = cli.json("schedule", "backfill", "beat", "--from", "-5m", "--to", "now", "--rate", "99")
    assert (begun["rate"], begun["finished_at"], begun["fired"]) == (99, None, 0)
    dev = cli.start("dev", "shop:app")
    for _ in range(5):
        dev.line("add attempt 1", "succeeded")
    dev.end()
    [done] = cli.json("schedule", "backfills", "beat")["backfills"]
    assert done["fired"] + done["skipped"] == 5
    assert "succeeded" in here(cli, "schedule", "backfills", "beat").out
    stopped = here(cli, "schedule", "stop-backfill", "beat", "1")
    assert (stopped.code, "has come to its end already" in stopped.err) == (2, True)
    assert here(cli, "schedule", "stop-backfill", "beat", "7").code == 1
    two = here(cli, "schedule", "backfill", "beat", "--from", "-5m", "--to", "-1m").out
    assert two.startswith("backfill 2 begins")
    assert cli.json("schedule", "stop-backfill", "beat", "2") == {"id": 2, "stopped": True}


def test_declared_schedules_are_planned_and_synced(cli: Cli) -> None:
    (cli.folder / "shop.py").write_text(DECLARING)
    plan = cli("schedule", "plan", "shop:app", "--check")
    assert plan.code == 1, "there is something to do"
    assert "+ add     hourly" in plan.out
    assert "shop: 2 added" in plan.out
    synced = json.loads(cli("schedule", "sync", "shop:app", "--json").out)
    assert [(step["kind"], step["name"]) for step in synced["steps"]] == [
        ("add", "hourly"),
        ("add", "sum"),
    ]
    assert len(synced["steps"][0]["fires_after"]) == 3
    assert cli("schedule", "plan", "shop:app", "--check").code == 0
    (cli.folder / "shop.py").write_text(DECLARING.replace("0 6 * * *", "0 7 * * *"))
    changed = cli("schedule", "sync", "shop:app").out
    assert '"0 6 * * *" → "0 7 * * *"' in changed
    assert "shop: 1 changed, 1 kept" in changed
    (cli.folder / "shop.py").write_text(SHOP)
    assert "- retire  hourly" in cli("schedule", "sync", "shop:app").out
    cli.json("schedule", "add", "mine", "--every", "5s", "--task", "sum")
    (cli.folder / "shop.py").write_text(DECLARING.replace('"hourly"', '"mine"'))
    refused = cli("schedule", "sync", "shop:app")
    assert (refused.code, "'mine': there is one that was not declared" in refused.err) == (2, True)
    assert "+ restore sum" in cli("schedule", "sync", "shop:app", "--adopt").out


def test_a_crontab_is_imported(cli: Cli) -> None:
    (cli.folder / "tab").write_text("MAILTO=me\n@daily backup --all\n61 * * * * x\n")
    refused = here(cli, "schedule", "import", "tab", "--task", "shell")
    assert (refused.code, refused.out) == (2, "")
    assert "line 3: " in refused.err
    dry = here(cli, "schedule", "import", "tab", "--task", "shell", "--dry-run", "--json")
    assert (dry.code, dry.json["dry_run"], dry.json["bad"][0]["line"]) == (1, True, 3)
    assert cli.json("schedule", "ls")["schedules"] == []
    done = here(cli, "schedule", "import", "tab", "--task", "shell", "--skip-bad")
    assert (done.code, "1 schedule imported" in done.out) == (0, True)
    assert "not carried over: MAILTO" in done.out
    [made] = cli.json("schedule", "ls", "--tag", "crontab")["schedules"]
    assert (made["payload"], made["target"]) == ({"command": "backup --all"}, {"task": "shell"})
    again = cli.json("schedule", "import", "tab", "--task", "shell", "--skip-bad", "--dry-run")
    assert [each["done"] for each in again["schedules"]] == ["kept"]
    piped = cli("schedule", "import", "-", "--task", "shell", "--system", stdin="@daily bob x\n")
    assert "1 schedule imported" in piped.out


def test_calendars_are_put_shown_and_removed(cli: Cli) -> None:
    assert here(cli, "calendar", "ls").out == "no calendars\n"
    put = cli.json(
        *("calendar", "put", "off", "--date", "2026-12-25", "--date", "--01-01"),
        *("--range", "2026-12-24/2027-01-02", "--window", "sat,sun", "--timezone", "Europe/Paris"),
    )
    assert put["schedules_changed"] == 0
    assert put["calendar"]["dates"] == ["--01-01", "2026-12-25"]
    cli.json("schedule", "add", "beat", "--every", "5s", "--task", "t", "--exclude", "off")
    assert "1 schedule changed" in here(cli, "calendar", "put", "off", "--date", "2026-12-25").out
    assert "2026-12-25" in here(cli, "calendar", "show", "off").out
    assert "off" in here(cli, "calendar", "ls").out
    assert cli.json("calendar", "users", "off") == {"users": ["beat"], "next": None}
    assert here(cli, "calendar", "users", "off").out == "beat\n"
    refused = here(cli, "calendar", "rm", "off")
    assert (refused.code, "is used by beat" in refused.err) == (2, True)
    cli.json("schedule", "rm", "beat")
    assert here(cli, "calendar", "users", "off").out == "no schedule goes by off\n"
    assert here(cli, "calendar", "users", "of").code == 1
    assert cli.json("calendar", "rm", "off") == {"removed": "off"}
    assert cli.json("calendar", "ls") == {"calendars": [], "next": None}


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("show", "nosuch"), 1, "no schedule 'nosuch'"),
        (("trigger", "nosuch"), 1, "no schedule 'nosuch'"),
        (("add", "x", "--task", "t"), 2, "give one of --cron, --every, --at, --rrule and --any,"),
        (
            ("add", "x", "--task", "t", "--cron", "@daily", "--every", "5s"),
            *(2, "not --cron and --every"),
        ),
        (
            ("add", "x", "--task", "t", "--cron", "0 0 L * ?"),
            *(2, "--dialect 'quartz'"),
        ),
        (("preview", "30 2 * *"), 2, "4 fields; cron has 5"),
        (("preview", "*/5"), 2, "1 field; cron has 5"),
        (("preview", "two words"), 1, "no schedule 'two words'"),
        (("preview", "--timezone", "UTC"), 2, "which fires?"),
        (("preview", "@daily", "--every", "5s"), 2, "not an expression and --every"),
        (("add", "x", "--task", "t", "--cron", "61 * * * *"), 2, "minute: 61"),
        (("add", "x", "--task", "t", "--every", "5s", "--args", "[1]"), 2, "not a JSON object"),
        (("add", "x", "--task", "t", "--every", "5s", "--args", "{"), 2, "are not JSON"),
        (("add", "x", "--task", "t", "--at", "+soon"), 2, "at: 'soon' is not a duration"),
        (("add", "x", "--task", "t", "--at", "-1h"), 2, "never fires"),
        (("update", "x"), 2, "nothing to change"),
        (("preview",), 2, "which fires?"),
        (("preview", "x", "--timezone", "UTC"), 2, "is not a cron expression"),
        (("import", "nosuch", "--task", "t"), 2, "cannot read nosuch"),
        (("backfill", "x", "--from", "-1h", "--to", "soon"), 2, "is not an instant"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    cli: Cli, words: tuple[str, ...], code: int, why: str
) -> None:
    said = here(cli, "schedule", *words, COLUMNS="500")
    assert (said.code, said.out) == (code, "")
    assert why in said.err


def test_hostile_text_cannot_move_the_cursor(cli: Cli) -> None:
    name = HOSTILE.replace("\x00", "")
    given: list[Any] = ["--task", name, "--args", json.dumps({"a": name}), "--tag", name]
    cli.json("schedule", "add", name, "--every", "5s", *given)
    cli.json("schedule", "pause", name, "--reason", name)
    for words in (("ls",), ("show", name), ("versions", name), ("show", name, "--json")):
        shown = here(cli, "schedule", *words).out
        assert not any(char in shown for char in UNSAFE), ascii(shown)
        assert "[bold]markup[/bold]" in shown
