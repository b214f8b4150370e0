"""sexton job, dead, stuck, workers, queues, retention: words, shapes, exit codes."""

import signal
from datetime import datetime
from pathlib import Path

import pytest

from sexton.cli.main import main

from .conftest import HOSTILE, Cli

UNSAFE = ("\x1b", "\x9b", "\x07", "\u202e", "\r")


def test_a_job_is_enqueued_listed_shown_and_cancelled(cli: Cli) -> None:
    made = cli.json(
        *("job", "enqueue", "ring", '{"bell": 1}', "--key", "k", "--delay", "2h"),
        *("--priority", "3", "--queue", "tower", "--tag", "a", "--tag", "b"),
    )
    assert made == {"id": 1, "duplicate": False}
    again = cli("job", "enqueue", "ring", "--key", "k")
    assert (again.code, "job 1 is live already" in again.out) == (0, True)

    [job] = cli.json("job", "ls", "--queue", "tower", "--tag", "b", "--state", "waiting")["jobs"]
    assert (job["id"], job["task"], job["key"], job["tags"]) == (1, "ring", "k", ["a", "b"])
    assert (job["priority"], job["state"]) == (3, "waiting")
    assert "ring" in cli("job", "ls").out
    counts = {"waiting": 1, "ready": 0, "running": 0, "oldest_ready_for": None}
    assert cli.json("queues") == {"queues": [{"queue": "tower", **counts}]}

    assert cli("job", "cancel", "1").out == "job 1 is cancelled\n"
    shown = cli.json("job", "show", "1")
    assert (shown["state"], shown["attempts"][0]["outcome"]) == ("cancelled", "cancelled")
    assert shown["payload"] == {"bell": 1}
    late = cli("job", "cancel", "1", "99")
    assert (late.code, late.out, late.err) == (1, "job 1 is cancelled\n", "sexton: no job 99\n")


