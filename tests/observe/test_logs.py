"""Logs for machines: one object a line, with what is known of the job, whatever is logged."""

import io
import json
import logging
import signal
from typing import Any

import pytest

from sexton.cli.session import log_to
from sexton.errors import ConfigurationError
from sexton.observe.logs import LONGEST, JsonLines
from sexton.settings import Settings

from .processes import observed, observed_worker, until
from .shop import HOSTILE
from .test_worker import enqueue


def logged(message: str, *args: Any, **options: Any) -> dict[str, Any]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines(node="n1"))
    logger = logging.Logger("sexton.test")
    logger.addHandler(handler)
    logger.error(message, *args, **options)
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text.isascii()
    assert text[:-1].isprintable()
    said: dict[str, Any] = json.loads(text)
    return said


def test_hostile_text_stays_on_its_line_and_is_what_it_was() -> None:
    said = logged("it said %s", HOSTILE, extra={"job": 7, "task": HOSTILE, "schedule": "nightly"})
    assert said["message"] == f"it said {HOSTILE}"
    assert said["task"] == HOSTILE
    assert (said["job"], said["schedule"], said["node"]) == (7, "nightly", "n1")
    assert (said["level"], said["logger"]) == ("error", "sexton.test")
    assert said["ts"].endswith("+00:00")


def test_an_exception_is_text_in_the_same_object() -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        said = logged("it failed", exc_info=True)
    assert "Traceback" in said["exception"]
    assert "ValueError" in said["exception"]


def test_arguments_that_do_not_fit_do_not_lose_the_line() -> None:
    assert "two %d numbers" in logged("two %d numbers", "one", "word")["message"]


def test_a_message_without_end_is_cut() -> None:
    assert len(logged("x" * 10 * LONGEST)["message"]) < 2 * LONGEST


def test_the_format_is_checked_at_the_door() -> None:
    with pytest.raises(ConfigurationError, match="text or json"):
        Settings.load({"SEXTON_LOG_FORMAT": "xml"})


async def test_lines_of_a_worker_and_of_its_tasks_say_which_job(database_url: str) -> None:
    with observed_worker(database_url, log_format="json") as worker:
        await worker.until_ready()
        await enqueue(database_url, "fine", n=-5)
        await enqueue(database_url, "waits", seconds=0.05)
        await enqueue(database_url, "in_a_thread", "dies", "fails")
        words = ["n is -5", "has waited", "in a thread", "hostile: ", "no use", "ValueError"]
        await until(lambda: all(word in worker.output for word in words), worker)
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(20) == 0
        lines = worker.lines()
    for line in lines:
        assert {"ts", "level", "logger", "message", "worker"} <= line.keys(), line
    by_message = {line["message"]: line for line in lines}
    told = {
        "n is -5": "fine",
        "has waited": "waits",
        "in a thread": "in_a_thread",
        f"hostile: {HOSTILE}": "dies",
    }
    for message, task in told.items():
        line = by_message[message]
        assert (line["task"], line["attempt"], line["tenant"]) == (task, 1, 1), line
        assert line["job"] > 0
        assert line["fence"] > 0
        assert line["queue"] == ("other" if task == "dies" else "default")
    [died] = [line for line in lines if "(dies) failed" in line["message"]]
    assert (died["logger"], died["task"], died["level"]) == ("sexton.job", "dies", "warning")
    outside = by_message[next(text for text in by_message if text.startswith("worker "))]
    assert "job" not in outside


async def test_a_nodes_lines_name_the_node(database_url: str) -> None:
    with observed(database_url, "scheduler", "--name", "n7", "--log-format", "json") as node:
        await node.until_ready()
        assert {line["node"] for line in node.lines()} == {"n7"}


def test_text_is_what_people_get_unless_they_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(logging.getLogger("sexton"), "level", 0)
    for form, wanted in ((None, False), ("json", True)):
        handler = logging.StreamHandler()
        log_to(handler, "info", form)
        assert isinstance(handler.formatter, JsonLines) is wanted
        root.handlers.clear()
