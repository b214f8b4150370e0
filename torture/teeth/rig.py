"""The rig, run from a copy of the package: what it starts ends with it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sexton.torture.stand import tree
from sexton.torture.stand.scratch import scratch
from torture.teeth.mutant import SOURCE, Mutant

# An interrupted rig takes down its cluster first.
ENDS_WITHIN = 60.0
WORDS = 3000


@dataclass(frozen=True)
class Ran:
    """How a command ended, what it said, and how long it took."""

    code: int
    said: str
    complained: str
    seconds: float

    @property
    def last_words(self) -> str:
        return (self.complained or self.said).strip()[-WORDS:]


@contextmanager
def copied(mutant: Mutant) -> Iterator[Path]:
    """A folder with the package, changed; and with whatever is written there, gone afterwards."""
    with scratch() as folder:
        left_out = shutil.ignore_patterns("__pycache__")
        shutil.copytree(SOURCE, folder / "sexton", ignore=left_out)
        mutant.apply(folder / "sexton")
        yield folder


def ran(folder: Path, words: Sequence[str], within: float) -> Ran:
    """A command of the package in this folder, in a process group of its own."""
    env = {name: text for name, text in os.environ.items() if not name.startswith("SEXTON_")}
    env["PYTHONPATH"] = str(folder)
    with (folder / "said").open("w+") as said, (folder / "complained").open("w+") as complained:
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, *words],
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=complained,
            start_new_session=True,
        )
        try:
            with suppress(subprocess.TimeoutExpired):
                process.wait(within)
        finally:
            _end(process)
        seconds = time.monotonic() - began
        said.seek(0)
        complained.seek(0)
        return Ran(process.returncode, said.read(), complained.read(), seconds)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Nothing, if it has ended by itself."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(ENDS_WITHIN)
    except subprocess.TimeoutExpired:
        tree.signal_tree(process.pid, signal.SIGKILL)
        process.wait()
