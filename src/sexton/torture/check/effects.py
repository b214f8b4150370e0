"""What tasks did outside the database, and in it: apart in time, under one key, and once."""

from collections import Counter

from sexton.torture.check.evidence import Evidence, Ran
from sexton.torture.check.folder import SECOND, Line
from sexton.torture.check.guards import CLOCKS, DELIVERED, SETTLES_ITSELF
from sexton.torture.check.invariant import Invariant
from sexton.torture.check.things import Job, Settled
from sexton.torture.check.ways import Ways

# A worker that leaves releases what does not react, and is gone soon after that.
LEAVES_WITHIN = 15 * SECOND
# A delivery is sent once more, and no more, if its connection breaks at once: the endpoint may have
# heard it all the same. Nothing breaks connections but what the rig does to the ways of HTTP: of
# 15,000 deliveries in a run none came twice.
SENT_AGAIN = 2


class EffectsApart(Invariant):
    """A claim is run once; effects of one job overlap only where a lease ran out or was let go.

    By a worker that left, that is. Deliveries overlap as they like: who has asked an endpoint knows
    nothing of what it still does. They are made once too, but where their connection was cut.
    """

    name = "effects-apart"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._ways = Ways(evidence)

    def finish(self) -> None:
        for fence, ran in self.evidence.ran.items():
            self.checked += 1
            if ran.begins > 1 and not self._sent_again(ran):
                what = f"fence {fence} of job {ran.job} was run {ran.begins} times"
                self.violated(what, ran.last, job=ran.job)
        for job in self.world.jobs.values():
            if len(job.claims) > 1 and not job.task.startswith(DELIVERED):
                self._look_at(job)

    def _sent_again(self, ran: Ran) -> bool:
        """Whether it is a delivery whose connection may have broken."""
        job, at = self.world.jobs.get(ran.job), ran.begin or 0
        return (
            job is not None
            and job.task.startswith(DELIVERED)
            and ran.begins <= SENT_AGAIN
            and self._ways.broke(at)
        )

    def _look_at(self, job: Job) -> None:
        ran = self.evidence.ran
        apart = CLOCKS + self.evidence.folder.clocks.doubt
        settled = {each.fence: each for each in job.settled if each.worker is not None}
        before: list[tuple[int, int]] = []  # fences, and until when each was seen at work
        for claim in job.claims:
            now = ran.get(claim.fence)
            if now is None or now.begin is None:
                continue
            for fence, last in before:
                self.checked += 1
                if now.begin < last - apart and not self._may(settled.get(fence), last):
                    what = f"attempt {claim.attempt} of job {job.id} began while fence {fence} was"
                    self.violated(
                        f"{what} still at work, and its lease held", now.begin, job=job.id
                    )
            before.append((claim.fence, now.last))

    def _may(self, settled: Settled | None, last: int) -> bool:
        if settled is None or settled.outcome == "lost":
            return settled is not None
        worker = self.world.workers.get(settled.worker or 0)
        return (
            settled.outcome == "released"
            and worker is not None
            and worker.gone is not None
            and abs(worker.gone - settled.at) < LEAVES_WITHIN
            and last - settled.at < LEAVES_WITHIN
        )


class IdempotencyKey(Invariant):
    """The idempotency key is the same over all attempts of a job, and no other job's."""

    name = "idempotency-key"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._keys: dict[int, str] = {}
        self._jobs: dict[str, int] = {}

    def on_effect(self, line: Line) -> None:
        self.checked += 1
        job, key = line["job"], line["idempotency_key"]
        headers = line.get("headers") or {}
        if self._keys.setdefault(job, key) != key or not key:
            what = f"job {job} ran under the keys {self._keys[job]} and {key}"
            self.violated(what, line["at"], job=job)
        elif self._jobs.setdefault(key, job) != job:
            what = f"jobs {self._jobs[key]} and {job} ran under one key"
            self.violated(what, line["at"], job=job)
        elif headers and headers.get("webhook-id") != key:
            self.violated(f"job {job} was delivered under two keys", line["at"], job=job)


class EffectsOnce(Invariant):
    """Effects in the transaction that settles a job happen exactly once, under its fence."""

    name = "effects-once"

    def finish(self) -> None:
        rows = [*self.evidence.folder.dump("effect")]
        many = Counter(each["job"] for each in rows)
        for each in rows:
            self.checked += 1
            job = self.world.jobs.get(each["job"])
            settled = () if job is None else [(one.fence, one.outcome) for one in job.settled]
            if (each["fence"], "succeeded") not in settled:
                what = f"job {each['job']} had an effect with fence {each['fence']}, which did not"
                self.violated(f"{what} settle it", each["at"], job=each["job"])
            elif many[each["job"]] > 1:
                what = f"job {each['job']} had its effect {many[each['job']]} times"
                self.violated(what, each["at"], job=each["job"])
        for job in self.world.jobs.values():
            if job.task == SETTLES_ITSELF and job.state == "succeeded" and not many[job.id]:
                what = f"job {job.id} succeeded, and its effect is not there"
                self.violated(what, job.ended or job.created, job=job.id)
