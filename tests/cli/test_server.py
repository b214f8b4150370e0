"""The same commands against a database and against a service: the same words, the same JSON."""

import http.server
import json
import os
import pty
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ..api.process import ApiProcess, processes
from .conftest import PATIENCE, PROGRAM, Cli
from .test_schedules import here

# What changes from one look to the next, whoever looks.
MOVING = (
    *("renewed_at", "lease_until", "lease_left", "fired", "last_fire_at", "next_fire_at"),
    *("skew", "oldest_ready_for", "late", "last_used_at"),
)


@dataclass
class Both:
    """A database, and the service in front of it."""

    cli: Cli
    afar: Cli
    api: ApiProcess
    key: str

    def json(self, *words: str) -> Any:
        """What both of them say, which is the same."""
        at_hand, from_afar = self.cli.json(*words), self.afar.json(*words)
        assert _still(at_hand) == _still(from_afar), words
        return from_afar


def _still(said: Any) -> Any:
    if isinstance(said, dict):
        kept = {name: _still(value) for name, value in said.items() if name not in MOVING}
        if isinstance(kept.get("next"), str):
            kept["next"] = "a cursor"  # each side has its own
        return kept
    return [_still(each) for each in said] if isinstance(said, list) else said


@pytest.fixture
def both(cli: Cli) -> Iterator[Both]:
    cli.environ["SEXTON_SECRET_KEY"] = secret = here(cli, "secret-key").out.strip()
    key = cli.json("key", "create", "ops", "--role", "admin")["key"]
    with processes(cli.environ["SEXTON_DATABASE_URL"]) as start:
        api = start(secret_key=secret)
        deadline = time.monotonic() + PATIENCE
        while (found := re.search(r"listens at (http://\S+)", api.output())) is None:
            assert api.process.poll() is None, api.output()
            assert time.monotonic() < deadline, api.output()
            time.sleep(0.02)
        environ = {name: value for name, value in cli.environ.items() if "SEXTON" not in name}
        environ |= {"SEXTON_SERVER": found[1], "SEXTON_KEY": key}
        api.url = found[1]
        yield Both(cli, replace(cli, environ=environ), api, key)


