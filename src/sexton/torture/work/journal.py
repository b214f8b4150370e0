"""Lines that outlive a kill -9 of whoever wrote them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

FOLDER, NAME = "TORTURE_FOLDER", "TORTURE_NAME"
_encode = msgspec.json.Encoder().encode


class Journal:
    """A file of one process: each line is one write to its end, done before anything goes on.

    The kernel may cut a line short if the process is killed while it writes it. That is the last
    one of its file, has no newline, and counts as not written: nothing had gone on after it.
    """

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{name}-{os.getpid()}.jsonl"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(self.path, flags, 0o644)

    def write(self, line: Mapping[str, Any]) -> None:
        text = _encode(line) + b"\n"
        if os.write(self._file, text) != len(text):
            raise OSError(f"{self.path} did not take a whole line: is there room?")

    def close(self) -> None:
        os.close(self._file)


def run_folder() -> Path:
    """Where this run keeps its notes."""
    given = os.environ.get(FOLDER)
    if not given:
        raise RuntimeError(f"{FOLDER} is not set: it names the folder of the run")
    return Path(given)


def process_name() -> str:
    return os.environ.get(NAME) or "process"


def write_all(path: Path, lines: list[dict[str, Any]]) -> None:
    """A whole file of them, for what is known beforehand."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(_encode(line) + b"\n" for line in lines))


def read_all(path: Path) -> list[dict[str, Any]]:
    """Every whole line of a file."""
    *whole, _ = path.read_bytes().split(b"\n")
    return [msgspec.json.decode(line) for line in whole]
