"""The options that say when and how a schedule fires, for every command that takes them."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from sexton.cli.instants import parse_instant
from sexton.cli.output import shortly
from sexton.cli.site import Site
from sexton.domain.spec import JOB, POLICY, WHEN
from sexton.errors import InvalidSchedule, SextonError

RULES = {"cron", "every", "at", "rrule", "any"}
INSTANTS = ("at", "anchor", "starts_at", "ends_at")
# How an option is called where the keyword would read badly, or would be given more than once.
_CALLED = {"tags": "--tag"}
_TEXT = {
    "cron": ("EXPRESSION", "Five fields, six with seconds, or @daily."),
    "every": ("DURATION", "So often: 90s, 1h30m."),
    "at": ("INSTANT", "Once: 2026-03-28T12:00:00Z, +2h."),
    "rrule": ("RULE", "iCalendar: FREQ=WEEKLY;BYDAY=MO."),
    "dialect": ("cron|quartz", "How --cron is read."),
    "anchor": ("INSTANT", "What --every is counted from."),
    "timezone": ("ZONE", "Whose clock on the wall: Europe/Paris."),
    "dst": ("default|skip|shift|first|both", "When the clocks change."),
    "starts_at": ("INSTANT", "No fire before."),
    "ends_at": ("INSTANT", "No fire from then on."),
    "jitter": ("DURATION", "Later by up to so much."),
    "jitter_kind": ("random|fixed", "Another each time, or always the same."),
    "when_excluded": ("skip|next_day", "What becomes of a fire that a calendar takes out."),
    "misfire": ("latest|skip|all", "What was missed."),
    "grace": ("DURATION", "How late a fire may be made up for; 1h."),
    "overlap": ("skip|queue_one|queue_all|allow|replace", "While the job before still lives."),
    "queue": ("NAME", "Instead of the task's own."),
    "expires_in": ("DURATION", "Its jobs are not begun later than that."),
}
_LISTS = {
    "any": ("EXPRESSION", "One of several cron expressions; may be given more than once."),
    "exclude": ("CALENDAR", "Not in this calendar; may be given more than once."),
    "only": ("CALENDAR", "Only in this calendar; may be given more than once."),
    "tags": ("TAG", "May be given more than once."),
}
_NUMBERS = {
    "max_queued": ("With --overlap queue_all: so many may wait.", 1, 1000),
    "max_running": ("With --overlap allow: so many at once.", 1, 1000),
    "priority": ("The larger, the sooner.", -5, 5),
    "max_fires": ("It ends after so many.", 1, None),
}
_KEYWORD = re.compile(r"""\b(\w+)=(?=[\s,;.:]|$|(['"]))""")
EVERYTHING = (*WHEN, *POLICY, *JOB)


def takes(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command's parameter `said`, filled from these options: those that were given."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.name != "said"]
        options = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(name)
            )
            for name in names
        ]

        def command(**given: Any) -> None:
            said = {name: given.pop(name) for name in names}
            # Typer has an empty list for an option that was not given.
            said = {name: value for name, value in said.items() if value not in (None, [])}
            try:
                function(**given, said=said)
            except SextonError as error:
                error.args = (_as_options(str(error), names),)
                raise

        parameters = [*own, *options]
        command.__name__ = function.__name__
        command.__doc__ = function.__doc__
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return decorate


def _option(name: str) -> str:
    return _CALLED.get(name, f"--{name.replace('_', '-')}")


def _as_options(text: str, names: Sequence[str]) -> str:
    """What code writes as `cron=` is --cron on a command line, or an argument without a name."""
    called = {"cron": "an expression"} | {name: _option(name) for name in names}

    def spelled(found: re.Match[str]) -> str:
        blank = " " if found[2] else ""
        return called[found[1]] + blank if found[1] in called else found[0]

    return _KEYWORD.sub(spelled, text)


def _annotation(name: str) -> Any:
    option = _option(name)
    if name in _LISTS:
        metavar, text = _LISTS[name]
        return Annotated[list[str] | None, typer.Option(option, metavar=metavar, help=text)]
    if name in _NUMBERS:
        text, least, most = _NUMBERS[name]
        return Annotated[int | None, typer.Option(option, min=least, max=most, help=text)]
    metavar, text = _TEXT[name]
    return Annotated[str | None, typer.Option(option, metavar=metavar, help=text)]


async def resolved(site: Site, said: dict[str, Any]) -> dict[str, Any]:
    """Instants that were given relative to now, by the clock of the site."""
    found = dict(said)
    for name in INSTANTS:
        text = str(said.get(name) or "").strip()
        if text[:1] in ("+", "-") or text.lower() == "now":
            try:
                instant = parse_instant(text)
            except ValueError as error:
                raise InvalidSchedule(f"{name}: {error}") from None
            found[name] = instant.resolved(await site.now()).isoformat()
    return found


def in_words(said: Mapping[str, Any]) -> str:
    """When, on one line."""
    words = [_rule(name, said[name]) for name in ("cron", "every", "at", "rrule") if name in said]
    rules: Sequence[Any] = said.get("any", ())
    for each in rules:
        words.append(each if isinstance(each, str) else _rule(*next(iter(each.items()))))
    zone = said.get("timezone", "UTC")
    return " | ".join(words) + (f" {zone}" if zone != "UTC" else "")


def _rule(name: str, value: Any) -> str:
    if name == "every":
        value = shortly(value)
    return str(value) if name == "cron" else f"{name} {value}"
