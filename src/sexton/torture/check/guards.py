"""Fences, terms, epochs and leases: who may write, and who may not any more."""

from sys import intern

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Change, Line
from sexton.torture.check.handed_over import HandOvers
from sexton.torture.check.invariant import Invariant, is_claim

# Between what a process writes down and what the database does.
CLOCKS = SECOND // 20
# What a worker says of itself; a reaper says it of others, who must be gone.
_ITS_OWN = "its worker lost its lease"
# A claim does not wait for the row of its worker, so it may have begun before that one was gone;
# while PostgreSQL or the host is in trouble it takes longer.
UNDER_WAY, UNDER_WAY_IN_TROUBLE = 2 * SECOND, 10 * SECOND
# By a transaction of the task's own, and what it writes down comes after that.
SETTLES_ITSELF = "transactional"
DELIVERED = "http:"


class NoStaleWrite(Invariant):
    """No write is accepted with a stale fence, term or epoch, nor from one whose lease is lost."""

    name = "no-stale-write"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._settled: set[int] = set()
        self._ended: dict[int, tuple[int, int | None]] = {}  # transaction and worker, by job
        self._said: list[tuple[int, int, int, str]] = []  # job, fence, at, outcome
        self._epochs: dict[int, int] = {}  # of nodes, as they were given out
        self._hand_overs = HandOvers()

    def on_job(self, change: Change) -> None:
        job = self.world.jobs.get(change.id)
        if job is None or change.op == "I":
            return
        was = change.was
        if (was["fence"], was["by"]) != (job.fence, job.by):
            what = f"job {job.id} had another fence than the one its last claim had drawn"
            self.violated(what, change.at, job=job.id)
        if is_claim(change):
            self.checked += 1
            if was["by"] is not None:
                self.violated(f"job {job.id} was claimed while it ran", change.at, job=job.id)
            worker = self.world.workers.get(change.now["by"])
            if worker is not None and self._too_late(worker.gone, change.at):
                what = f"job {job.id} was claimed by worker {worker.name}, which was gone"
                self.violated(what, change.at, job=job.id)
            return
        if change.op == "D" or change.now["by"] is None:
            self._ended[job.id] = (change.tx, was["by"])
        elif change.now["by"] != was["by"]:
            self._hand_overs.see(job, change)
        if change.op == "U" and change.now["fence"] != was["fence"]:
            self.violated(f"job {job.id} got a fence without a claim", change.at, job=job.id)

    def _too_late(self, gone: int | None, at: int) -> bool:
        """Whether a claim cannot have begun before its worker was gone."""
        if gone is None or gone >= at - UNDER_WAY:
            return False
        return gone < at - UNDER_WAY_IN_TROUBLE or not self.evidence.all_in_trouble(gone, at)

    def on_attempt(self, change: Change) -> None:
        job, now = self.world.jobs.get(change.id), change.now
        if job is None or change.op != "I" or (not job.live and job.ended_tx != change.tx):
            return  # what comes after the end is another's concern
        self.checked += 1
        tx, by = self._ended.pop(job.id, (0, None))
        if now["fence"] != job.fence or tx != change.tx:
            what = f"fence {now['fence']} settled job {job.id}, whose fence was {job.fence}"
            self.violated(what, change.at, job=job.id)
            return
        if by is None:
            if now["outcome"] != "cancelled":
                what = f"job {job.id} was settled as {now['outcome']} while nobody ran it"
                self.violated(what, change.at, job=job.id)
            return
        if now["fence"] in self._settled:
            what = f"fence {now['fence']} settled job {job.id} twice"
            self.violated(what, change.at, job=job.id)
        self._settled.add(now["fence"])
        lost, says_so = now["outcome"] == "lost", (now["error"] or "").startswith(_ITS_OWN)
        if now["outcome"] != "released" and (says_so or not lost):
            self._said.append((job.id, now["fence"], change.at, intern(now["outcome"])))
        elif lost and not now["gone"]:
            what = f"job {job.id} was taken for lost while its worker {now['worker']} lived"
            self.violated(what, change.at, job=job.id)

    def on_ownership(self, change: Change) -> None:
        if change.op == "D":
            self._epochs.pop(change.id, None)
        else:
            self._epochs[change.id] = change.now["epoch"]

    def on_fire(self, change: Change) -> None:
        if change.op == "D":
            return
        now = change.now
        if now["node"] is not None:
            self._guarded(change, now["kind"] == "due", now["kind"] != "due")
        elif now["decision"] == "fired" and now["kind"] != "trigger":
            self.checked += 1  # only operators fire without being a node
            self.violated(
                f"nobody says to have fired it, as {now['kind']}", change.at, schedule=change.id
            )

    def on_gap(self, change: Change) -> None:
        if change.op == "I" and change.now["node"] is not None:
            self._guarded(change, True, True)

    def _guarded(self, change: Change, may_own: bool, may_lead: bool) -> None:
        """Written by whoever owned the partition, or led, at that moment."""
        self.checked += 1
        said, held = (change.now["node"], change.now["term"]), change.was
        owns = may_own and said == (held["owner"], held["term"])
        leads = may_lead and said == (held["leader"], held["leader_term"])
        if not owns and not leads:
            what = (
                f"node {said[0]} wrote it in term {said[1]}; its owner was node {held['owner']} in "
                f"term {held['term']}, and node {held['leader']} led in term {held['leader_term']}"
            )
            self.violated(what, change.at, schedule=change.id)
        elif not may_lead and held.get("epoch") != self._epochs.get(said[0]):
            # Who fires holds the row of its share: nobody gives it another one meanwhile.
            what = f"node {said[0]} wrote it when its share was of epoch {held['epoch']}, and epoch"
            self.violated(
                f"{what} {self._epochs.get(said[0])} was given out", change.at, schedule=change.id
            )

    def on_worker(self, change: Change) -> None:
        if change.op == "I":
            self._hand_overs.join(change)
        self._lease("worker", change)

    def on_node(self, change: Change) -> None:
        self._lease("node", change)

    def _lease(self, kind: str, change: Change) -> None:
        if change.op != "U":
            return
        self.checked += 1
        was, now = change.was, change.now
        if was["gone"] is not None:
            if now["lease"] > was["lease"] or now["gone"] is None:
                self.violated(f"{kind} {change.id} renewed its lease when it was gone", change.at)
        elif now["why"] == "lost" and was["lease"] > change.at:
            left = (was["lease"] - change.at) / SECOND
            what = f"{kind} {change.id} was declared lost {left:.3f} s before its lease was over"
            self.violated(what, change.at)

    def on_effect(self, line: Line) -> None:
        self._hand_overs.hear(line)

    def finish(self) -> None:
        """What a worker says of an attempt is about its own: that one had come to its end, or was
        handed over to its endpoint."""
        apart = CLOCKS + self.evidence.folder.clocks.doubt
        self.checked += self._hand_overs.many
        for what, at, id in self._hand_overs.wrong(apart):
            self.violated(what, at, job=id)
        for id, fence, at, outcome in self._said:
            job, ran = self.world.jobs[id], self.evidence.ran.get(fence)
            if self.evidence.budget(job.task) is None or job.task == SETTLES_ITSELF:
                continue  # it does not write down what it does, or does so later
            self.checked += 1
            if outcome == "succeeded":
                over = ran is not None and ran.end is not None and ran.end <= at + apart
            else:  # whom an endpoint answered knows nothing of what it still does
                over = ran is None or ran.last <= at + apart or job.task.startswith(DELIVERED)
            if not over:
                what = f"job {id} was {outcome} with fence {fence}, whose attempt had not ended"
                self.violated(what, at, job=id)