def test_every_look_is_the_same_from_both_sides(both: Both) -> None:
    afar = both.afar
    afar.json("calendar", "put", "off", "--date", "2030-12-25", "--window", "sat,sun")
    afar.json("endpoint", "put", "hooks", "https://hooks.example.com/x", "--header", "X-A: b")
    rules: dict[str, tuple[str, ...]] = {
        "beat": ("--cron", "* * * * * *", "--task", "add", "--args", '{"a": 1}', "--tag", "x"),
        "yearly": ("--cron", "0 6 1 1 *", "--timezone", "Europe/Paris", "--task", "http:hooks"),
        "often": ("--every", "90m", "--task", "add", "--grace", "2h", "--overlap", "allow"),
        "once": ("--at", "2031-01-01T00:00:00Z", "--task", "add", "--priority", "3"),
        "rest": ("--any", "0 6 * * *", "--any", "0 8 * * *", "--exclude", "off", "--task", "add"),
    }
    for name, rule in rules.items():
        afar.json("schedule", "add", name, *rule)
    afar.json("schedule", "pause", "often", "--reason", "too often", "--until", "+2h")
    afar.json("schedule", "rm", "once", "--reason", "never mind")
    dev = both.cli.start("dev", "shop:app")
    dev.line("add attempt 1", "succeeded")
    die = afar.json("job", "enqueue", "die", "--tag", "t", "--key", "k")["id"]
    dev.line(f"job {die} die attempt 1", "dead")
    assert [each["leader"] for each in both.json("cluster")["nodes"]] == [True]
    assert [each["remote"] for each in both.json("workers")["workers"]] == [False]
    afar.json("schedule", "pause", "beat")
    assert dev.end(signal.SIGTERM).code == 0
    later = afar.json("job", "enqueue", "add", '{"a": 2}', "--delay", "1h", "--queue", "slow")["id"]
    afar.json("schedule", "backfill", "beat", "--from", "-2h", "--to", "-1h")

    listed = both.json("schedule", "ls")["schedules"]
    assert [each["name"] for each in listed] == ["beat", "often", "rest", "yearly"]
    assert len(both.json("schedule", "ls", "--state", "all")["schedules"]) == 5
    page = both.json("schedule", "ls", "--limit", "3")
    rest = afar.json("schedule", "ls", "--cursor", page["next"])["schedules"]
    assert [each["name"] for each in rest] == ["yearly"]
    [hooked] = both.json("schedule", "ls", "--task", "hooks")["schedules"]
    assert hooked["target"] == {"http": {"endpoint": "hooks"}}
    for name in rules:
        assert both.json("schedule", "show", name)["name"] == name
        assert both.json("schedule", "versions", name)["versions"]
    for words in (
        ("schedule", "preview", "rest", "--from", "2030-12-20T00:00:00Z", "--count", "3"),
        ("schedule", "preview", "0 6 * * *", "--exclude", "off", "--from", "2030-12-20T00:00:00Z"),
        ("schedule", "explain", "yearly", "--at", "2030-01-01T05:00:00Z"),
        ("schedule", "fires", "beat"),
        ("schedule", "fires", "beat", "--decision", "fired", "--limit", "1"),
        ("schedule", "backfills", "beat"),
        ("schedule", "update", "rest", "--cron", "0 7 * * *", "--unset", "exclude", "--dry-run"),
        ("calendar", "ls"),
        ("calendar", "show", "off"),
        ("calendar", "users", "off"),
        ("calendar", "users", "off", "--limit", "1"),
        ("job", "ls"),
        ("job", "ls", "--state", "succeeded", "--task", "add"),
        ("job", "ls", "--schedule", "beat", "--limit", "1"),
        ("job", "ls", "--from", "-1h", "--queue", "slow"),
        ("job", "show", str(die)),
        ("job", "show", str(later)),
        ("job", "progress", str(later)),
        ("dead", "ls", "--error", "markup"),
        ("dead", "show", str(die)),
        ("dead", "redrive", "--all", "--dry-run"),
        ("queues",),
        ("endpoint", "ls"),
        ("endpoint", "show", "hooks"),
        ("tenant", "ls"),
        ("tenant", "show", "default"),
        ("key", "ls"),
        ("key", "show", "1"),
        ("audit-log", "--action", "schedule.pause"),
    ):
        assert both.json(*words)
    at = both.json("schedule", "fires", "beat", "--decision", "fired")["fires"][0]["fire_at"]
    assert both.json("schedule", "explain", "beat", "--at", at)["verdict"] == "fired"
    for words in (("schedule", "ls"), ("job", "show", str(die)), ("dead", "ls"), ("queues",)):
        assert here(both.cli, *words).out == here(afar, *words).out, words


