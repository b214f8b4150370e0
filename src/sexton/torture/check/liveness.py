"""How long things took, as distributions over the whole run; nothing here is a violation.

Who cannot take over because everybody else is down as well, or PostgreSQL is, says nothing about
how long it takes: such cases are left out, and counted.
"""

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Change, Line
from sexton.torture.check.invariant import is_claim

# What a fault may still have had on its way when it began.
UNDER_WAY = SECOND // 10
LONGEST = 120 * SECOND
_BACK = ("up", "promoted")
_NOBODY = ("outage",)
_NOTHING = ("outage", "restart", "immediate", "kill9", "promote", "connections")


class Fault(NamedTuple):
    """Something that was done to somebody, from one instant to another."""

    kind: str
    target: str
    began: int
    ended: int


@dataclass(slots=True)
class Figure:
    """Seconds, of as many cases as there were; `left_out` are those that say nothing."""

    name: str
    means: str
    seconds: list[float] = field(default_factory=list)
    left_out: int = 0

    def at(self, share: float) -> float | None:
        """So many of all took no longer than this."""
        if not self.seconds:
            return None
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    @property
    def line(self) -> Line:
        found = {name: self.at(share) for name, share in _SHARES.items()}
        rounded = {name: None if each is None else round(each, 4) for name, each in found.items()}
        counts = {"count": len(self.seconds), "left_out": self.left_out}
        return {"name": self.name, "means": self.means, **counts, **rounded}


_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


class Liveness:
    """Collects what is told of by the changes, and puts it beside the faults."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.world = evidence.world
        self._lag: dict[str, list[float]] = defaultdict(list)
        self._fires: dict[str, list[int]] = defaultdict(list)  # of a node, by its name
        self._claims: dict[str, list[int]] = defaultdict(list)  # of a worker, by its name
        self._settled: list[int] = []
        self._taken: dict[int, int] = {}  # from which node, when
        self._fired = self._decided = self._attempts = 0

    def on_fire(self, change: Change) -> None:
        now = change.now
        if change.op == "D":
            return
        self._decided += 1
        if now["decision"] != "fired":
            return
        self._fired += 1
        if now["kind"] in ("due", "catch_up"):
            self._lag[now["kind"]].append((change.at - now["fire_at"]) / SECOND)
        node = self.world.nodes.get(now["node"] or 0)
        if node is not None:
            self._fires[node.name].append(change.at)

    def on_job(self, change: Change) -> None:
        if is_claim(change):
            worker = self.world.workers.get(change.now["by"])
            if worker is not None:
                self._claims[worker.name].append(change.at)

    def on_attempt(self, change: Change) -> None:
        self._attempts += 1
        self._settled.append(change.at)

    def on_ownership(self, change: Change) -> None:
        if change.op == "D":
            self._taken[change.id] = change.at

    def counts(self) -> dict[str, int]:
        faults = {each["n"] for each in self.evidence.folder.faults if each["event"] == "begin"}
        return {
            "faults": len(faults),
            "schedules": len(self.world.schedules),
            "fires decided": self._decided,
            "fires fired": self._fired,
            "jobs": len(self.world.jobs),
            "attempts": self._attempts,
        }

    def figures(self) -> list[Figure]:
        return [
            Figure("fire lag", "from its instant to the job", self._lag["due"]),
            Figure("misfire lag", "of those that were caught up", self._lag["catch_up"]),
            self._failover(),
            self._silence(),
            self._orphans(),
            *self._recovery(),
            *self._half_open(),
        ]

    def _failover(self) -> Figure:
        """From the fault until the partitions of the node are others'."""
        figure = Figure("failover gap", "from kill -9 or SIGSTOP of a node to its successors")
        for fault in self._faults:
            for id, node in self.world.nodes.items():
                taken, gone = self._taken.get(id), node.gone or fault.began
                lived = node.started < fault.began <= gone and node.why == "lost"
                hit = fault.kind in ("kill", "stop") and node.name == fault.target
                # It has not said a word since; or else it was something else that it died of.
                if node.renewed is None or node.renewed >= fault.began + UNDER_WAY:
                    continue
                if hit and lived and taken is not None:
                    self._add(figure, fault.began, taken, _NOTHING, last_word=node.renewed)
        return figure

    def _silence(self) -> Figure:
        figure = Figure("silence", "from a lost node's last word to its successors")
        for id, node in self.world.nodes.items():
            if node.why == "lost" and node.renewed is not None and id in self._taken:
                self._add(figure, node.renewed, self._taken[id], _NOTHING)
        return figure

    def _orphans(self) -> Figure:
        """Of first attempts: later ones wait for their retry on purpose."""
        figure = Figure("orphan rerun", "from a lost worker's last word to the next claim")
        for job in self.world.jobs.values():
            if len(job.claims) < 2 or not job.settled:
                continue
            first, (claimed, again) = job.settled[0], job.claims[:2]
            worker = self.world.workers.get(first.worker or 0)
            if (first.fence, first.outcome) != (claimed.fence, "lost") or worker is None:
                continue
            if worker.renewed is not None:
                self._add(figure, worker.renewed, again.at, _NOTHING)
        return figure

    def _recovery(self) -> list[Figure]:
        """After PostgreSQL takes writes again."""
        fires = sorted(at for each in self._fires.values() for at in each)
        claims = sorted(at for each in self._claims.values() for at in each)
        settled = sorted(self._settled)
        found = []
        for name, times in (("fire", fires), ("claim", claims), ("settlement", settled)):
            figure = Figure(f"recovery: {name}", f"from PostgreSQL's return to the first {name}")
            for note in self.evidence.folder.faults:
                is_back = note["event"] == "note" and note.get("what") in _BACK
                nth = bisect_right(times, note["at"])
                if is_back and note.get("target") == "postgres" and nth < len(times):
                    self._add(figure, note["at"], times[nth], _NOBODY)
            found.append(figure)
        return found

    def _half_open(self) -> list[Figure]:
        """Until the process is heard of again: it has given up the connections that are dead."""
        half_open = Figure("half-open", "from a connection's death to the process's next write")
        blackhole = Figure("blackhole", "from the end of one to the process's next write")
        for fault in self._faults:
            times = self._fires.get(fault.target) or self._claims.get(fault.target) or []
            if fault.kind == "half_open":
                figure, since, silent = half_open, fault.began, UNDER_WAY
            elif fault.kind == "blackhole":
                figure, since, silent = blackhole, fault.ended, 0
            else:
                continue
            nth = bisect_right(times, since + silent)
            if nth < len(times) and times[nth] - since < LONGEST:
                self._add(figure, since, times[nth], _NOTHING, fault)
        return [half_open, blackhole]

    def _add(
        self,
        figure: Figure,
        first: int,
        last: int,
        unless: tuple[str, ...],
        of: Fault | None = None,
        last_word: int | None = None,
    ) -> None:
        """One case; unless something else happened to it, or to everybody, in that time, or since
        it was heard of last."""
        began = first if last_word is None else min(first, last_word)
        for fault in self._faults:
            hits = fault.kind in unless or (of is not None and fault.target == of.target)
            if hits and fault is not of and fault.began <= last and began <= fault.ended:
                figure.left_out += 1
                return
        figure.seconds.append((last - first) / SECOND)

    @cached_property
    def _faults(self) -> list[Fault]:
        lines = self.evidence.folder.faults
        over = {each["n"]: each["at"] for each in lines if each["event"] == "end"}
        return [
            Fault(each["fault"], each["target"], each["at"], over.get(each["n"], self.world.ended))
            for each in lines
            if each["event"] == "begin"
        ]
