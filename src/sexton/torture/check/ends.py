"""Ends that nobody wanted: no job dies before its time, and none is cancelled for nothing."""

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Change
from sexton.torture.check.guards import (
    CLOCKS,
    DELIVERED,
    TOO_OLD,
    UNDER_WAY,
    UNDER_WAY_IN_TROUBLE,
)
from sexton.torture.check.invariant import Invariant, is_claim
from sexton.torture.check.things import Job

# Who says that trying again cannot help, and is believed: this task, and what an endpoint answers.
REFUSES = ("permanent", DELIVERED)
# An age is over when the next attempt would come after it; it is compared with a clock that was
# read a moment before.
READ_WITHIN = 3 * SECOND
# For so long a task puts itself off, at most; who is left alone with its host, for any time.
LONGEST_REST, _ANY = SECOND, 1 << 62


class EndsHaveReasons(Invariant):
    """No job dies with attempts and time left, nor runs without; none is cancelled for nothing."""

    name = "ends-have-reasons"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._replaced: set[int] = set()  # jobs whose place a newer one was to take
        self._cancelled: list[tuple[int, int]] = []  # jobs, and when
        self._expired: list[tuple[int, int, int, int]] = []  # jobs, until when, which try, and when
        self._too_late: list[tuple[int, int, int]] = []  # jobs, fences, and by how much

    def on_dead(self, change: Change) -> None:
        job, now = self.world.jobs.get(change.id), change.now
        budget = None if job is None else self.evidence.budget(job.task)
        if change.op != "I" or job is None or budget is None:
            return
        self.checked += 1
        tries, wrong = now["attempt"] - now["before"], None
        match now["reason"]:
            case "exhausted":
                if tries < budget.max_attempts:
                    wrong = f"was exhausted by {tries} attempts of {budget.max_attempts}"
            case "expired":
                if job.expires is None:
                    wrong = "had expired, it says, and never does"
                else:
                    self._expired.append((job.id, job.expires, tries, change.at))
            case reason:
                if not job.task.startswith(REFUSES):
                    wrong = f"died of being {reason}, which its task never is"
        if wrong is not None:
            self.violated(f"job {job.id} {wrong}", change.at, job=job.id)

    def on_fire(self, change: Change) -> None:
        schedule, now = self.world.schedules.get(change.id), change.now
        if schedule is None or change.op == "D" or now["decision"] != "fired":
            return
        if self.evidence.policy(schedule.current).overlap == "replace":
            self._replaced.update(schedule.live)

    def on_job(self, change: Change) -> None:
        job = self.world.jobs.get(change.id)
        if job is None or job.expires is None or not is_claim(change):
            return
        self.checked += 1
        late = change.at - job.expires
        troubled = self.evidence.all_in_trouble(job.expires, change.at)
        if late > (UNDER_WAY_IN_TROUBLE if troubled else UNDER_WAY):
            self._too_late.append((job.id, change.now["fence"], late))

    def on_attempt(self, change: Change) -> None:
        job, now = self.world.jobs.get(change.id), change.now
        if change.op != "I" or job is None:
            return
        if now["next"] == "cancelled":
            self._cancelled.append((change.id, change.at))
        if (now["error"] or "").startswith(TOO_OLD):
            self.checked += 1
            if job.expires is None or not job.claims or job.expires > job.claims[-1].at:
                what = f"job {job.id} was too old to be started, it says, and was not"
                self.violated(what, change.at, job=job.id)

    def finish(self) -> None:
        for id, fence, late in self._too_late:
            ran = self.evidence.ran.get(fence)
            if ran is not None and ran.begin is not None:
                what = f"job {id} was claimed {late / SECOND:.1f} s after it had expired, and run"
                self.violated(what, ran.begin, job=id)
        for id, expires, tries, at in self._expired:
            if at + self._longest_rest(self.world.jobs[id], tries, at) < expires:
                left = (expires - at) / SECOND
                what = f"job {id} had expired, it says, and had {left:.1f} s left"
                self.violated(what, at, job=id)
        asked = self._asked()
        for job, at in self._cancelled:
            self.checked += 1
            if asked.get(job, at + 1) > at and job not in self._replaced:
                self.violated(f"job {job} was cancelled, and nobody asked for that", at, job=job)

    def _longest_rest(self, job: Job, tries: int, at: int) -> int:
        """How long the next attempt of one that died could have been away."""
        last = min(job.settled, key=lambda each: abs(each.at - at), default=None)
        if last is not None and last.outcome == "snoozed":
            return _ANY if job.task.startswith(DELIVERED) else LONGEST_REST + READ_WITHIN
        budget = self.evidence.budget(job.task)
        delay = 0.0 if budget is None else budget.longest_delay(tries)
        return round(delay * SECOND) + READ_WITHIN

    def _asked(self) -> dict[int, int]:
        """Since when somebody of its tenant wants a job to end, and was not refused."""
        apart = CLOCKS + self.evidence.folder.clocks.doubt
        asked: dict[int, int] = {}
        for ask in self.evidence.asks:
            job = self.world.jobs.get(ask.subject) if ask.verb == "cancel_job" else None
            if job is None or ask.refused or self.evidence.tenants.get(job.tenant) != ask.tenant:
                continue
            asked[job.id] = min(ask.began - apart, asked.get(job.id, ask.began))
        return asked
