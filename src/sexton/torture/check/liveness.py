"""How long things took, as distributions over the whole run; nothing here is a violation.

Who cannot take over because everybody else is down as well, or PostgreSQL is, says nothing about
how long it takes: such cases are left out, and counted. What did not happen at all, though it could
have, has no length either, and is counted as never.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from functools import cached_property
from typing import NamedTuple

from sexton.torture.check.evidence import SETTLES_IN, Evidence
from sexton.torture.check.figure import Figure
from sexton.torture.check.folder import SECOND, Change
from sexton.torture.check.handed_over import HOLDER
from sexton.torture.check.invariant import is_claim
from sexton.torture.check.things import Job, Member

# What a fault may still have had on its way when it began.
UNDER_WAY = SECOND // 10
# For so long nothing else may happen to a case that is to tell something. The same for all: if it
# were until a case is over, the longest would be left out most.
CLEAR = 10 * SECOND
_BACK, _GONE = ("up", "promoted"), ("down", "promoting")
_NOBODY = ("outage",)
_NOTHING = ("outage", "restart", "immediate", "kill9", "promote", "connections")


class Fault(NamedTuple):
    """Something that was done to somebody, from one instant to another."""

    kind: str
    target: str
    began: int
    ended: int


_FIRED = {
    "due": "fired",
    "catch_up": "caught up",
    "backfill": "backfilled",
    "trigger": "triggered",
}


class Liveness:
    """Collects what is told of by the changes, and puts it beside the faults."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.world = evidence.world
        self._lag: dict[str, list[float]] = defaultdict(list)
        self._fires: dict[str, list[int]] = defaultdict(list)  # of a node, by its name
        self._claims: dict[str, list[int]] = defaultdict(list)  # of a worker, by its name
        self._settled: list[int] = []
        self._owned: set[int] = set()  # by nodes that had a share
        self._taken: dict[int, int] = {}  # from which node, when
        self._attempts = 0
        self.decisions: Counter[str] = Counter()  # of how many instants what was made

    def on_fire(self, change: Change) -> None:
        now = change.now
        if change.op == "D":
            return
        if now["decision"] != "fired":
            self.decisions[now["decision"]] += 1
            return
        self.decisions[_FIRED[now["kind"]]] += 1
        if now["kind"] in ("due", "catch_up"):
            self._lag[now["kind"]].append((change.at - now["fire_at"]) / SECOND)
        node = self.world.nodes.get(now["node"] or 0)
        if node is not None:
            self._fires[node.name].append(change.at)

    def on_gap(self, change: Change) -> None:
        if change.op == "I":
            self.decisions[change.now["decision"]] += change.now["fires"] or 1

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
        else:
            self._owned.add(change.id)

    def counts(self) -> dict[str, int]:
        fired = sum(self.decisions[each] for each in _FIRED.values())
        return {
            "faults": len(self._faults),
            "schedules": len(self.world.schedules),
            "fires decided": self.decisions.total(),
            "fires fired": fired,
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
            self._starts(),
            *self._half_open(),
        ]

    def _failover(self) -> Figure:
        """From the fault until the partitions of the node are others'."""
        figure = Figure("failover gap", "from kill -9 or SIGSTOP of a node to its successors")
        told: set[int] = set()
        for fault in self._faults:
            for node in self.world.nodes.values():
                hit = fault.kind in ("kill", "stop") and node.name == fault.target
                lived = node.started < fault.began and not (node.gone or self._end) < fault.began
                if not hit or not lived:
                    continue
                last_word = self._last_word(node)
                # It has said something since: it was something else that it died of. Or it was
                # silent already: the fault before this one tells how long that took.
                if last_word >= fault.began + UNDER_WAY or node.id in told:
                    figure.left_out += 1
                else:
                    told.add(node.id)
                    self._succeeded(figure, node, fault.began, last_word)
        return figure

    def _silence(self) -> Figure:
        figure = Figure("silence", "from a lost node's last word to its successors")
        for node in self.world.nodes.values():
            if node.why == "lost" or (node.gone is None and self._last_word(node) < self._end):
                self._succeeded(figure, node, self._last_word(node))
        return figure

    def _succeeded(
        self, figure: Figure, node: Member, since: int, last_word: int | None = None
    ) -> None:
        """Until its share was another's; who left by itself, or had none, has no successors."""
        taken = self._taken.get(node.id)
        if node.why not in ("lost", None) or (taken is None and node.id not in self._owned):
            figure.left_out += 1
        else:
            self._add(figure, since, taken, _NOTHING, last_word=last_word)

    def _last_word(self, node: Member) -> int:
        """When it was heard of last, also of one that was never declared lost."""
        known = node.renewed
        if known is None:
            known = self._renewed.get(node.id)
        return node.started if known is None else known

    @cached_property
    def _renewed(self) -> dict[int, int]:
        return {each["id"]: each["renewed"] for each in self.evidence.folder.dump("node")}

    def _orphans(self) -> Figure:
        """Of first attempts: later ones wait for their retry on purpose."""
        figure = Figure("orphan rerun", "from a lost worker's last word to the next claim")
        for job in self.world.jobs.values():
            if not job.settled or not job.claims:
                continue
            first, claimed = job.settled[0], job.claims[0]
            if (first.fence, first.outcome) != (claimed.fence, "lost"):
                continue
            worker = self.world.workers.get(first.worker or 0)
            # An endpoint that accepted it is never heard of.
            heard = None if worker is None or worker.name == HOLDER else worker.renewed
            if heard is None or not _goes_on(job):
                figure.left_out += 1
            else:
                again = job.claims[1].at if len(job.claims) > 1 else None
                self._add(figure, heard, again, _NOTHING)
        return figure

    def _recovery(self) -> list[Figure]:
        """After PostgreSQL takes writes again, unless it is soon gone once more."""
        noted = [
            each
            for each in self.evidence.folder.faults
            if each["event"] == "note" and each.get("target") == "postgres"
        ]
        downs = [each["at"] for each in noted if each.get("what") in _GONE]
        fires = sorted(at for each in self._fires.values() for at in each)
        claims = sorted(at for each in self._claims.values() for at in each)
        settled = sorted(self._settled)
        found = []
        for name, times in (("fire", fires), ("claim", claims), ("settlement", settled)):
            figure = Figure(f"recovery: {name}", f"from PostgreSQL's return to the first {name}")
            for back in (each["at"] for each in noted if each.get("what") in _BACK):
                nth = bisect_right(times, back)
                first = times[nth] if nth < len(times) else None
                if any(back <= down <= back + CLEAR for down in downs):
                    figure.left_out += 1
                else:
                    self._add(figure, back, first, _NOBODY)
            found.append(figure)
        return found

    def _starts(self) -> Figure:
        """Of as many processes at once as there are, on the host of all of them."""
        figure = Figure("start", "after an outage: from a process's start until it is ready")
        for note in self.evidence.folder.faults:
            if note.get("what") == "came back" and note["detail"].get("alone", True):
                figure.seconds.append(note["detail"]["after"])
            elif note.get("what") in ("came back", "hit again"):
                figure.left_out += 1
        return figure

    def _half_open(self) -> list[Figure]:
        """Until the process is heard of again: it has given up the connections that are dead."""
        half_open = Figure("half-open", "from a connection's death to the process's next write")
        blackhole = Figure("blackhole", "from the end of one to the process's next write")
        for fault in self._faults:
            if fault.kind == "half_open":
                figure, since, silent = half_open, fault.began, UNDER_WAY
            elif fault.kind == "blackhole":
                figure, since, silent = blackhole, fault.ended, 0
            else:
                continue
            times = self._fires.get(fault.target) or self._claims.get(fault.target)
            if not times:
                figure.left_out += 1  # of clients and servers the database tells nothing
                continue
            nth = bisect_right(times, since + silent)
            heard = times[nth] if nth < len(times) else None
            self._add(figure, since, heard, _NOTHING, fault)
        return [half_open, blackhole]

    def _add(
        self,
        figure: Figure,
        first: int,
        last: int | None,
        unless: tuple[str, ...],
        of: Fault | None = None,
        last_word: int | None = None,
    ) -> None:
        """One case, unless something else happened to it, or to everybody, soon after, or since it
        was heard of last. What has no end has none even when all was well again: never."""
        if last is None:
            if max(first, self.evidence.calm_since) + SETTLES_IN <= self._end:
                figure.never += 1
            else:
                figure.left_out += 1
            return
        began = first if last_word is None else min(first, last_word)
        for fault in self._faults:
            hits = fault.kind in unless or (of is not None and fault.target == of.target)
            if hits and fault is not of and fault.began <= first + CLEAR and began <= fault.ended:
                figure.left_out += 1
                return
        figure.seconds.append((last - first) / SECOND)

    @property
    def _end(self) -> int:
        """Until when there was somebody to take over."""
        return self.evidence.stopped

    @cached_property
    def _faults(self) -> list[Fault]:
        """Those that were done: not what failed, nor a cut at a message that never came."""
        lines = self.evidence.folder.faults
        over = {each["n"]: each for each in lines if each["event"] == "end"}
        tripped = {
            each["detail"]["n"]
            for each in lines
            if each["event"] == "note" and each.get("what") == "tripped"
        }
        found = []
        for each in lines:
            end = over.get(each.get("n"), {"at": self.world.ended})
            failed = "failed" in (end.get("detail") or {})
            idle = each.get("fault") == "message" and each["n"] not in tripped
            if each["event"] == "begin" and not failed and not idle:
                found.append(Fault(each["fault"], each["target"], each["at"], end["at"]))
        return found


def _goes_on(job: Job) -> bool:
    """Whether somebody is to run it again: it did not die of that, whoever may redrive it later,
    nor was it cancelled since."""
    return job.settled[0].next == "waiting" and (len(job.claims) > 1 or job.live)
