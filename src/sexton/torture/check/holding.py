"""What jobs hold against others: their key, and a place among those that may run at once."""

from collections import defaultdict
from dataclasses import dataclass

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Change
from sexton.torture.check.invariant import Invariant, is_claim
from sexton.torture.check.things import Job

# A key is held on from the beginning of the transaction that settles, which is told later.
SETTLES_FOR = SECOND // 4
Key = tuple[int, str, str]
Place = tuple[object, ...]


class OneLiveJobPerKey(Invariant):
    """A key has one live job of a task and tenant at a time, or none while it is held on."""

    name = "one-live-job-per-key"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._held: dict[Key, int] = {}
        self._held_on: dict[Key, tuple[int, int]] = {}  # until when, by which job

    def on_job(self, change: Change) -> None:
        if change.op == "I" and change.now["key"] is not None:
            self.checked += 1
            now = change.now
            key = (now["tenant"], now["task"], now["key"])
            holder = self._held.setdefault(key, change.id)
            until, before = self._held_on.pop(key, (0, 0))
            if holder != change.id:
                what = f"job {change.id} has key {now['key']!r}, which job {holder} holds"
                self.violated(what, change.at, job=change.id)
            elif change.at < until:
                left = (until - change.at) / SECOND
                what = f"job {change.id} has key {now['key']!r}, which job {before} was to hold for"
                self.violated(f"{what} {left:.3f} s more", change.at, job=change.id)
        elif change.op == "D":
            job = self.world.jobs.get(change.id)
            if job is not None and job.key is not None:
                key = (job.tenant, job.task, job.key)
                if self._held.get(key) == job.id:
                    del self._held[key]

    def on_attempt(self, change: Change) -> None:
        job = self.world.jobs.get(change.id)
        if job is None or job.key is None or not job.held or change.op != "I":
            return
        if change.now["next"] == "succeeded":
            until = change.now["finished"] + job.held - SETTLES_FOR
            self._held_on[job.tenant, job.task, job.key] = (until, job.id)


@dataclass(slots=True)
class _Held:
    """A place that a claim took."""

    job: int
    fence: int
    at: int
    limit: str
    most: int
    put_back: bool = False  # without an attempt
    given_up: bool = False  # by an attempt that nobody says to have made


class LimitsKept(Invariant):
    """No more jobs of a task, or of a limit key, run at once than their max_running.

    By what the task has declared: whoever made the job may not have known. Such a job is claimed
    past the limit, and does not run: it is put back without an attempt, or, if that fails or
    somebody wants it cancelled, given up unseen.
    """

    name = "limits-kept"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._moves: dict[Place, list[tuple[int, _Held]]] = defaultdict(list)  # +1 or -1, in order
        self._held: dict[int, list[tuple[Place, _Held]]] = {}  # by jobs that run
        self._let_go: dict[int, tuple[int, list[_Held]]] = {}  # by which transaction

    def on_job(self, change: Change) -> None:
        job = self.world.jobs.get(change.id)
        if job is None or change.op == "I":
            return
        if is_claim(change):
            self._claimed(job, change)
        elif change.was["by"] is not None and (change.op == "D" or change.now["by"] is None):
            held = self._held.pop(job.id, ())
            for place, each in held:
                self._moves[place].append((-1, each))
            if held and not job.limited:
                untried = change.op == "U" and change.now["attempt"] == change.was["attempt"] - 1
                for _, each in held:
                    each.put_back = untried
                self._let_go[job.id] = (change.tx, [each for _, each in held])

    def _claimed(self, job: Job, change: Change) -> None:
        taken = []
        for place, limit, most in places(job, self.world.tasks.get(job.task)):
            held = _Held(job.id, change.now["fence"], change.at, limit, most)
            taken.append((place, held))
            self._moves[place].append((1, held))
        if taken:
            self._held[job.id] = taken

    def on_attempt(self, change: Change) -> None:
        """What comes with an attempt is not put back."""
        tx, held = self._let_go.pop(change.id, (0, []))
        if tx == change.tx:
            for each in held:
                each.put_back = False
                each.given_up = change.now["outcome"] in ("released", "lost")

    def finish(self) -> None:
        for place, moves in self._moves.items():
            running = 0
            for step, held in moves:
                if held.put_back or (held.given_up and held.fence not in self.evidence.ran):
                    continue
                running += step
                self.checked += step > 0
                if step > 0 and running > held.most:
                    what = f"{running} of {place} ran at once, with {held.limit}={held.most}"
                    self.violated(what, held.at, job=held.job)


def places(job: Job, declared: dict[str, object] | None) -> list[tuple[Place, str, int]]:
    """What a job of this task takes up while it runs: which place, of which limit, of how many."""
    found: list[tuple[Place, str, object]] = []
    if declared is not None:
        found.append(((job.task,), "max_running", declared.get("max_running")))
        if job.limit_key:
            place = (job.task, job.tenant, job.limit_key)
            limit = "max_running_per_key"
            found.append((place, limit, declared.get(limit)))
    return [(place, limit, most) for place, limit, most in found if isinstance(most, int)]
