"""Fences, terms, epochs and leases: who may write, and who may not any more."""

from sys import intern
from typing import NamedTuple

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Change, Line
from sexton.torture.check.handed_over import HandOvers
from sexton.torture.check.invariant import Invariant, is_claim
from sexton.torture.check.things import Job
from sexton.torture.check.ways import Ways

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
# Why an attempt failed that never began; what it says of a job's age is looked at elsewhere.
TOO_OLD = "it was not started within its maximum age"


class Word(NamedTuple):
    """What a worker said of an attempt of its own, and when that was written."""

    job: int
    fence: int
    at: int
    outcome: str
    worker: int
    too_old: bool


class NoStaleWrite(Invariant):
    """No write is accepted with a stale fence, term or epoch, nor from one whose lease is lost."""

    name = "no-stale-write"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._settled: set[int] = set()
        self._ended: dict[int, tuple[int, int | None]] = {}  # transaction and worker, by job
        self._said: list[Word] = []
        self._epochs: dict[int, int] = {}  # of nodes, as they were given out
        self._hand_overs = HandOvers()
        self._ways = Ways(evidence)
        self._apart = CLOCKS + evidence.folder.clocks.doubt

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

    def on_progress(self, change: Change) -> None:
        """What a task says of itself names the fence that it has."""
        said, now = change.now["said"], change.now
        fence = said.get("fence") if isinstance(said, dict) else None
        if fence is None:
            return
        self.checked += 1
        if fence != now["fence"] or now["by"] is None:
            what = f"fence {fence} said how far job {change.id} is, whose fence was {now['fence']}"
            held = "" if now["by"] is not None else ", and which nobody ran"
            self.violated(f"{what}{held}", change.at, job=change.id)

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
        error = now["error"] or ""
        lost, says_so = now["outcome"] == "lost", error.startswith(_ITS_OWN)
        if says_so or not lost:
            outcome, too_old = intern(now["outcome"]), error.startswith(TOO_OLD)
            self._said.append(Word(job.id, now["fence"], change.at, outcome, by, too_old))
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
        self.checked += self._hand_overs.many
        for what, at, id in self._hand_overs.wrong(self._apart):
            self.violated(what, at, job=id)
        for word in self._said:
            job = self.world.jobs[word.job]
            if self.evidence.budget(job.task) is None or job.task == SETTLES_ITSELF:
                continue  # it does not write down what it does, or does so later
            self.checked += 1
            if (wrong := self._untrue(job, word)) is not None:
                what = f"job {job.id} was {word.outcome} with fence {word.fence}, whose attempt"
                self.violated(f"{what} {wrong}", word.at, job=job.id)

    def _untrue(self, job: Job, word: Word) -> str | None:
        """How what was said of an attempt differs from what it did itself."""
        ran, by = self.evidence.ran.get(word.fence), word.at + self._apart
        delivered = job.task.startswith(DELIVERED)
        match word.outcome:
            case "succeeded":
                over = ran is not None and ran.end is not None and ran.end <= by
                return None if over else "had not ended"
            case "failed" | "snoozed" if ran is None or ran.begin is None:
                return None if self._may_not_begin(job, word) else "never began"
            case "released":
                return "had succeeded" if not delivered and self._was_done(word) else None
        if ran is None or delivered:
            return None  # whom an endpoint answered knows nothing of what it still does
        if word.outcome in ("failed", "snoozed") and ran.end is not None:
            return "had succeeded"
        return None if ran.last <= by else "had not ended"

    def _may_not_begin(self, job: Job, word: Word) -> bool:
        """Too late, left alone with its host, or on a way that led nowhere: never otherwise."""
        if word.too_old:
            return True
        if not job.task.startswith(DELIVERED):
            return False
        claimed = next(each.at for each in job.claims if each.fence == word.fence)
        return word.outcome == "snoozed" or self._ways.led_nowhere(claimed, word.at)

    def _was_done(self, word: Word) -> bool:
        """Whether an attempt was put back after its end; while nobody is in trouble, that is
        written at once."""
        ran = self.evidence.ran.get(word.fence)
        if ran is None or ran.end is None or ran.end >= word.at - self._apart:
            return False
        return not (
            self.evidence.all_in_trouble(ran.end, word.at)
            or self.evidence.workers_in_trouble([word.worker], ran.end, word.at)
        )
