"""What was done to the cluster, and what it did of itself, as it happened."""

import json
import os
from pathlib import Path
from typing import Any

from sexton.torture.stand.clocks import now_us

FILE = "faults.jsonl"


class FaultLog:
    """faults.jsonl: a line when a fault begins, one when it ends, and notes in between."""

    def __init__(self, folder: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = os.open(folder / FILE, flags, 0o644)
        self.begun = 0

    def begin(self, n: int, fault: str, target: str, for_s: float, **detail: Any) -> None:
        self.begun += 1
        self._write("begin", n=n, fault=fault, target=target, for_s=for_s, detail=detail)

    def end(self, n: int, fault: str, target: str, **detail: Any) -> None:
        self._write("end", n=n, fault=fault, target=target, detail=detail)

    def note(self, what: str, target: str, at: int | None = None, **detail: Any) -> None:
        self._write("note", at, what=what, target=target, detail=detail)

    def close(self) -> None:
        os.close(self._file)

    def _write(self, event: str, at: int | None = None, **line: Any) -> None:
        whole = {"at": now_us() if at is None else at, "event": event, **line}
        os.write(self._file, json.dumps(whole).encode() + b"\n")
