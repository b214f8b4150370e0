"""What commands print: tables for people, JSON for scripts, and nothing that moves the cursor."""

import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import IntEnum
from typing import Any, Literal, NoReturn

import msgspec
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

SIGPIPE_EXIT = 141
NARROW = 120
_INDENTED = "\n    "
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
STATE_STYLES = {
    "waiting": "cyan",
    "ready": "blue",
    "running": "magenta",
    "succeeded": "green",
    "cancelled": "dim",
    "dead": "bold red",
    "failed": "yellow",
    "lost": "red",
    "snoozed": "cyan",
    "released": "dim",
    "active": "green",
    "paused": "yellow",
    "ended": "dim",
    "quarantined": "bold red",
}


class ExitCode(IntEnum):
    """What scripts can rely on."""

    OK = 0
    FINDING = 1
    USAGE = 2
    UNAVAILABLE = 3


EXIT_CODES = (
    "Exit codes: 0 fine · 1 something was found, refused or not found · "
    "2 wrong usage, configuration or key · 3 PostgreSQL is not available, or the service"
)


def clean(text: str, *, lines: bool = False) -> str:
    """Harmless on any terminal: controls, escapes and invisible characters are spelled out."""
    if text.isascii() and text.isprintable():
        return text
    kept = "\n" if lines else ""
    return "".join(
        char if char in kept or unicodedata.category(char) not in _UNSAFE else _spelled(char)
        for char in text
    )


def _spelled(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def first_line(text: str | None, longest: int = 200) -> str:
    """The beginning of an error, on one line."""
    line = next((each for each in (text or "").splitlines() if each.strip()), "").strip()
    cut = line if len(line) <= longest else line[: longest - 1] + "…"
    return clean(cut)


def compact(value: Any, longest: int = 60) -> str:
    """JSON on one line, cut to size."""
    text = clean(json.dumps(value, ensure_ascii=False, separators=(", ", ": ")))
    return text if len(text) <= longest else text[: longest - 1] + "…"


def when(instant: datetime | None) -> str:
    """An instant in this machine's time zone; the day only if it is not today."""
    if instant is None:
        return ""
    local = instant.astimezone()
    today = datetime.now(local.tzinfo).date()
    return local.strftime("%H:%M:%S" if local.date() == today else "%Y-%m-%d %H:%M:%S")


def dated(instant: datetime | None) -> str:
    """The same where there is room: with the day and the zone."""
    return "" if instant is None else instant.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def lasted(seconds: float) -> str:
    """A length of time as people say it."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} m {seconds % 60:02.0f} s"
    if seconds < 86400:
        return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:02.0f} m"
    return f"{seconds // 86400:.0f} d {seconds % 86400 // 3600:02.0f} h"


def shortly(seconds: float) -> str:
    """A length of time as it could be typed: 90s, 1h30m."""
    if seconds < 120 or seconds % 1:
        return f"{seconds:g}s"
    words, left = "", int(seconds)
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        many, left = divmod(left, length)
        words += f"{many}{unit}" if many else ""
    return words


def count(many: int, thing: str) -> str:
    """`1 job`, `2 jobs`, `12,000 jobs`."""
    return f"{many:,} {thing}" + ("" if many == 1 else "s")


def state(name: str) -> Text:
    return Text(clean(name), style=STATE_STYLES.get(name, ""))


def table(*columns: str, right: Iterable[str] = (), shrinks: Iterable[str] = ()) -> Table:
    """One line a row; on a narrow terminal the columns that shrink do so, and no id or state."""
    apart = 3 if stdout().width > NARROW else 1
    made = Table(box=None, pad_edge=False, padding=(0, apart, 0, 0), header_style="bold dim")
    for name in columns:
        justify: Literal["left", "right"] = "right" if name in right else "left"
        made.add_column(Text(name, no_wrap=True), justify=justify, no_wrap=name not in shrinks)
    return made


def row(made: Table, *cells: Any) -> None:
    """Add a row of other people's text, which is never read as markup."""
    made.add_row(*(cell if isinstance(cell, Text) else line(str(cell)) for cell in cells))


def line(text: str, style: str = "") -> Text:
    """Harmless text that stays on its line."""
    return Text(clean(text), style=style, no_wrap=True, overflow="ellipsis")


def facts(pairs: Sequence[tuple[str, Any]]) -> Table:
    """Names and values, one a line, without those that have no value."""
    made = Table(box=None, show_header=False, pad_edge=False, padding=(0, 3, 0, 0))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value not in (None, "", (), []):
            shown = value if isinstance(value, Text) else Text(clean(str(value), lines=True))
            made.add_row(name, shown)
    return made


def indented(text: str) -> RenderableType:
    """A traceback, for example."""
    return Padding(Text(clean(text.rstrip(), lines=True)), (0, 0, 0, 4))


def stdout() -> Console:
    """As wide as it takes when nobody looks, so that grep finds whole lines."""
    unseen = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(
        file=sys.stdout,
        markup=False,
        highlight=False,
        emoji=False,
        width=10_000 if unseen else None,
    )


def show(*things: RenderableType) -> None:
    """Print for people. Rendered first and written by us, so that `| head` ends quietly."""
    console = stdout()
    with console.capture() as captured:
        for thing in things:
            console.print(thing, soft_wrap=isinstance(thing, str))
    text = captured.get()
    if not sys.stdout.isatty():
        text = "\n".join(line.rstrip() for line in text.split("\n"))
    write(text)


def say_more(following: str | None) -> None:
    """How to see the next page."""
    if following is not None:
        say(f"more: --cursor {following}")


def say(text: str) -> None:
    """One line for people."""
    write(clean(text) + "\n")


def show_json(value: Any) -> None:
    """Print for scripts. ASCII only: no terminal is moved by it and every parser reads it."""
    write(json.dumps(msgspec.to_builtins(value), indent=2) + "\n")


def write(text: str) -> None:
    """To stdout; if its reader has gone, end as programs do."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        gone()


def gone() -> NoReturn:
    """Nobody reads stdout any more, and flushing it at exit must not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(SIGPIPE_EXIT)


def complain(text: str) -> None:
    """One line on stderr; what is to be typed then is on lines of its own, indented."""
    lines = [clean(line) for line in text.split(_INDENTED)]
    print(f"sexton: {_INDENTED.join(lines)}", file=sys.stderr)
