"""Options that several commands have, and how their values are read."""

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from sexton.cli import complete
from sexton.cli.instants import Instant, parse_instant, parse_seconds
from sexton.domain.given import LARGEST_ID
from sexton.errors import InvalidJob, did_you_mean

T = TypeVar("T")


def paragraphs(command: Callable[..., None]) -> str:
    """Its docstring for `help=`, with a line for each paragraph: the terminal breaks them anew."""
    text = inspect.cleandoc(command.__doc__ or "")
    return "\n\n".join(" ".join(each.split()) for each in text.split("\n\n"))


def reads(parse: Callable[[str], T]) -> Callable[[str], T]:
    """A parser for typer, whose errors say what is wrong rather than just that something is."""

    def read(value: Any) -> T:
        if not isinstance(value, str):  # a default, which is not text any more
            kept: T = value
            return kept
        try:
            return parse(value)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return read


def one_of(known: Sequence[str]) -> Callable[[str], str]:
    """A word that must be one of these: with another nothing would ever be found."""

    def parse(text: str) -> str:
        if text not in known:
            raise ValueError(f"{text!r} is none of {', '.join(known)}{did_you_mean(text, known)}")
        return text

    return reads(parse)


def json_object(text: str | bytes) -> dict[str, Any]:
    """An object, read as strictly as the service reads: NaN and half a character are no JSON."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        why = str(error).removeprefix("JSON is malformed: ")
        raise ValueError(f"not JSON: {why}") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def arguments_of_a_task(text: str) -> dict[str, Any]:
    """As they are typed."""
    try:
        return json_object(text)
    except ValueError as error:
        raise InvalidJob(
            f"the arguments are {error}; give them by name, like '{{\"a\": 1}}'"
        ) from None


as_instant: Callable[[str], Instant] = reads(parse_instant)
as_seconds: Callable[[str], float] = reads(parse_seconds)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Task = Annotated[
    str | None, typer.Option("--task", help="Only of this task.", autocompletion=complete.tasks)
]
Queue = Annotated[
    str | None, typer.Option("--queue", help="Only of this queue.", autocompletion=complete.queues)
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, help="At most so many.")]
Cursor = Annotated[
    str | None,
    typer.Option("--cursor", metavar="TEXT", help="Go on where a page ended: its `next`."),
]
JobId = Annotated[int, typer.Argument(metavar="ID", min=1, max=LARGEST_ID, help="The job's id.")]
JobIds = Annotated[
    list[int], typer.Argument(metavar="ID...", min=1, max=LARGEST_ID, help="Ids of jobs.")
]
LogLevel = Annotated[
    str,
    typer.Option(
        "--log-level",
        metavar="debug|info|warning|error",
        help="How much Sexton says in its log, on stderr.",
        parser=reads(lambda text: _level(text)),
    ),
]


LogFormat = Annotated[
    str | None,
    typer.Option(
        "--log-format",
        metavar="text|json",
        help="Lines for people, or one JSON object a line; SEXTON_LOG_FORMAT.",
        parser=reads(lambda text: _format(text)),
    ),
]
Observe = Annotated[
    str | None,
    typer.Option(
        "--observe",
        metavar="HOST:PORT",
        help="Answer /healthz, /readyz and /metrics there; SEXTON_OBSERVE.",
    ),
]


def _format(text: str) -> str:
    if text.lower() not in ("text", "json"):
        raise ValueError(f"{text!r} is not text or json")
    return text.lower()


def _level(text: str) -> str:
    if text.lower() not in ("debug", "info", "warning", "error"):
        raise ValueError(f"{text!r} is not debug, info, warning or error")
    return text.lower()
