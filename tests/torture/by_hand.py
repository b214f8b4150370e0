"""A run's folder whose every line a test writes itself."""

import json
from pathlib import Path
from typing import Any

SECOND = 1_000_000
BEGINS = 1_790_000_000 * SECOND
Line = dict[str, Any]


class Run:
    """Nothing is in it but what it was told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("effects", "acks", "dump"):
            (folder / name).mkdir(parents=True)
        self.run = {"seed": 42, "seconds": 9, "command": "sexton torture --seed 42 --seconds 9"}
        self.changes: list[Line] = []
        self.dumps: dict[str, list[Line]] = {"tenant": [{"id": 1, "name": "default"}]}

    def change(self, at: float, tab: str, op: str, id: int | None, **parts: Line) -> None:
        nth = len(self.changes)
        line: Line = {"seq": nth, "at": BEGINS + round(at * SECOND), "tx": nth, "tab": tab}
        line |= {"op": op, "id": id, "was": parts.get("was"), "now": parts.get("now")}
        self.changes.append(line)

    def job(self, at: float, id: int, **given: Any) -> None:
        now = {
            **{"tenant": 1, "task": "t", "queue": "q", "priority": 0, "expires": None, "key": None},
            "held": None,
            **{"limited": False, "limit_key": None, "schedule": None, "fire_at": None},
            **{"after": None, "fence": 0, "by": None, "attempt": 0, "before": 0, "payload": None},
            **{"due": BEGINS + round(at * SECOND)},
        }
        self.change(at, "job", "I", id, now={**now, **given})

    def worker(self, at: float, id: int) -> None:
        began = BEGINS + round(at * SECOND)
        now = {"name": f"w{id}", "pid": id, "started": began, "lease": began, "gone": None}
        self.change(at, "worker", "I", id, now=now)

    def claim(self, at: float, id: int, fence: int, due: float) -> None:
        stood = {"fence": 0, "by": None, "attempt": 0, "due": BEGINS + round(due * SECOND)}
        more = {"after": None, "tenant": 1, "cancel": False}
        now = {**stood, **more, "fence": fence, "by": 1, "attempt": 1}
        self.change(at, "job", "U", id, was=stood, now=now)

    def save(self) -> Path:
        (self.folder / "run.json").write_text(json.dumps(self.run))
        for name, lines in {**self.dumps, "change": self.changes}.items():
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (self.folder / "dump" / f"{name}.jsonl").write_text(text)
        return self.folder
