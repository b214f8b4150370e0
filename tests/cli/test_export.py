"""Schedules taken from one installation to another, or back to where they came from."""

import json

from ..support.postgres import Postgres
from .conftest import Cli
from .test_schedules import here
from .test_server import Both, both

__all__ = ["both"]

RULES: dict[str, tuple[str, ...]] = {
    "cron": ("--cron", "0 6 * * *", "--timezone", "Europe/Paris", "--dst", "skip"),
    "spread": ("--cron", "H H * * *", "--jitter", "5m", "--jitter-kind", "fixed"),
    "interval": ("--every", "90m", "--anchor", "2026-01-01T00:00:00Z", "--grace", "2h"),
    "once": ("--at", "2035-01-01T12:00:00", "--timezone", "America/New_York"),
    "rule": ("--rrule", "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17;BYMINUTE=0;BYSECOND=0"),
    "several": ("--any", "0 6 * * *", "--any", "0 8 * * *", "--exclude", "off"),
    "hook": ("--every", "1h", "--overlap", "queue_all", "--max-queued", "7"),
    "bounded": ("--every", "1h", "--starts-at", "2030-01-01T00:00:00Z", "--max-fires", "9"),
    "with 日本 \U0001f514": ("--every", "1h", "--priority", "3", "--queue", "q", "--tag", "x"),
}


def made(cli: Cli) -> None:
    cli.json("calendar", "put", "off", "--date", "2030-12-25")
    cli.json("endpoint", "put", "hooks", "https://hooks.example.com/x")
    for name, rule in RULES.items():
        task = "http:hooks" if name == "hook" else "add"
        cli.json(
            "schedule", "add", name, *rule, "--task", task, "--args", '{"a": {"b": [1, null]}}'
        )


def test_what_was_exported_is_taken_back_and_changes_nothing(both: Both) -> None:
    made(both.cli)
    shown = both.json("schedule", "ls")["schedules"]
    at_hand, from_afar = here(both.cli, "schedule", "export"), here(both.afar, "schedule", "export")
    assert at_hand.out == from_afar.out
    assert (at_hand.code, at_hand.err, at_hand.out.isascii()) == (0, "", True)
    lines = [json.loads(line) for line in at_hand.out.splitlines()]
    assert [each["name"] for each in lines] == sorted(RULES, key=str.encode)
    (both.cli.folder / "file").write_text(at_hand.out)
    for cli in (both.cli, both.afar):
        done = here(cli, "schedule", "import", "file", "--json")
        assert (done.code, done.json) == (0, {"exists": len(RULES), "errors": []}), done.err
    assert both.json("schedule", "ls")["schedules"] == shown


def test_what_was_exported_says_the_same_elsewhere(cli: Cli, server: Postgres) -> None:
    made(cli)
    exported = here(cli, "schedule", "export").out
    url = server.create_database("elsewhere")
    try:
        there = Cli(cli.folder, cli.environ | {"SEXTON_DATABASE_URL": url}, cli.zygote)
        there.json("calendar", "put", "off", "--date", "2030-12-25")
        there.json("endpoint", "put", "hooks", "https://hooks.example.com/x")
        done = there("schedule", "import", "-", "--json", stdin=exported)
        assert (done.code, done.json) == (0, {"created": len(RULES), "errors": []}), done.err
        assert here(there, "schedule", "export").out == exported
    finally:
        server.drop_database("elsewhere")


def test_an_export_is_filtered_and_says_what_its_lines_cannot(cli: Cli) -> None:
    for name in ("a", "b", "c"):
        cli.json("schedule", "add", name, "--every", "1h", "--task", "add", "--tag", f"of {name}")
    cli.json("schedule", "pause", "b")
    cli.json("schedule", "rm", "c")
    everything = here(cli, "schedule", "export")
    assert [json.loads(line)["name"] for line in everything.out.splitlines()] == ["a", "b"]
    assert "1 schedule of 2 is not active" in everything.err
    assert json.loads(here(cli, "schedule", "export", "--tag", "of a").out)["name"] == "a"
    assert json.loads(here(cli, "schedule", "export", "--state", "paused").out)["name"] == "b"
    assert here(cli, "schedule", "export", "--text", "nothing").out == ""


def test_pages_of_many_are_exported_one_after_the_other(cli: Cli) -> None:
    many = 1203
    line = '{{"name": "s{:04}", "every": "1h", "target": {{"task": "add"}}}}\n'
    (cli.folder / "file").write_text("".join(line.format(n) for n in range(many)))
    assert cli.json("schedule", "import", "file")["created"] == many
    exported = here(cli, "schedule", "export").out.splitlines()
    assert [json.loads(each)["name"] for each in exported] == [f"s{n:04}" for n in range(many)]


def test_a_file_that_is_no_json_lines_is_a_crontab_that_wants_a_task(cli: Cli) -> None:
    (cli.folder / "tab").write_text("@daily backup\n")
    for words in (("tab",), ("tab", "--dry-run"), ("nosuch",)):
        said = here(cli, "schedule", "import", *words)
        assert (said.code, said.out) == (2, ""), words
        assert "--task" in said.err or "cannot read nosuch" in said.err
    assert cli.json("schedule", "ls")["schedules"] == []


def test_a_line_of_a_crontab_that_was_cancelled_stays_so(both: Both) -> None:
    (both.cli.folder / "tab").write_text("@daily backup\n5 4 * * * sweep\n")
    words = ("schedule", "import", "tab", "--task", "shell")
    both.afar.json(*words)
    [name, _] = [each["name"] for each in both.json("schedule", "ls")["schedules"]]
    both.cli.json("schedule", "rm", name, "--reason", "too loud")
    for cli in (both.afar, both.cli):
        for more in (("--dry-run",), ()):
            done = [each["done"] for each in cli.json(*words, *more)["schedules"]]
            assert sorted(done) == ["kept", "stays cancelled"], (cli, more)
    assert both.json("schedule", "show", name)["reason"] == "too loud"


def test_a_dry_run_knows_an_endpoint_that_was_written_out(cli: Cli) -> None:
    (cli.folder / "tab").write_text("@daily backup\n")
    words = ("schedule", "import", "tab", "--task", "https://hooks.example.com/run")
    for more, done in ((("--dry-run",), "added"), ((), "added"), (("--dry-run",), "kept")):
        assert [each["done"] for each in cli.json(*words, *more)["schedules"]] == [done]
