"""What happened around a violation: rows, requests, effects and faults, in order."""

import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Ask, Change, Line
from sexton.torture.check.invariant import Violation

AROUND = 10 * SECOND
FAULTS_AROUND = 20 * SECOND
MOST = 60
_OF_JOBS = ("job", "progress", "attempt", "dead")
_OF_SCHEDULES = ("schedule", "version", "due", "fire", "gap")
# Who is there, who leads and who owns what: for what is nobody's, or of those who may not write.
_OF_ALL = ("leader", "ownership", "node", "worker")
_BY_THEM = ("one-owner", "no-stale-write")
_OPS = {"I": "+", "U": "~", "D": "-"}
_LONGEST = 160
_LISTED = 8


class Timeline:
    """Goes through the folder once for all violations."""

    def __init__(self, evidence: Evidence, violations: Sequence[Violation]) -> None:
        self._evidence = evidence
        self._violations = violations
        self._jobs: dict[int, list[int]] = defaultdict(list)
        self._schedules: dict[int, list[int]] = defaultdict(list)
        self._found: list[list[tuple[int, str]]] = [[] for _ in violations]
        self._all: list[int] = []
        for nth, each in enumerate(violations):
            if each.invariant in _BY_THEM or (each.job is None and each.schedule is None):
                self._all.append(nth)
            if each.job is not None:
                self._jobs[each.job].append(nth)
            if each.schedule is not None:
                self._schedules[each.schedule].append(nth)
        self._payloads: dict[str, list[int]] = defaultdict(list)
        self._names: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._at: dict[int, list[int]] = defaultdict(list)
        self._know()

    def _know(self) -> None:
        """By what clients and operators call them."""
        world = self._evidence.world
        for nth, each in enumerate(self._violations):
            job, schedule = world.jobs.get(each.job or 0), world.schedules.get(each.schedule or 0)
            if job is not None and job.payload is not None:
                self._payloads[job.payload].append(nth)
            if schedule is not None:
                tenant = self._evidence.tenants.get(schedule.tenant, "")
                self._names[tenant, schedule.name].append(nth)
            if each.invariant == "acknowledged-survives":
                self._at[each.at].append(nth)

    def tell(self) -> list[list[str]]:
        """The lines of each, those nearest to it if there are many."""
        if not self._violations:
            return []
        for change in self._evidence.folder.changes():
            self._change(change)
        for line in self._evidence.folder.effects():
            self._effect(line)
        for ask in self._evidence.asks:
            self._ask(ask)
        for fault in self._evidence.folder.faults:
            self._fault(fault)
        return [
            [f"{clock(at)}  {text}" for at, text in _nearest(each.at, found)]
            for each, found in zip(self._violations, self._found, strict=True)
        ]

    def _change(self, change: Change) -> None:
        wanted: list[int] = []
        if change.tab in _OF_JOBS:
            wanted = self._jobs.get(change.id, [])
        elif change.tab in _OF_SCHEDULES:
            wanted = self._schedules.get(change.id, [])
        elif change.tab in _OF_ALL:
            wanted = self._all
        if wanted:
            # Of a row that was deleted it may be told only which one it was.
            said = _said((change.now if change.op != "D" else change.was) or {})
            text = f"{_OPS[change.op]} {change.tab} {change.id} {said} (tx {change.tx})"
            self._put(wanted, change.at, text, near=change.tab not in _OF_JOBS)

    def _ask(self, ask: Ask) -> None:
        wanted = self._asked_about(ask)
        if not wanted:
            return
        about = "" if ask.subject is None else f" of {ask.subject!r}"
        again = "" if ask.again is None else f", after {ask.again}"
        who = f"{ask.verb}{about} for {ask.tenant}, {ask.by} {ask.n}{again}"
        self._put(wanted, ask.at, f"? {who}: {json.dumps(ask.body)[:_LONGEST]}")
        if ask.answered_at is not None:
            told = ask.error if ask.answer is None else json.dumps(ask.answer)
            self._put(wanted, ask.answered_at, f"= {who}: {(told or '')[:_LONGEST]}")

    def _asked_about(self, ask: Ask) -> list[int]:
        """Those of a job or a schedule that a request names, and those of the request itself."""
        answer, found = ask.answer or {}, {*self._at.get(ask.answered_at or ask.at, ())}
        jobs = [each for each in answer.get("jobs") or () if isinstance(each, dict)]
        for id in (ask.subject, answer.get("job"), *(each.get("id") for each in jobs)):
            if isinstance(id, int):
                found |= {*self._jobs.get(id, ())}
        for each in ask.body.get("jobs", ()):
            found |= {*self._payloads.get(each["payload"]["id"], ())}
        if isinstance(ask.subject, str):
            named = self._names.get((ask.tenant, ask.subject), ())
            near = (nth for nth in named if abs(ask.at - self._violations[nth].at) < FAULTS_AROUND)
            found |= {*near}
        return sorted(found)

    def _effect(self, line: Line) -> None:
        wanted = self._jobs.get(line["job"])
        if wanted:
            what = f"attempt {line['attempt']}, fence {line['fence']}, pid {line['worker_pid']}"
            why = f": {line['why']}" if line.get("why") else ""
            self._put(wanted, line["at"], f"* {line['event']} of job {line['job']}, {what}{why}")

    def _fault(self, line: Line) -> None:
        what = line.get("fault") or line.get("what")
        text = f"! {what} {line.get('target')} {line['event']} {_said(line.get('detail') or {})}"
        for nth, each in enumerate(self._violations):
            if abs(line["at"] - each.at) < FAULTS_AROUND:
                self._found[nth].append((line["at"], text))

    def _put(self, wanted: Sequence[int], at: int, text: str, near: bool = False) -> None:
        for nth in wanted:
            if not near or abs(at - self._violations[nth].at) < AROUND:
                self._found[nth].append((at, text))


def clock(at: int) -> str:
    return f"{datetime.fromtimestamp(at / SECOND, UTC):%H:%M:%S.%f}"


def _nearest(at: int, found: list[tuple[int, str]]) -> list[tuple[int, str]]:
    nearest = sorted(found, key=lambda each: abs(each[0] - at))[:MOST]
    return sorted(nearest, key=lambda each: each[0])


def _said(row: Line) -> str:
    """Instants by the clock, the rest as it is."""
    words = []
    for name, value in row.items():
        if value is None or name in ("said", "payload", "began"):
            continue
        instant = isinstance(value, int) and value > 10**15 and not isinstance(value, bool)
        if isinstance(value, list) and len(value) > _LISTED:
            value = f"{len(value)} of them"
        words.append(f"{name}={clock(value) if instant else value}")
    return " ".join(words)[:_LONGEST]
