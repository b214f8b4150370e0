"""One schedule's history, told by a test line by line."""

import json
from typing import Any

from sexton.torture.check import judge

from .by_hand import BEGINS, SECOND, Line, Run

EVERY = 10  # seconds
_COLUMNS = ("state", "since", "until", "task", "payload")
OWNER = {"owner": 1, "epoch": 1, "term": 1, "leader": 1, "leader_term": 1}


class Story(Run):
    """One schedule of every ten seconds, and its jobs."""

    version = asked = 0
    next: int | None = None  # where it stands

    def begin(self, at: float = 0, **said: Any) -> None:
        """The schedule, or its next version."""
        self.version += 1
        anchor = "2026-09-21T14:13:20+00:00"  # BEGINS
        now: Line = {
            **{"tenant": 1, "name": "s", "version": self.version, "since": self.at(at)},
            **{"state": "active", "reason": None, "until": None},
            **{"anchor": BEGINS, "task": "t", "max_fires": None, "payload": {}},
        }
        now |= {name: said.pop(name) for name in _COLUMNS if name in said}
        now["said"] = {"every": EVERY, "anchor": anchor, **said}
        self.change(at, "schedule", "I" if self.version == 1 else "U", 1, now=now)

    def move(self, at: float, next: float, *, late: bool = False) -> None:
        stands = {"stamp": 1, "late": False, "scheduled": None, "left": None, "last": None}
        was = {"next": self.next, "stamp": 1, "late": late}
        self.next = self.at(next)
        now = {**stands, "next": self.next, "tenant": 1}
        self.change(at, "due", "U", 1, was=was, now=now)

    def fire(self, scheduled: float, at: float | None = None, **given: Any) -> None:
        """With its job, if it is fired; all in one transaction, in which the schedule moves on."""
        at = scheduled if at is None else at
        given = {"decision": "fired", "kind": "due", **given}
        after, job = given.pop("after", None), given.pop("job", None)
        task = given.pop("task", "t")
        if given["kind"] in ("due", "catch_up"):
            self.move(at, scheduled + EVERY, late=given["kind"] == "catch_up")
        now = {
            **{"fire_at": self.at(scheduled), "scheduled": self.at(scheduled), "job": job},
            **{"decided": self.at(at), "term": 1, "node": 1, "began": self.at(at), **given},
        }
        self.change(at, "fire", "I", 1, was=OWNER, now=now)
        self.together(2)
        if job is not None:
            self.job(at, job, schedule=1, fire_at=self.at(scheduled), after=after, task=task)
            self.together(2)

    def gap(self, first: float, last: float, at: float, decision: str, **given: Any) -> None:
        now = {
            **{"first": self.at(first), "last": self.at(last), "decided": self.at(at)},
            **{"fires": None, "term": 1, "node": 1, "decision": decision, **given},
        }
        self.change(at, "gap", "I", 1, was=OWNER, now=now)

    def end(self, at: float, job: int, fence: int = 0) -> None:
        was = {"fence": fence, "by": 1, "attempt": 1}
        self.change(at, "job", "D", job, was=was)

    def ask_to_end(self, at: float, job: int) -> None:
        stood = {"fence": 0, "by": 1, "attempt": 1, "due": BEGINS}
        self.change(
            *(at, "job", "U", job),
            was=stood,
            now={**stood, "after": None, "tenant": 1, "cancel": True},
        )

    def together(self, many: int) -> None:
        """The last so many changes are of one transaction."""
        for each in self.changes[-many:]:
            each["tx"] = self.changes[-many]["tx"]

    def fault(self, began: float, ended: float, target: str, fault: str = "restart") -> None:
        for event, at in (("begin", began), ("end", ended)):
            line = {"at": self.at(at), "event": event, "n": 1, "fault": fault, "target": target}
            self._write("faults.jsonl", line | {"for_s": ended - began})

    def note(self, at: float, what: str, target: str) -> None:
        line = {"at": self.at(at), "event": "note", "what": what, "target": target, "detail": {}}
        self._write("faults.jsonl", line)

    def effect(self, at: float, job: int, fence: int, **payload: Any) -> None:
        line = {
            **{"at": self.at(at), "event": "end", "job": job, "fence": fence, "fire_at": None},
            **{"idempotency_key": f"k{job}", "attempt": 1, "task": "t", "tenant": "default"},
            "payload": payload,
        }
        self._write("effects/w.jsonl", line)

    def ask(self, at: float, answered: float | None, verb: str, answer: Line, **body: Any) -> None:
        """A request about the schedule, and what was answered; None: nobody ever was."""
        self.asked += 1
        asked = {"verb": verb, "via": "api", "tenant": "default", "subject": "s", "body": body}
        line = {"at": self.at(at), "event": "ask", "n": self.asked, **asked}
        self._write("acks/c.jsonl", line)
        if answered is not None:
            line = {"at": self.at(answered), "event": "ack", "n": self.asked, "answer": answer}
            self._write("acks/c.jsonl", line)

    def commit(self, at: float) -> None:
        """Of the transaction that was told of last."""
        self.change(at, "commit", "I", None)
        self.together(2)

    def _write(self, name: str, line: Line) -> None:
        with (self.folder / name).open("a") as file:
            file.write(json.dumps(line) + "\n")

    @staticmethod
    def at(seconds: float) -> int:
        return BEGINS + round(seconds * SECOND)

    def found(self, name: str) -> list[str]:
        verdict = judge(self.save())
        [invariant] = [each for each in verdict.invariants if each.name == name]
        return [each.what for each in invariant.violations]