def test_every_change_is_made_from_afar(both: Both) -> None:
    afar = both.afar
    made = afar.json("schedule", "put", "beat", "--every", "1h", "--task", "add", "--jitter", "5m")
    assert (made["every"], made["jitter"]) == (3600, 300)
    changed = afar.json(
        "schedule", "update", "beat", "--unset", "jitter", "--args", '{"a": {"b":1}}'
    )
    assert ("jitter" in changed, changed["payload"]) == (False, {"a": {"b": 1}})
    afar.json("schedule", "update", "beat", "--args", '{"a": {"c": 2}}')
    assert both.json("schedule", "show", "beat")["payload"] == {"a": {"c": 2}}
    job = afar.json("schedule", "trigger", "beat", "--args", '{"a": 3}')["job"]
    assert both.json("job", "show", str(job))["payload"] == {"a": 3}
    assert afar.json("schedule", "pause", "beat")["state"] == "paused"
    assert afar.json("schedule", "resume", "beat")["state"] == "active"
    id = afar.json("schedule", "backfill", "beat", "--from", "-3h", "--to", "-1h")["id"]
    assert afar.json("schedule", "stop-backfill", "beat", str(id))["stopped"]
    assert afar.json("job", "cancel", str(job))["jobs"][0]["done"] == "cancelled"
    [again] = afar.json("job", "retry", str(job))["jobs"]
    assert (again["done"], again["job"] > job) == ("retried", True)
    assert afar.json("calendar", "put", "off", "--date", "2030-12-25")["schedules_changed"] == 0
    assert afar.json("calendar", "rm", "off") == {"removed": "off"}
    put = afar.json("endpoint", "put", "hooks", "https://hooks.example.com", "--generate")
    assert put["secret"].startswith("whsec_")
    assert afar.json("endpoint", "update", "hooks", "--timeout", "5s")["timeout"] == 5
    assert afar.json("endpoint", "test", "hooks")["job"] > again["job"]
    assert afar.json("endpoint", "rm", "hooks") == {"removed": "hooks"}
    assert (
        afar.json("tenant", "put", "acme", "--max-schedules", "7")["tenant"]["max_schedules"] == 7
    )
    key = afar.json("key", "create", "bell", "--role", "viewer", "--tenant", "acme")
    new = afar.json("key", "rotate", str(key["made"]["id"]), "--tenant", "acme")
    assert new["made"]["tenant"] == "acme"
    gone = afar.json("key", "revoke", str(new["made"]["id"]), "--tenant", "acme")["key"]
    assert gone["state"] == "revoked"
    assert afar.json("schedule", "rm", "beat")["state"] == "cancelled"
    actions = {each["action"] for each in both.json("audit-log", "--limit", "100")["lines"]}
    assert {"schedule.update", "job.cancel", "endpoint.put", "tenant.put"} <= actions


def test_a_tenant_is_a_name_at_the_database_and_a_key_from_afar(both: Both) -> None:
    both.cli.json("tenant", "put", "acme")
    key = both.cli.json("key", "create", "ops", "--role", "admin", "--tenant", "acme")["key"]
    afar = replace(both.afar, environ=both.afar.environ | {"SEXTON_KEY": key})
    afar.json("schedule", "add", "theirs", "--every", "1h", "--task", "add")
    id = str(afar.json("job", "enqueue", "add", '{"a": 1}')["id"])
    of_acme = ("--tenant", "acme")
    assert both.cli.json("schedule", "show", "theirs", *of_acme) == afar.json(
        "schedule", "show", "theirs"
    )
    assert both.cli.json("job", "show", id, *of_acme) == afar.json("job", "show", id)
    assert both.cli.json("job", "cancel", id, *of_acme)["jobs"][0]["done"] == "cancelled"
    mine = both.cli.json("job", "enqueue", "add", '{"a": 1}', *of_acme)["id"]
    assert afar.json("job", "show", str(mine))["state"] == "ready"
    for cli in (both.cli, both.afar):
        assert cli.json("schedule", "ls")["schedules"] == []
        assert here(cli, "job", "show", id).code == 1
    assert here(both.cli, "schedule", "ls", "--tenant", "nobody").code == 2
    refused = here(both.afar, "schedule", "ls", *of_acme)
    assert (refused.code, "the key says whose it is" in refused.err) == (2, True)
    forbidden = here(afar, "cluster")
    assert (forbidden.code, forbidden.err.count("\n")) == (2, 1)


