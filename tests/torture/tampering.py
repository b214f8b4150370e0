"""A recorded run in hand: its lines can be found, changed, added and taken out."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

SECOND = 1_000_000
Line = dict[str, Any]


class Tampered:
    """A copy of a run's folder, as lines by file; `save` writes those that were looked at."""

    def __init__(self, recorded: Path, folder: Path) -> None:
        shutil.copytree(recorded, folder)
        self.folder = folder
        self._files: dict[str, list[Line]] = {}

    def lines(self, name: str) -> list[Line]:
        """Of a file below the folder; `effects` and `acks` are one file each in a small run."""
        if name not in self._files:
            [path] = [*self.folder.glob(f"{name}.jsonl")] or [*self.folder.glob(f"{name}/*.jsonl")]
            self._files[name] = [json.loads(line) for line in path.read_text().splitlines()]
        return self._files[name]

    def save(self) -> Path:
        for name, lines in self._files.items():
            [path] = [*self.folder.glob(f"{name}.jsonl")] or [*self.folder.glob(f"{name}/*.jsonl")]
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return self.folder

    # ── finding ─────────────────────────────────────────────────────────────

    @property
    def changes(self) -> list[Line]:
        return self.lines("dump/change")

    @property
    def effects(self) -> list[Line]:
        return self.lines("effects")

    @property
    def acks(self) -> list[Line]:
        return self.lines("acks")

    def schedule(self, name: str) -> int:
        return int(next(each["id"] for each in self.rows("schedule", name=name)))

    def all(self, tab: str, op: str = "I", id: int | None = None, **now: Any) -> list[Line]:
        """Changes of a table, with these values after it."""
        return [
            each
            for each in self.changes
            if (each["tab"], each["op"]) == (tab, op)
            and id in (None, each["id"])
            and all((each["now"] or {}).get(name) == value for name, value in now.items())
        ]

    def fires(self, name: str, **now: Any) -> list[Line]:
        return self.all("fire", "I", self.schedule(name), **now)

    def claims(self, job: int) -> list[Line]:
        return [
            each
            for each in self.all("job", "U", job)
            if each["now"]["by"] is not None and each["now"]["fence"] != each["was"]["fence"]
        ]

    def succeeded_at_once(self, task: str, after: int = 0) -> int:
        """A job of this task whose only attempt succeeded, made after the change of this number."""
        for made in self.all("job", task=task):
            attempts = self.all("attempt", "I", made["id"])
            outcomes = [each["now"]["outcome"] for each in attempts]
            if made["seq"] > after and outcomes == ["succeeded"]:
                return int(made["id"])
        raise LookupError(f"no {task} succeeded at once")

    def retried(self, task: str = "fails") -> int:
        """A job of this task that failed at first, and then succeeded."""
        for made in self.all("job", task=task):
            attempts = self.all("attempt", "I", made["id"])
            if [each["now"]["outcome"] for each in attempts] == ["failed", "succeeded"]:
                return int(made["id"])
        raise LookupError(f"no {task} was retried once")

    def effects_of(self, job: int, event: str | None = None) -> list[Line]:
        return [
            each for each in self.effects if each["job"] == job and event in (None, each["event"])
        ]

    def rows(self, table: str, **wanted: Any) -> list[Line]:
        """Of a table as it was at the end."""
        return [
            each
            for each in self.lines(f"dump/{table}")
            if all(each[name] == value for name, value in wanted.items())
        ]

    # ── changing ────────────────────────────────────────────────────────────

    def drop(self, name: str, gone: Callable[[Line], bool]) -> None:
        lines = self.lines(name)
        lines[:] = [each for each in lines if not gone(each)]

    def drop_job(self, job: int) -> None:
        """As if it had never been."""
        tabs = ("job", "attempt", "dead")
        self.drop("dump/change", lambda each: each["tab"] in tabs and each["id"] == job)
        self.drop("effects", lambda each: each["job"] == job)
        for table in ("job", "dead", "attempt"):
            self.drop(f"dump/{table}", lambda each: each["id"] == job)

    def double_job(self, job: int) -> int:
        """Another that lives the same life, under its own number, fences and key."""
        number, fences = 10**9 + job, 10**9
        tabs = ("job", "attempt", "dead")
        for each in [one for one in self.changes if one["tab"] in tabs and one["id"] == job]:
            copy = json.loads(json.dumps(each))
            copy["id"] = number
            for part in (copy["was"], copy["now"]):
                if part and part.get("fence"):
                    part["fence"] += fences
            self.changes.insert(self.changes.index(each) + 1, copy)
        for each in self.effects_of(job):
            key = f"{each['idempotency_key']}-2"
            more = {"job": number, "fence": each["fence"] + fences, "idempotency_key": key}
            self.effects.append({**each, **more})
        for table in ("job", "dead", "attempt"):
            for row in self.rows(table, id=job):
                self.lines(f"dump/{table}").append(
                    {**row, "id": number, "fence": row.get("fence", 0) + fences}
                )
        return number

    def ask_for(self, payload: str | None, **options: Any) -> None:
        """As if its job had been asked for with these; None: without."""
        for each in self.acks:
            for job in each.get("body", {}).get("jobs", ()):
                if job["payload"]["id"] == payload:
                    job |= options
                    for name in [name for name, value in options.items() if value is None]:
                        del job[name]

    def refence(self, job: int, old: int, new: int) -> None:
        """One of its claims with another fence, wherever that is told."""
        for each in self.changes:
            if each["tab"] in ("job", "attempt") and each["id"] == job:
                for part in (each["was"], each["now"]):
                    if part and part.get("fence") == old:
                        part["fence"] = new
        for each in self.effects_of(job):
            if each["fence"] == old:
                each["fence"] = new

    def append(self, tab: str, op: str, id: int | None, was: Any, now: Any, at: int) -> None:
        last = self.changes[-1]
        self.changes.append(
            {
                "seq": last["seq"] + 1,
                "at": at,
                "tx": last["tx"] + 1,
                "tab": tab,
                "op": op,
                "id": id,
                "was": was,
                "now": now,
            }
        )


Tamper = Callable[[Tampered], None]
TEETH: list[tuple[str, Tamper]] = []


def found_by(invariant: str) -> Callable[[Tamper], Tamper]:
    """This change of a record is to be found by this invariant, and by no other."""

    def keep(tamper: Tamper) -> Tamper:
        TEETH.append((invariant, tamper))
        return tamper

    return keep
