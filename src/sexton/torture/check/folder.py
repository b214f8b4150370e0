"""A run's folder, line by line."""

import json
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from sexton.torture.check.clocks import Clocks

SECOND = 1_000_000
Line = dict[str, Any]


class Change(NamedTuple):
    """A row that was inserted (I), updated (U) or deleted (D), and when by the database's clock."""

    seq: int
    at: int
    tx: int
    tab: str
    op: str
    id: int
    was: Line
    now: Line


class Ask(NamedTuple):
    """A request of a client: what was asked, and what was answered, if anything was."""

    by: str  # the file
    n: int
    at: int
    verb: str
    via: str
    tenant: str
    subject: Any
    body: Line
    again: int | None
    began: int  # when it was asked for first
    answered_at: int | None
    answer: Line | None
    refused: bool  # a plain no: it did not happen
    error: str | None

    def meanwhile(self, apart: int) -> tuple[int, int]:
        """From the request to its answer, by a clock that is so far from the asker's."""
        return self.began - apart, (self.answered_at or self.at) + apart


_COLUMNS = itemgetter("seq", "at", "tx", "tab", "op", "id", "was", "now")


class Folder:
    """Everything there is to know of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run: Line = json.loads((path / "run.json").read_text())
        self.clocks = Clocks(self.run.get("clock_offsets") or ())
        for name, value in self.run.items():
            if name.endswith("_at") and value is not None:
                self.run[name] = self.clocks.databases(value)
        self.faults = [*self._told(path / "faults.jsonl")]

    def changes(self) -> Iterator[Change]:
        """In the order in which they were written down."""
        for line in _lines(self.path / "dump" / "change.jsonl"):
            yield Change._make(_COLUMNS(line))

    def dump(self, name: str) -> Iterator[Line]:
        """A table, or a description of the workload; nothing if there is none."""
        return _lines(self.path / "dump" / f"{name}.jsonl")

    def effects(self) -> Iterator[Line]:
        """What tasks and the sink wrote; in order within each process only."""
        for path in sorted((self.path / "effects").glob("*.jsonl")):
            yield from self._told(path)

    def asks(self) -> Iterator[Ask]:
        """Every request, with its answer."""
        for path in sorted((self.path / "acks").glob("*.jsonl")):
            yield from _asks(path, self._told(path))

    @property
    def of_the_rig(self) -> bool:
        """Whether it is a real run: nobody else says how many faults were planned."""
        return "planned" in self.run

    @property
    def replay(self) -> str:
        """The command that makes this run again."""
        command = self.run.get("command")
        if isinstance(command, list):
            return " ".join(map(str, command))
        seed, seconds = self.run.get("seed"), self.run.get("seconds")
        return str(command or f"sexton torture --seed {seed} --seconds {seconds}")

    def _told(self, path: Path) -> Iterator[Line]:
        """What was written down by the rig's clock, on the database's."""
        for line in _lines(path):
            if not self.clocks.agree:
                line["at"] = self.clocks.databases(line["at"])
            yield line


def _lines(path: Path) -> Iterator[Line]:
    """Every whole line: the last may have been cut short by a kill, and was not acted upon."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n") and line != b"\n":
                yield json.loads(line)


def _asks(path: Path, lines: Iterator[Line]) -> Iterator[Ask]:
    open_: dict[int, Line] = {}
    began: dict[int, int] = {}
    for line in lines:
        if line["event"] == "ask":
            open_[line["n"]] = line
            began[line["n"]] = began.get(line.get("again") or 0) or line["at"]
        elif (asked := open_.pop(line["n"], None)) is not None:
            yield _ask(path, asked, began[line["n"]], line)
    for asked in open_.values():
        yield _ask(path, asked, began[asked["n"]], None)


def _ask(path: Path, asked: Line, began: int, answered: Line | None) -> Ask:
    ack = answered is not None and answered["event"] == "ack"
    return Ask(
        path.name,
        asked["n"],
        asked["at"],
        asked["verb"],
        asked.get("via") or "",
        asked.get("tenant") or "",
        asked.get("subject"),
        asked.get("body") or {},
        asked.get("again"),
        began,
        None if answered is None else answered["at"],
        (answered.get("answer") or {}) if ack and answered is not None else None,
        answered is not None and not ack and answered.get("unsure") is False,
        None if answered is None else answered.get("error"),
    )