def test_an_instant_is_absolute_or_counted_by_the_database(cli: Cli) -> None:
    def due(at: str) -> tuple[datetime, datetime]:
        id = cli.json("job", "enqueue", "ring", "--at", at)["id"]
        job = cli.json("job", "show", str(id))
        return datetime.fromisoformat(job["created_at"]), datetime.fromisoformat(job["due_at"])

    made, ahead = due("+2h")
    assert 7199 < (ahead - made).total_seconds() < 7201
    made, behind = due("-25s")
    assert abs((behind - made).total_seconds()) < 1
    _, absolute = due("2099-03-28T12:00:00+02:00")
    assert absolute.isoformat() == "2099-03-28T10:00:00+00:00"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("job", "enqueue", "ring", "{oops"), "not JSON"),
        (("job", "enqueue", "ring", "[1]"), "JSON object"),
        (("job", "enqueue", "ring", "--at", "+1h", "--delay", "1h"), "not both"),
        (("job", "enqueue", "ring", "--at", "tomorrow"), "is not an instant"),
        (("job", "enqueue", "ring", "--priority", "9"), "--priority"),
        (("job", "ls", "--state", "alive"), "alive"),
        (("job", "enqueue"), "give a TASK"),
        (("job", "show", str(2**63)), "less than or equal to 9223372036854775807"),
        (("job", "cancel", "1", str(2**70)), "less than or equal to 9223372036854775807"),
        (("dead", "redrive", str(2**63)), "less than or equal to 9223372036854775807"),
        (("dead", "redrive"), "which ones?"),
        (("dead", "purge", "1"), "give --yes"),
        (("retention", "--history", "2h"), "at least 1d"),
        (("--data-folder", "x", "--database-url", "postgresql://x", "queues"), "give one"),
        (("queues", "--schema", "no-good"), "is not usable"),
        (("queues", "--database-url", "mysql://x"), "postgresql://"),
    ],
)
def test_wrong_usage_is_refused_with_exit_code_2(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    why: str,
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "500")
    monkeypatch.setattr("sys.argv", ["sexton", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capfd.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    assert why in said.err
    assert not list(folder.iterdir()), "nothing is started for it"


def test_a_job_that_is_not_there_is_a_finding(cli: Cli) -> None:
    assert cli("job", "show", "7").code == 1
    said = cli("dead", "redrive", "7", "--json")
    assert (said.code, said.json["chosen"], said.err) == (1, 0, "sexton: no dead job 7\n")
    cli("job", "enqueue", "ring")
    assert cli("job", "retry", "1").out == "job 1 is ready\n"
    said = cli("dead", "show", "1")
    assert (said.code, "there is no dead job 1" in said.err) == (1, True)


def test_dead_jobs_are_looked_at_redriven_and_purged(cli: Cli) -> None:
    dev = cli.start("dev", "shop:app")
    for id in ("1", "2"):
        made = cli("job", "enqueue", "die")
        assert made.code == 0, made.err
        assert "failed after" in dev.line(f"job {id} die attempt 1", "dead")
    assert dev.end(signal.SIGTERM).code == 0

    listed = cli.json("dead", "ls", "--task", "die")["dead"]
    assert [(job["id"], job["reason"]) for job in listed] == [(2, "permanent"), (1, "permanent")]
    assert "second" in listed[0]["error"]
    assert cli.json("dead", "show", "1")["attempts"][0]["outcome"] == "failed"

    some = cli.json("dead", "redrive", "--error", "markup", "--since", "-1h", "--dry-run")
    assert (some["dry_run"], some["chosen"], some["redriven"]) == (True, 2, 0)
    assert cli.json("dead", "redrive", "--until", "-1h")["chosen"] == 0
    assert cli("job", "retry", "1").out == "job 1 is ready\n"
    assert cli.json("dead", "purge", "--all", "--yes") == {"purged": [2]}
    assert cli("dead", "ls").out == "no dead jobs\n"


def test_on_a_narrow_terminal_neither_ids_nor_states_are_cut(cli: Cli) -> None:
    given = ("--key", "k" * 80, "--queue", "a_queue_with_a_long_name", "--delay", "30d")
    for _ in range(2):
        made = cli.json("job", "enqueue", "a_task_with_a_rather_long_name", *given)
    shown = cli("job", "ls", COLUMNS="80").out.splitlines()
    assert all(len(line) <= 80 for line in shown)
    assert shown[1].split()[0] == str(made["id"])
    assert " waiting " in shown[1]
    assert "a_t" in shown[1]


def test_hostile_text_cannot_move_the_cursor(cli: Cli) -> None:
    dev = cli.start("dev", "shop:app")
    cli("job", "enqueue", "die", "--key", HOSTILE, "--tag", HOSTILE)
    shown = [dev.line("job 1 die")]
    dev.end()
    shown += [cli("dead", "ls").out, cli("dead", "show", "1").out, cli("job", "show", "1").out]
    shown += [cli("dead", "ls", "--json").out]
    for text in shown:
        assert not any(char in text for char in UNSAFE), ascii(text)
        assert "[bold]markup[/bold]" in text
    assert "日本" in shown[1]


def test_a_running_job_is_seen_from_all_sides(cli: Cli) -> None:
    assert cli("workers").out.startswith("no workers")
    assert cli("stuck", "--silent-for", "0").code == 0
    worker = cli.start("worker", "shop:app", "--queue", "slow:2", "--queue", "x", "--name", "bob")
    id = cli.json("job", "enqueue", "block", "--queue", "slow")["id"]
    worker.line(f"blocking {id}")

    [bob] = cli.json("workers")["workers"]
    assert (bob["name"], bob["queues"]) == ("bob", ["slow", "x"])
    assert "bob" in cli("workers").out
    assert cli.json("queues")["queues"][0]["running"] == 1
    assert cli("stuck").code == 0
    stuck = cli("stuck", "--silent-for", "0s", "--json")
    assert stuck.code == 1
    assert [(each["task"], each["ids"]) for each in stuck.json["stuck"]] == [("block", [id])]

    asked = cli("job", "cancel", str(id))
    assert asked.out == f"job {id} runs; its worker was asked to stop it\n"
    ended = worker.end()
    assert ended.code == 0
    assert "worker bob serves slow (2 at once), x (50 at once)" in ended.err
    assert "worker bob left" in ended.err
    assert cli.json("job", "show", str(id))["state"] == "cancelled"


def test_retention_is_shown_and_set(cli: Cli) -> None:
    assert cli.json("retention") == {"history": 90 * 86400.0, "dead": None}
    assert "forever" in cli("retention").out
    changed = cli.json("retention", "--history", "30d", "--dead", "365d")
    assert changed == {"history": 30 * 86400.0, "dead": 365 * 86400.0}
    assert cli.json("retention", "--dead", "forever") == {"history": 30 * 86400.0, "dead": None}
