"""Worker processes, as an operator would start them, and the log of what they did."""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .logs import log_file

ROOT = Path(__file__).parents[2]


class Effects:
    """What the tasks did, read from outside PostgreSQL."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self, word: str | None = None) -> list[list[str]]:
        if not self.path.exists():
            return []
        lines = [line.split() for line in self.path.read_text().splitlines()]
        return [line for line in lines if word is None or line[0] == word]

    async def until(self, enough: Callable[["Effects"], bool], seconds: float = 60.0) -> None:
        await until(lambda: enough(self), seconds)


async def until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Look until something outside this process is so; fail loudly if it never is."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            pytest.fail(f"not so within {seconds:g} s")
        await asyncio.sleep(0.02)


class WorkerProcess:
    """`sexton worker tests.support.tasks:app`, with a short lease."""

    def __init__(self, url: str, effects: Path, *queues: str, **settings: object) -> None:
        environ = {
            **os.environ,
            "SEXTON_DATABASE_URL": url,
            "SEXTON_LEASE": "2",
            "SEXTON_POLL": "0.5",
            "SEXTON_GRACE": "20",
            "SEXTON_PATIENCE": "5",
            "EFFECTS": str(effects),
            "PYTHONPATH": str(ROOT),
            **{f"SEXTON_{name.upper()}": str(value) for name, value in settings.items()},
        }
        chosen = [part for queue in queues for part in ("--queue", queue)]
        self.log = log_file()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sexton.cli.main", "worker", "tests.support.tasks:app", *chosen],
            env=environ,
            cwd=ROOT,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.pid = self.process.pid

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, seconds: float = 60.0) -> int:
        return self.process.wait(seconds)

    def output(self) -> str:
        self.log.flush()
        self.log.seek(0)
        return self.log.read()

    def reap(self) -> None:
        """End it whatever state it is in."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if not self.log.closed:
            self.log.close()


@contextmanager
def crew(url: str) -> Iterator["Crew"]:
    """Workers and their log for one test; whatever is left is killed at the end."""
    with tempfile.TemporaryDirectory(prefix="sextest-") as folder:
        workers = Crew(url, Path(folder) / "effects")
        try:
            yield workers
        finally:
            for worker in workers.all:
                worker.reap()


class Crew:
    """Starts workers on one database with one log of effects."""

    def __init__(self, url: str, effects: Path) -> None:
        self.url = url
        self.effects = Effects(effects)
        self.all: list[WorkerProcess] = []

    def start(self, *queues: str, **settings: object) -> WorkerProcess:
        worker = WorkerProcess(self.url, self.effects.path, *queues, **settings)
        self.all.append(worker)
        return worker