@pytest.fixture
def other(folder: Path) -> Iterator[str]:
    """An HTTP server that is none of ours."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Silent) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class _Silent(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *words: Any) -> None:
        pass


def test_what_is_wrong_is_one_line_and_an_exit_code(both: Both, folder: Path, other: str) -> None:
    cases: list[tuple[tuple[str, ...], dict[str, str], int, str]] = [
        (("queues",), {"SEXTON_KEY": ""}, 2, "set SEXTON_KEY, or give --key-file"),
        (("queues",), {"SEXTON_KEY": "sxt_nonsense"}, 2, "look at SEXTON_KEY"),
        (("queues", "--key-file", "nowhere"), {}, 2, "cannot read nowhere"),
        (
            ("queues", "--server", "http://127.0.0.1:1"),
            *({}, 3, "http://127.0.0.1:1 cannot be reached: Connection refused; does `sexton api`"),
        ),
        (
            ("queues", "--server", f"{both.api.url}/foo"),
            *({}, 2, "there is nothing at /foo/v1/queues; what there is"),
        ),
        (("queues", "--server", "nonsense"), {}, 2, "is not like https://"),
        (("queues", "--server", "http://u:p@x"), {}, 2, "give no user in the URL"),
        (("queues", "--server", other), {}, 2, "there is no Sexton at"),
        (("queues", "--server", "http://x", "--schema", "y"), {}, 2, "give it alone"),
        (("schedule", "show", "nosuch"), {}, 1, "nosuch"),
        (("job", "show", "77"), {}, 1, "no job 77"),
        (("calendar", "show", "nosuch"), {}, 1, "nosuch"),
        (("endpoint", "show", "nosuch"), {}, 1, "nosuch"),
        (("tenant", "show", "nosuch"), {}, 1, "nosuch"),
        (("schedule", "add", "x", "--cron", "61 * * * *", "--task", "t"), {}, 2, "cron"),
        (("schedule", "add", "x", "--task", "t"), {}, 2, ""),
        (("schedule", "ls", "--cursor", "nonsense"), {}, 2, "cursor"),
        (("audit",), {}, 2, "works at the database itself"),
        (("migrate",), {}, 2, "works at the database itself"),
        (("stuck",), {}, 2, "works at the database itself"),
        (("doctor",), {}, 2, "works at the database itself"),
        (("scheduler", "--server", "http://x"), {}, 2, "works at the database itself"),
        (("worker", "shop:app", "--server", "http://x"), {}, 2, "works at the database itself"),
    ]
    for words, environ, code, why in cases:
        said = here(both.afar, *words, **environ)
        assert (said.code, said.out) == (code, ""), (words, said)
        assert why in said.err, words
        assert said.err.startswith("sexton: "), words
        assert said.err.count("\n") == 1, words
    assert not (folder / ".sexton").exists(), "nobody made a database for it"
    for words in (("calendar", "show", "nosuch"), ("endpoint", "rm", "nosuch")):
        assert here(both.cli, *words).code == here(both.afar, *words).code == 1, words


def test_the_program_itself_speaks_to_a_service(both: Both) -> None:
    (both.cli.folder / "key").write_text(both.key + "\n")
    there = ("--server", both.api.url, "--key-file", "key")
    made = both.cli("job", "enqueue", "add", '{"a": 1}', "--json", *there)
    assert (made.code, made.json["duplicate"]) == (0, False), made.err
    assert both.afar("job", "show", str(made.json["id"]), "--json").json["payload"] == {"a": 1}
    assert both.key not in both.afar("queues", "--debug", SEXTON_SERVER="http://127.0.0.1:1").err


def test_files_of_json_lines_are_taken_in_and_bad_lines_are_named(both: Both) -> None:
    (both.cli.folder / "jobs").write_text(
        '{"task": "add", "payload": {"a": 1}}\n\n{oops\n'
        '{"task": "add", "payload": {"a": 2}, "key": "k"}\n'
        '{"target": {"task": "add"}, "colour": "red"}\n[]\n'
    )
    (both.cli.folder / "schedules").write_text(
        "".join(
            json.dumps({"name": f"s{nth}", "every": every, "target": {"task": "add"}}) + "\n"
            for nth, every in enumerate(("1h", "2h", "never"))
        )
    )
    for nth, cli in enumerate((both.cli, both.afar)):
        said = here(cli, "job", "enqueue", "--file", "jobs", "--json")
        assert said.code == 1
        assert said.json["created"] + said.json.get("duplicate", 0) == 2
        assert [each["line"] for each in said.json["errors"]] == [3, 5, 6], cli
        said = here(cli, "schedule", "add", "--file", "schedules")
        assert said.out == f"2 schedules: 2 {'exists' if nth else 'created'}\n"
        assert "line 3: every" in said.err
        again = here(cli, "schedule", "add", "--file", "schedules", "--replace", "--json")
        assert again.json["exists"] == 2
    assert len(both.json("schedule", "ls")["schedules"]) == 2
    piped = both.afar("job", "enqueue", "--file", "-", stdin='{"task": "add"}\n')
    assert (piped.code, piped.out) == (0, "1 job: 1 created\n")


def test_a_crontab_is_imported_from_afar_as_at_hand(both: Both) -> None:
    (both.cli.folder / "tab").write_text("@daily backup\n5 4 * * * sweep\n")
    words = ("schedule", "import", "tab", "--task", "shell")
    for cli, done in ((both.afar, "added"), (both.cli, "kept")):
        for more in (("--dry-run",), ()):
            said = cli.json(*words, *more)
            assert [each["done"] for each in said["schedules"]] == [done, done], (cli, more)
    (both.cli.folder / "tab").write_text("@daily backup\n6 4 * * * sweep\n")
    for more in (("--dry-run",), ()):
        changed = both.afar.json(*words, *more)["schedules"]
        assert sorted(each["done"] for each in changed) in (["changed", "kept"], ["added", "kept"])


def test_dead_jobs_are_redriven_and_purged_in_batches(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sexton.cli.dead.BATCH", 2)
    dev = both.cli.start("dev", "shop:app")
    ids = [both.afar.json("job", "enqueue", "die")["id"] for _ in range(5)]
    for id in ids:
        dev.line(f"job {id} die attempt 1", "dead")
    assert dev.end(signal.SIGTERM).code == 0
    done = both.afar.json("dead", "redrive", "--task", "die", "--limit", "3")
    assert (done["chosen"], done["redriven"]) == (3, 3)
    assert both.afar.json("dead", "purge", "--all", "--yes") == {"purged": ids[3:]}
    assert both.json("dead", "ls") == {"dead": [], "next": None}


def test_a_bar_is_drawn_on_a_terminal_only_and_ctrl_c_says_how_far_it_came(cli: Cli) -> None:
    line = json.dumps({"task": "add", "payload": {"a": 1}}) + "\n"
    (cli.folder / "jobs").write_text(line * 1500)
    shown, done = _on_a_terminal(cli, "job", "enqueue", "--file", "jobs")
    assert (done, "jobs enqueued" in shown) == (0, True)
    shown, done = _on_a_terminal(cli, "job", "enqueue", "--file", "jobs", "--json")
    assert (done, shown) == (0, "")
    reader, writer = os.pipe()
    started = subprocess.Popen(
        [*PROGRAM, "job", "enqueue", "--file", "-"],
        cwd=cli.folder,
        env=cli.environ,
        stdin=reader,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(reader)
    os.write(writer, line.encode() * 1001)
    deadline = time.monotonic() + PATIENCE
    while cli.json("queues")["queues"][0]["ready"] < 4000:
        assert time.monotonic() < deadline
    started.send_signal(signal.SIGINT)
    os.close(writer)
    _, said = started.communicate(timeout=PATIENCE)
    assert started.returncode == 130, said
    assert re.fullmatch(r"sexton: stopped: 1,00\d jobs enqueued\n", said)


def _on_a_terminal(cli: Cli, *words: str) -> tuple[str, int]:
    """What is drawn on stderr, if that is one."""
    ours, theirs = pty.openpty()
    environ = cli.environ | {"TERM": "xterm", "COLUMNS": "100"}
    started = subprocess.Popen(
        [*PROGRAM, *words], cwd=cli.folder, env=environ, stderr=theirs, stdout=subprocess.DEVNULL
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    return shown.decode(), started.wait(PATIENCE)
