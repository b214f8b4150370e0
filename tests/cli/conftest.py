"""The program as an operator starts it: processes, their words and their exit codes."""

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from sexton.cli.main import main

from .zygote import Zygote

PROGRAM = [sys.executable, "-m", "sexton.cli.main"]
PATIENCE = 60.0
# Everything that could move a cursor, break a table or be taken for markup.
HOSTILE = "\x1b[31mred\x1b[2J\x07 [bold]markup[/bold] 日本 \x9b0m \u202ertl\r\nsecond"

SHOP = f"""
import time
from sexton import Job, PermanentFailure, Sexton

app = Sexton(lease=5, poll=0.5)
not_an_app = 3


@app.task
async def add(a: int, b: int = 2) -> int:
    return a + b


@app.task
async def die() -> None:
    raise PermanentFailure({HOSTILE!r})


@app.task(queue="slow")
def block(job: Job) -> None:
    print("blocking", job.id, flush=True)
    while True:
        job.check()
        time.sleep(0.01)
"""


@dataclass(frozen=True)
class Said:
    """What a command that has ended said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Started:
    """A command that goes on until it is told to end."""

    def __init__(self, command: list[str], **options: Any) -> None:
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
        )

    def line(self, *words: str) -> str:
        """Read on until a line that contains all the words; who never says it is ended."""
        assert self.process.stdout
        seen = []
        line: str
        enough = threading.Timer(PATIENCE, self.process.kill)
        enough.start()
        try:
            for line in self.process.stdout:
                if all(word in line for word in words):
                    return line
                seen.append(line)
        except BaseException:  # the test's time is over
            print(f"until then it said {seen}")
            raise
        finally:
            enough.cancel()
        assert self.process.stderr
        pytest.fail(f"never said {words}, but {seen} and {self.process.stderr.read()}")

    def end(self, number: int = signal.SIGTERM) -> Said:
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=PATIENCE)
        return Said(self.process.returncode, out, err)


@dataclass
class Cli:
    """Runs commands in one folder, against one PostgreSQL."""

    folder: Path
    environ: dict[str, str]
    zygote: Zygote
    _started: list[Started] = field(default_factory=list)

    def __call__(self, *words: str, stdin: str = "", **more: str) -> Said:
        environ = self.environ | more
        said = Said(*self.zygote.run(words, self.folder, environ, stdin, PATIENCE))
        assert "Traceback" not in said.err or "--debug" in words, said.err
        return said

    def json(self, *words: str) -> Any:
        """In this process, because starting another takes longer than most commands."""
        out = io.StringIO()
        with (
            contextlib.redirect_stdout(out),
            contextlib.chdir(self.folder),
            mock.patch.dict(os.environ, self.environ, clear=True),
            mock.patch.object(sys, "argv", ["sexton", *words, "--json"]),
            pytest.raises(SystemExit) as ended,
        ):
            main()
        assert ended.value.code == 0
        return json.loads(out.getvalue())

    def start(self, *words: str) -> Started:
        started = Started([*PROGRAM, *words], cwd=self.folder, env=self.environ)
        self._started.append(started)
        return started

    def tidy(self) -> None:
        for each in self._started:
            each.process.kill()
            each.process.communicate()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Empty, and open to the user who runs PostgreSQL when root may not."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 2**30
    path = Path(tempfile.mkdtemp(prefix="sextest-", dir=memory if roomy else None))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def _environ() -> dict[str, str]:
    drop = ("SEXTON_", "COLUMNS", "FORCE_COLOR", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if not name.startswith(drop)}


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    started = Zygote()
    yield started
    started.close()


@pytest.fixture
def embedded_cli(folder: Path, zygote: Zygote) -> Iterator[Cli]:
    """In an empty folder, with nothing configured."""
    cli = Cli(folder, _environ(), zygote)
    yield cli
    cli.tidy()


@pytest.fixture
def cli(database_url: str, folder: Path, zygote: Zygote) -> Iterator[Cli]:
    """With a migrated database of its own, and shop.py to run."""
    (folder / "shop.py").write_text(SHOP)
    cli = Cli(folder, _environ() | {"SEXTON_DATABASE_URL": database_url}, zygote)
    yield cli
    cli.tidy()
