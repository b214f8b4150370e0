"""How `sexton dev` shows what happens: a live board on a terminal, lines anywhere else."""

import contextlib
import os
import sys
from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sexton.cli import output
from sexton.cli.output import clean, first_line, lasted, when
from sexton.cli.watch import NOTHING, Scoreboard
from sexton.store.history import Counts, Ended

EVENTS = 12
IDLE = Counts(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Status:
    """What is known beside the jobs."""

    title: str
    about: tuple[tuple[str, str], ...]
    up_for: float = 0.0
    note: str = "Ctrl-C ends it"
    trouble: str = ""


class View(Protocol):
    """Shows what happens until it is closed."""

    def open(self, status: Status) -> None: ...

    def show(self, status: Status, board: Scoreboard) -> None: ...

    def close(self) -> None: ...


def best_view() -> View:
    """The live board if there is somebody to look at it."""
    console = output.stdout()
    return Board(console) if console.is_terminal and not console.is_dumb_terminal else Lines()


class Lines:
    """One line for each thing that happens."""

    def __init__(self) -> None:
        self._said = ""

    def open(self, status: Status) -> None:
        self._line(status.title)
        for name, value in status.about:
            self._line(f"{name}: {value}")

    def show(self, status: Status, board: Scoreboard) -> None:
        for each in board.fresh:
            error = first_line(each.error)
            self._line(
                f"{when(each.finished_at)} job {each.job} {clean(each.task)} "
                f"attempt {each.attempt} {each.outcome}{_took(each, ' after ')}{_follows(each)}"
                + (f": {error}" if error else "")
            )
        if board.skipped:
            self._line("… and more, too many to show each")
        if status.trouble != self._said:
            self._said = status.trouble
            self._line(status.trouble or "PostgreSQL is back")

    def close(self) -> None:
        pass

    def _line(self, text: str) -> None:
        sys.stdout.write(clean(text) + "\n")
        sys.stdout.flush()


class Board:
    """The same few lines of the terminal, again and again; what tasks print goes above them."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._latest: deque[Ended] = deque(maxlen=EVENTS)
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")

    def open(self, status: Status) -> None:
        self._live.start()
        self.show(status, Scoreboard())

    def show(self, status: Status, board: Scoreboard) -> None:
        self._latest.extend(board.fresh)
        with contextlib.suppress(BlockingIOError):
            self._live.update(self._drawn(status, board), refresh=True)

    def close(self) -> None:
        self._live.stop()

    def _drawn(self, status: Status, board: Scoreboard) -> RenderableType:
        head = Table.grid(expand=True)
        head.add_column()
        head.add_column(justify="right")
        head.add_row(
            Text(clean(status.title), style="bold"),
            Text(f"up {timedelta(seconds=int(status.up_for))}", style="dim"),
        )
        foot = Text(clean(status.trouble or status.note), style="red" if status.trouble else "dim")
        queues = _queues(board)
        # The head, the foot, four blank lines, and a heading with its rule for each table.
        used = 10 + len(status.about) + queues.row_count
        room = max(1, min(EVENTS, self._console.size.height - used - 1))
        blank, events = Text(), self._events(room)
        about = output.facts(status.about)
        return Group(blank, head, about, blank, queues, blank, events, blank, foot)

    def _events(self, room: int) -> RenderableType:
        made = Table(
            box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="dim", expand=True
        )
        made.add_column("time", no_wrap=True, style="dim")
        made.add_column("job", justify="right", no_wrap=True)
        made.add_column("task", max_width=30)
        made.add_column("try", justify="right", no_wrap=True)
        made.add_column("outcome", no_wrap=True)
        made.add_column("took", justify="right", no_wrap=True)
        made.add_column("", ratio=1)
        for each in list(self._latest)[-room:]:
            made.add_row(
                Text(when(each.finished_at)),
                Text(str(each.job)),
                output.line(each.task),
                Text(str(each.attempt)),
                Text(each.outcome + _follows(each), style=_style(each)),
                Text(_took(each)),
                output.line(first_line(each.error), "dim"),
            )
        for _ in range(room - len(self._latest)):
            made.add_row(*[""] * 7)
        return made


def _queues(board: Scoreboard) -> Table:
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="dim")
    made.add_column("queue", no_wrap=True, overflow="ellipsis", max_width=30, min_width=12)
    for name in ("waiting", "ready", "running", "done/s", "done", "failed", "dead"):
        made.add_column(name, justify="right", no_wrap=True, min_width=6)
    for queue in board.queues:
        counts, total = board.counts.get(queue, IDLE), board.totals.get(queue, NOTHING)
        made.add_row(
            Text(clean(queue), style="bold"),
            _number(counts.waiting, "cyan"),
            _number(counts.ready, "blue"),
            _number(counts.running, "magenta"),
            Text(f"{board.per_second.get(queue, 0.0):,.1f}"),
            _number(total.succeeded, "green"),
            _number(total.failed, "yellow"),
            _number(total.dead, "bold red"),
        )
    return made


def _number(many: int, style: str) -> Text:
    return Text(f"{many:,}", style=style if many else "dim")


def _follows(each: Ended) -> str:
    """What comes of it, where the outcome alone does not say."""
    if each.outcome in ("failed", "lost") and each.next == "waiting":
        return ", retries"
    return "" if each.next in (each.outcome, "waiting") else f", {each.next}"


def _style(each: Ended) -> str:
    return output.STATE_STYLES.get("dead" if each.next == "dead" else each.outcome, "")


def _took(each: Ended, before: str = "") -> str:
    if each.claimed_at is None:
        return ""
    return before + lasted(max(0.0, (each.finished_at - each.claimed_at).total_seconds()))


class Silence:
    """Nobody looks any more: the terminal or the reader of a pipe has gone."""

    def __init__(self) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def open(self, status: Status) -> None:
        pass

    def show(self, status: Status, board: Scoreboard) -> None:
        pass

    def close(self) -> None:
        pass
