"""sexton dev: started, seen to work, ended; nothing stays behind."""

import http.server
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from sexton.embedded import guard

from ..docs.pages import README, blocks
from ..embedded.support import becomes_free
from .conftest import PATIENCE, PROGRAM, Cli


def test_the_demonstration_runs_in_an_empty_folder_and_leaves_no_server(embedded_cli: Cli) -> None:
    dev = embedded_cli.start("dev")
    data = embedded_cli.folder / ".sexton"
    assert "data in .sexton" in dev.line("PostgreSQL:")
    dev.line("connect: ", "psql", str(data))
    look = dev.line("look: ").removeprefix("look: ").partition("  (in this folder)")[0]
    dev.line("or: ", "schedule ls", "api")
    # Some of its charges fail at first, so what succeeds first may be a second attempt.
    assert re.match(r"\d\d:\d\d:\d\d job \d+ \w+ attempt \d succeeded after", dev.line("succeeded"))
    # Meanwhile, from another terminal in the same folder:
    program, *words = shlex.split(look)
    found = shutil.which(program)
    assert found is not None, f"a shell here does not find {program}"
    assert Path(found).samefile(Path(sys.executable).parent / "sexton")
    assert embedded_cli(*words, "--json").json["jobs"]
    ended = dev.end(signal.SIGINT)
    assert (ended.code, ended.err) == (0, "")
    assert re.search(r"\d+ jobs? done in .* left for the next time\n", ended.out)
    assert "PostgreSQL is stopped; its data is kept in .sexton" in ended.out
    assert not (data / "pgdata" / "postmaster.pid").exists()
    assert becomes_free(data, guard.SERVER)
    kept = embedded_cli("migrate", "--check", "--schema", "sexton_demo")
    assert kept.code == 0, "the folder keeps its data"
    assert becomes_free(data, guard.GUARD)


def test_the_demonstration_does_nothing_to_an_application_in_the_same_folder(
    embedded_cli: Cli,
) -> None:
    """Whoever follows the README does both in one folder, and both have a `send_invoice`."""
    [first] = [each for each in blocks(README, "python") if each.file == "my_module.py"]
    (embedded_cli.folder / "my_module.py").write_text(first.text)
    dev = embedded_cli.start("dev")
    dev.line("succeeded")
    script = [sys.executable, "my_module.py"]
    made = subprocess.run(
        script, cwd=embedded_cli.folder, env=embedded_cli.environ, capture_output=True, text=True
    )
    assert made.stdout == "Enqueued(id=1, duplicate=False)\n", made.stderr
    dev.line("count_the_till", "succeeded")
    assert dev.end().code == 0
    [job] = embedded_cli("job", "ls", "--json").json["jobs"]
    assert (job["task"], job["state"], job["attempt"]) == ("send_invoice", "ready", 0)
    assert embedded_cli("schedule", "ls", "--json").json["schedules"] == []


def test_an_application_of_the_user_runs_its_own_tasks(cli: Cli) -> None:
    dev = cli.start("dev", "shop:app")
    dev.line("PostgreSQL:", "schema sexton")
    id = cli.json("job", "enqueue", "add", '{"a": 1}')["id"]
    dev.line(f"job {id} add attempt 1 succeeded")
    assert cli.json("job", "show", str(id))["result"] == 3
    ended = dev.end(signal.SIGTERM)
    assert ended.code == 0
    assert ended.out.startswith("1 job done in ")


def test_deliveries_to_endpoints_are_made(cli: Cli) -> None:
    heard = threading.Event()

    class Endpoint(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(204)
            self.end_headers()
            heard.set()

        def log_message(self, *words: Any) -> None:
            pass

    cli.environ["SEXTON_HTTP_ALLOW"] = "127.0.0.1"
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        cli.json("endpoint", "put", "hooks", url)
        dev = cli.start("dev", "shop:app")
        dev.line("PostgreSQL:")
        id = cli.json("job", "enqueue", "http:hooks", '{"a": 1}')["id"]
        dev.line(f"job {id} http:", "succeeded")
        assert heard.is_set()
        assert dev.end().code == 0
        server.shutdown()


def test_the_demonstration_keeps_apart_from_a_database_of_the_user(cli: Cli) -> None:
    dev = cli.start("dev")
    dev.line("schema sexton_demo")
    dev.line("succeeded")
    assert dev.end().code == 0
    assert cli.json("queues") == {"queues": []}


def test_a_reader_that_leaves_ends_it(cli: Cli) -> None:
    dev = cli.start("dev")
    assert dev.process.stdout
    dev.process.stdout.readline()
    dev.process.stdout.close()
    assert dev.process.wait(PATIENCE) == 0
    assert dev.process.stderr
    assert dev.process.stderr.read() == ""


def test_on_a_terminal_the_board_is_live_and_ctrl_c_ends_it(cli: Cli) -> None:
    screen, terminal = pty.openpty()
    environ = cli.environ | {"TERM": "xterm", "LINES": "40", "COLUMNS": "120"}
    dev = subprocess.Popen(
        [*PROGRAM, "dev"],
        cwd=cli.folder,
        env=environ,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    try:
        seen = _read_until(screen, "succeeded")
        assert "waiting" in seen
        assert "done/s" in seen
        assert "Ctrl-C ends it" in seen
        os.kill(dev.pid, signal.SIGINT)
        last = _read_until(screen, "left for the next time")
        assert "Traceback" not in last
        assert dev.wait(PATIENCE) == 0
    finally:
        dev.kill()
        dev.wait()
        os.close(screen)


def _read_until(screen: int, word: str) -> str:
    seen = b""
    while word.encode() not in seen:
        try:
            part = os.read(screen, 65536)
        except OSError:
            part = b""
        if not part:
            pytest.fail(f"never showed {word!r}, but {seen.decode(errors='replace')}")
        seen += part
    return seen.decode(errors="replace")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_cleanly_when_told_to_while_it_starts(embedded_cli: Cli, number: int) -> None:
    """As soon as the folder appears, initdb is under way."""
    dev = embedded_cli.start("dev")
    data = embedded_cli.folder / ".sexton"
    _until_made(data, dev.process)
    ended = dev.end(number)
    assert (ended.code, ended.err) == (0, "")
    assert becomes_free(data, guard.SERVER)
    assert becomes_free(data, guard.GUARD)


def _until_made(path: Path, process: "subprocess.Popen[str]") -> None:
    while not (path / guard.GUARD).exists():
        assert process.poll() is None, "it ended by itself"
