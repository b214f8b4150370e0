"""Many schedules or jobs from a file of JSON lines, each as the API says it."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from sexton.cli.output import ExitCode, complain, count, say, show_json
from sexton.cli.parameters import json_object
from sexton.cli.progress import Bar, progress
from sexton.cli.session import run
from sexton.cli.site import Site
from sexton.errors import ConfigurationError, Unavailable
from sexton.remote.views import Line

SHOWN = 20

File = Annotated[
    str | None,
    typer.Option("--file", metavar="FILE", help="Of JSON lines, as the API has them; - is stdin."),
]
Send = Callable[[Site, Iterator[Any]], AsyncIterator[Line]]


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        opened = Path(file).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise ConfigurationError(f"cannot read {file}: {error}") from None
    with opened:
        yield opened


def _lines(file: BinaryIO) -> int | None:
    """How many there are, where that can be known before."""
    if not file.seekable():
        return None
    many = sum(part.count(b"\n") for part in iter(lambda: file.read(2**20), b""))
    file.seek(0)
    return many


def _read(
    file: BinaryIO, numbers: list[int], bad: Callable[[int, str, int], None]
) -> Iterator[Any]:
    """Each line as a value; `numbers` gets where in the file it was."""
    for number, text in enumerate(file, 1):
        if not text.strip():
            continue
        try:
            said = json_object(text)
        except ValueError as error:
            bad(number, f"is {error}", 400)
            continue
        numbers.append(number)
        yield said


def _send(
    context: typer.Context, file: str, what: str, done: str, send: Send, as_json: bool
) -> None:
    told: dict[str, int] = {}
    wrong: list[dict[str, Any]] = []
    numbers: list[int] = []

    again = False  # the service was away, or had too much to do: some may be sent again as they are

    def bad(number: int, why: str, status: int) -> None:
        nonlocal again
        again = again or status >= 500 or status == 429
        told["error"] = told.get("error", 0) + 1
        wrong.append({"line": number, "detail": why})

    async def work(site: Site, opened: BinaryIO, bar: Bar) -> None:
        answered = 0
        async for line in send(site, _read(opened, numbers, bad)):
            answered += 1
            if line.status == "error":
                error = line.error or {}
                bad(numbers[line.line - 1], error.get("detail", ""), error.get("status", 422))
            else:
                told[line.status] = told.get(line.status, 0) + 1
            bar.step()
        if answered < len(numbers):
            raise Unavailable(f"from line {numbers[answered]} on nothing was answered")

    with _opened(file) as opened, progress(f"{what}s {done}", quiet=as_json) as bar:
        bar.expect(_lines(opened))
        run(context, lambda site: work(site, opened, bar))
    wrong.sort(key=lambda each: int(each["line"]))
    if as_json:
        show_json({**told, "errors": wrong})
    else:
        words = [f"{many:,} {status}" for status, many in told.items() if status != "error"]
        say(f"{count(sum(told.values()) - len(wrong), what)}: {', '.join(words) or 'none'}")
    for each in wrong[:SHOWN]:
        complain(f"line {each['line']}: {each['detail']}")
    if len(wrong) > SHOWN:
        complain(f"and {count(len(wrong) - SHOWN, 'line')} more with errors")
    if wrong:
        raise typer.Exit(ExitCode.UNAVAILABLE if again else ExitCode.FINDING)


def add_from_file(context: typer.Context, file: str, replace: bool, as_json: bool) -> None:
    """Schedules, each with its `name` and `target`; a bad one stops none of the others."""

    def send(site: Site, lines: Iterator[Any]) -> AsyncIterator[Line]:
        return site.schedules.add_many(lines, mode="upsert" if replace else "create")

    _send(context, file, "schedule", "registered", send, as_json)


def enqueue_from_file(context: typer.Context, file: str, as_json: bool) -> None:
    """Jobs, each with its `task` or `target`; a bad one stops none of the others."""

    def send(site: Site, lines: Iterator[Any]) -> AsyncIterator[Line]:
        return site.enqueue_many(lines)

    _send(context, file, "job", "enqueued", send, as_json)
