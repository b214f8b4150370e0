"""How far long work has come: a bar on a terminal, and the last word if it is broken off."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import typer
from rich.console import Console

from sexton.cli.output import complain
from sexton.errors import SextonError

INTERRUPTED = 130


@dataclass(slots=True)
class Bar:
    """What is counted; `draw` is nothing where nobody looks."""

    done: int = 0
    total: int | None = None
    draw: Any = field(default=None, repr=False)

    def step(self, many: int = 1) -> None:
        self.done += many
        if self.draw is not None:
            self.draw(self.done, self.total)

    def expect(self, total: int | None) -> None:
        self.total = total
        self.step(0)


@contextmanager
def progress(what: str, total: int | None = None, *, quiet: bool = False) -> Iterator[Bar]:
    """`what` is what is done to how many: `jobs enqueued`. Broken off, it says how far it came."""
    bar = Bar(total=total)
    try:
        if quiet or not sys.stderr.isatty():
            yield bar
        else:
            with _drawn(bar, what):
                yield bar
    except KeyboardInterrupt:
        _say_how_far(bar, what)
        raise typer.Exit(INTERRUPTED) from None
    except (SextonError, asyncpg.PostgresError):
        if bar.done:  # what went wrong is said by whoever catches it
            _say_how_far(bar, what)
        raise


def _say_how_far(bar: Bar, what: str) -> None:
    of = f" of {bar.total:,}" if bar.total is not None else ""
    complain(f"stopped: {bar.done:,}{of} {what}")


@contextmanager
def waiting(what: str, *, quiet: bool = False) -> Iterator[None]:
    """For work in one piece: that it goes on, where somebody looks."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    with Console(file=sys.stderr, markup=False).status(what):
        yield


@contextmanager
def _drawn(bar: Bar, what: str) -> Iterator[None]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Remaining())
    console = Console(file=sys.stderr, markup=False)
    with Progress(*columns, console=console, transient=True) as drawn:
        id = drawn.add_task(what, total=bar.total)
        bar.draw = lambda done, total: drawn.update(id, completed=done, total=total)
        yield
