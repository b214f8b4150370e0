"""A service that refuses, has too much to do, fails or is away: one line and an exit code, for
every command that has an example."""

import http.server
import json
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ..docs.test_cli import sections
from .conftest import Cli
from .test_schedules import here

AT_THE_DATABASE = "At the database only"
# These need neither a database nor a service, or go by themselves.
ALONE = ("secret-key", "completion", "schedule preview", "torture")


def examples() -> dict[str, list[str]]:
    """The words of every command that speaks to a service."""
    found = {}
    for path, text in sections().items():
        if AT_THE_DATABASE not in text and path not in ALONE:
            example = text.partition("```sh\n")[2].partition("\n```")[0]
            found[path] = shlex.split(example)[1:]
    return found


@contextmanager
def answering(status: int, body: bytes, kind: str = "application/problem+json") -> Iterator[str]:
    """A service that has one answer for everything."""

    class Answer(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            if self.headers.get("transfer-encoding") == "chunked":
                while size := int(self.rfile.readline(), 16):
                    self.rfile.read(size + 2)
                self.rfile.readline()
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            if status == 429:
                self.send_header("retry-after", "0")
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

        def log_message(self, *words: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def problem(status: int, kind: str) -> bytes:
    said = {"type": f"/problems/{kind}", "title": "t", "status": status, "detail": "so it is"}
    return json.dumps(said | {"instance": "i"}).encode()


@pytest.fixture
def afar(folder: Path, embedded_cli: Cli) -> Cli:
    (folder / "crontab").write_text("@daily root backup\n")
    return Cli(
        folder,
        embedded_cli.environ | {"SEXTON_KEY": "sxn_x", "COLUMNS": "300"},
        embedded_cli.zygote,
    )


def test_there_is_an_example_of_every_command_that_speaks_to_a_service() -> None:
    assert len(examples()) > 40


@pytest.mark.parametrize(
    ("turn", "status", "kind", "code", "why"),
    [
        (0, 401, "unauthenticated", 2, "look at SEXTON_KEY"),
        (1, 403, "forbidden", 2, "so it is"),
        (2, 429, "rate_limited", 3, "so it is"),
        (0, 500, "internal", 3, "so it is"),
        (1, 503, "unavailable", 3, "so it is"),
    ],
)
def test_every_command_says_in_one_line_what_a_service_answered(
    afar: Cli, turn: int, status: int, kind: str, code: int, why: str
) -> None:
    """Each of these with a third of the commands: they have one way to say it."""
    with answering(status, problem(status, kind)) as url:
        for path, words in list(examples().items())[turn::3]:
            words = ["crontab" if word == "/etc/crontab" else word for word in words]
            said = here(afar, *words, SEXTON_SERVER=url)
            assert (said.code, said.out) == (code, ""), (path, said)
            assert said.err.startswith("sexton: "), (path, said)
            assert (said.err.count("\n"), why in said.err) == (1, True), (path, said)


def test_what_stands_between_may_answer_anything(afar: Cli) -> None:
    for status, body, kind, code in (
        (502, b"<html>\nbad gateway\x1b[2J</html>", "text/html", 3),
        (404, b"not here", "text/plain", 2),
        (301, b"", "text/plain", 2),
        (200, b"<html>welcome</html>", "text/html", 3),
        (200, b"[]", "application/json", 3),
    ):
        with answering(status, body, kind) as url:
            for words in (("queues",), ("schedule", "ls"), ("job", "show", "7"), ("cluster",)):
                said = here(afar, *words, SEXTON_SERVER=url)
                assert (said.code, said.out) == (code, ""), (status, words, said)
                assert said.err.count("\n") == 1, (status, words, said)
                assert "\x1b" not in said.err


def test_a_service_that_is_away_is_told_of_every_command(afar: Cli) -> None:
    for path, words in examples().items():
        words = ["crontab" if word == "/etc/crontab" else word for word in words]
        said = here(afar, *words, SEXTON_SERVER="http://127.0.0.1:1")
        assert (said.code, said.out, said.err.count("\n")) == (3, "", 1), (path, said)


def test_a_file_whose_lines_could_not_be_taken_just_now_may_be_sent_again(afar: Cli) -> None:
    (afar.folder / "jobs").write_text('{"task": "t"}\n' * 3)
    away = {"status": 503, "detail": "the database is away", "type": "/problems/unavailable"}
    answers = [
        {"line": 1, "status": "created", "id": 1},
        {"line": 2, "status": "error", "error": away},
        {"line": 3, "status": "created", "id": 2},
    ]
    body = "".join(json.dumps(each) + "\n" for each in answers).encode()
    with answering(200, body, "application/x-ndjson") as url:
        said = here(afar, "job", "enqueue", "--file", "jobs", SEXTON_SERVER=url)
    assert said.code == 3
    assert (said.out, said.err) == ("2 jobs: 2 created\n", "sexton: line 2: the database is away\n")


def test_work_that_is_broken_off_says_how_far_it_came(afar: Cli) -> None:
    (afar.folder / "jobs").write_text('{"task": "t"}\n' * 3)
    body = b'{"line": 1, "status": "created", "id": 1}\nnonsense\n'
    with answering(200, body, "application/x-ndjson") as url:
        said = here(afar, "job", "enqueue", "--file", "jobs", SEXTON_SERVER=url)
    assert said.code == 3, said
    first, second = said.err.splitlines()
    assert first == "sexton: stopped: 1 of 3 jobs enqueued"
    assert "does not answer like a service" in second
    with answering(200, body.partition(b"nonsense")[0], "application/x-ndjson") as url:
        said = here(afar, "job", "enqueue", "--file", "jobs", SEXTON_SERVER=url)
    assert said.code == 3
    assert "from line 2 on nothing was answered" in said.err


def test_words_that_no_request_could_hold_are_refused(afar: Cli, cli: Cli) -> None:
    for words in (
        ("schedule", "show", "\udcff"),
        ("schedule", "add", "\udcff", "--every", "1h", "--task", "t"),
        ("job", "enqueue", "\udcff"),
        ("job", "enqueue", "t", '{"a": "\udcff"}'),
        ("job", "ls", "--queue", "\udcff"),
        ("calendar", "show", "\udcff"),
    ):
        for site, where in ((afar, {"SEXTON_SERVER": "http://127.0.0.1:1"}), (cli, {})):
            said = here(site, *words, **where)
            assert (said.code in (2, 3), said.out) == (True, ""), (words, said)
            assert said.err.count("\n") == 1, (words, said)
