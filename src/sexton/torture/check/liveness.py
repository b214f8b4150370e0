"""How long things took, as distributions over the whole run; nothing here is a violation."""

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Change, Line
from sexton.torture.check.invariant import is_claim

# What a fault may still have had on its way when it began.
UNDER_WAY = SECOND // 10
LONGEST = 120 * SECOND
_SILENCED = ("half_open", "blackhole")
_BACK = ("up", "promoted")


@dataclass(slots=True)
class Figure:
    """Seconds, of as many cases as there were."""

    name: str
    means: str
    seconds: list[float] = field(default_factory=list)

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
        return {"name": self.name, "means": self.means, "count": len(self.seconds), **rounded}


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
            Figure("silence", "from a lost node's last word to its successors", self._silence()),
            self._orphans(),
            *self._recovery(),
            self._half_open(),
        ]

    def _failover(self) -> Figure:
        """From the fault until the partitions of the node are others'."""
        figure = Figure("failover gap", "from kill -9 or SIGSTOP of a node to its successors")
        for fault in self._begun("kill", "stop", "outage"):
            for id, node in self.world.nodes.items():
                lived = node.started < fault["at"] and (node.gone or LONGEST + fault["at"])
                if node.name != fault["target"] or not lived or lived < fault["at"]:
                    continue
                taken = self._taken.get(id)
                if taken is not None and node.why == "lost" and taken - fault["at"] < LONGEST:
                    figure.seconds.append((taken - fault["at"]) / SECOND)
        return figure

    def _silence(self) -> list[float]:
        return [
            (self._taken[id] - node.renewed) / SECOND
            for id, node in self.world.nodes.items()
            if node.why == "lost" and node.renewed is not None and id in self._taken
        ]

    def _orphans(self) -> Figure:
        """Of first attempts: later ones wait for their retry on purpose."""
        figure = Figure("orphan rerun", "from a lost worker's last word to the next claim")
        for job in self.world.jobs.values():
            claims = {each.fence: nth for nth, each in enumerate(job.claims)}
            for settled in job.settled:
                if settled.outcome != "lost" or settled.fence not in claims:
                    continue
                nth, worker = claims[settled.fence], self.world.workers.get(settled.worker or 0)
                if nth or worker is None or worker.renewed is None or len(job.claims) < 2:
                    continue
                figure.seconds.append((job.claims[1].at - worker.renewed) / SECOND)
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
                if note["event"] == "note" and note.get("what") in _BACK:
                    nth = bisect_right(times, note["at"])
                    if note.get("target") == "postgres" and nth < len(times):
                        figure.seconds.append((times[nth] - note["at"]) / SECOND)
            found.append(figure)
        return found

    def _half_open(self) -> Figure:
        """Until the process is heard of again: it has given up the connections that are dead."""
        figure = Figure("half-open", "from a dead or silent connection to the process's next write")
        for fault in self._begun(*_SILENCED):
            times = self._fires.get(fault["target"]) or self._claims.get(fault["target"]) or []
            nth = bisect_right(times, fault["at"] + UNDER_WAY)
            if nth < len(times) and times[nth] - fault["at"] < LONGEST:
                figure.seconds.append((times[nth] - fault["at"]) / SECOND)
        return figure

    def _begun(self, *kinds: str) -> list[Line]:
        return [
            each
            for each in self.evidence.folder.faults
            if each["event"] == "begin" and each.get("fault") in kinds
        ]
