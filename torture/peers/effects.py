"""The log of effects, outside PostgreSQL. Peers import it: standard library only."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Run:
    """One run of a task. `fire_at` is the due instant it is for, if its system says so.

    Without it, `taken_at` is when the system took the schedule; `job` tells a second attempt at a
    job from a second job, where there are jobs.
    """

    schedule: str
    began_at: float
    fire_at: int | None = None
    taken_at: float | None = None
    job: str | None = None
    ended_at: float | None = None


class Effects:
    """One file for each process; a line is one write, so what a killed process did is there."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(
            folder / f"{os.getpid()}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
        )
        self._numbers = itertools.count()

    def begin(
        self,
        schedule: str,
        *,
        fire_at: float | None = None,
        taken_at: float | None = None,
        job: object = None,
    ) -> int:
        """Note that a task begins; the answer is for `end`."""
        run = next(self._numbers)
        self._write(
            run=run,
            schedule=schedule,
            fire_at=None if fire_at is None else round(fire_at),
            taken_at=taken_at,
            job=None if job is None else str(job),
        )
        return run

    def end(self, run: int) -> None:
        """The effect itself: what counts as having happened."""
        self._write(run=run)

    def _write(self, **line: Any) -> None:
        os.write(self._file, json.dumps({"at": time.time(), **line}).encode() + b"\n")


def read(folder: Path) -> list[Run]:
    """Every run that the processes noted."""
    return [run for path in sorted(folder.glob("*.jsonl")) for run in _read_one(path)]


def _read_one(path: Path) -> Iterator[Run]:
    runs: dict[int, Run] = {}
    for text in path.read_text().splitlines():
        line = json.loads(text)
        at, number = line.pop("at"), line.pop("run")
        if line:
            runs[number] = Run(began_at=at, **line)
        else:
            runs[number].ended_at = at
    yield from runs.values()
