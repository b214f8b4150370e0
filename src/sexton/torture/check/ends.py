"""Ends that nobody wanted: no job dies before its time, and none is cancelled for nothing."""

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Change
from sexton.torture.check.guards import CLOCKS, DELIVERED
from sexton.torture.check.invariant import Invariant

# Who says that trying again cannot help, and is believed: this task, and what an endpoint answers.
REFUSES = ("permanent", DELIVERED)
# An age is over when the next attempt would come after it; it is compared with a clock that was
# read a moment before.
READ_WITHIN = 30


class EndsHaveReasons(Invariant):
    """No job dies with attempts and time left, and none is cancelled that nobody asked to end."""

    name = "ends-have-reasons"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._replaced: set[int] = set()  # jobs whose place a newer one was to take
        self._cancelled: list[tuple[int, int]] = []  # jobs, and when

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
                longest = round((budget.cap + READ_WITHIN) * SECOND)
                if job.expires is None or job.expires > change.at + longest:
                    wrong = "had expired, it says, and had not"
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

    def on_attempt(self, change: Change) -> None:
        if change.op == "I" and change.now["next"] == "cancelled":
            self._cancelled.append((change.id, change.at))

    def finish(self) -> None:
        asked = self._asked()
        for job, at in self._cancelled:
            self.checked += 1
            if asked.get(job, at + 1) > at and job not in self._replaced:
                self.violated(f"job {job} was cancelled, and nobody asked for that", at, job=job)

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
