"""Policies: a reason for not firing is a true one, and as many jobs live as the schedule allows."""

from collections import defaultdict, deque

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Change
from sexton.torture.check.invariant import Invariant, is_claim
from sexton.torture.check.things import Schedule

# Up to so much is an ordinary delay.
LATE_AFTER = 10 * SECOND
# What a statement saw may be over when it writes, and what was written may not be seen for a while:
# a commit waits for the standby.
SAW = 30 * SECOND


class ReasonsHold(Invariant):
    """Every reason that is recorded for not firing is a true one."""

    name = "reasons-hold"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._ended: dict[int, deque[int]] = defaultdict(deque)  # when jobs of a schedule did
        self._over_until: dict[int, int | None] = {}  # tenants that are over their quota, or were

    def on_tenant(self, change: Change) -> None:
        if change.op == "U":
            if change.now["over_quota"]:
                self._over_until[change.id] = None
            elif self._over_until.get(change.id, 0) is None:
                self._over_until[change.id] = change.at

    def on_job(self, change: Change) -> None:
        job = self.world.jobs.get(change.id)
        if change.op != "D" or job is None or job.schedule is None:
            return
        if self.world.kinds.get(job.id) != "backfill":
            ended = self._ended[job.schedule]
            ended.append(change.at)
            while ended[0] < change.at - SAW:
                ended.popleft()

    def on_due(self, change: Change) -> None:
        if change.op != "U" or change.was["late"] or not change.now["late"]:
            return
        self.checked += 1
        was_due = change.was["next"]
        if was_due is None or was_due > change.at - LATE_AFTER:
            self._say("it was taken for late, and was not late by more than ten seconds", change)

    def on_fire(self, change: Change) -> None:
        schedule, now = self.world.schedules.get(change.id), change.now
        if schedule is None or change.op == "D" or now["kind"] in ("trigger", "backfill"):
            return
        if now["kind"] == "catch_up" and not schedule.was_late:
            self._say("it was caught up without having been late", change)
        match now["decision"]:
            case "fired":
                return
            case "overlap":
                self._overlaps(schedule, change)
            case "quota":
                self._quota(schedule, change)
            case _:
                self._passed(schedule, change, now["scheduled"])
        self.checked += 1

    def on_gap(self, change: Change) -> None:
        schedule = self.world.schedules.get(change.id)
        if schedule is not None and change.op == "I" and change.now["decision"] != "excluded":
            self.checked += 1
            self._passed(schedule, change, change.now["last"])

    def _passed(self, schedule: Schedule, change: Change, last: int) -> None:
        """Fires that were passed over, up to an instant."""
        current, decision = schedule.current, change.now["decision"]
        anew = current.tx == change.tx
        before = schedule.versions[-2].state if len(schedule.versions) > 1 else "active"
        match decision:
            case "paused":
                if not anew or "paused" not in (current.state, before):
                    self._say("it was recorded as paused, and was not", change)
            case "superseded":
                if not anew or before == "paused":
                    self._say("it was recorded as superseded, and nothing took its place", change)
            case _ if anew and current.state == "quarantined":
                if self.evidence.rule(schedule, schedule.versions[-2]) is not None:
                    self._say(f"it was quarantined for no reason: {current.reason}", change)
            case "missed" | "coalesced":
                policy = self.evidence.policy(current)
                in_time = last > change.now["decided"] - policy.grace
                if schedule.moved_tx != change.tx or not schedule.was_late:
                    self._say(f"it was recorded as {decision}, and was not late", change)
                elif decision == "coalesced" and policy.misfire != "latest":
                    self._say(f"it was coalesced, with misfire={policy.misfire}", change)
                elif decision == "missed" and policy.misfire != "skip" and in_time:
                    self._say(f"it was missed within its grace, {policy.misfire}", change)

    def _overlaps(self, schedule: Schedule, change: Change) -> None:
        most = self.evidence.policy(schedule.current).most_live
        kinds = self.world.kinds
        lives = sum(kinds.get(id) != "backfill" for id in schedule.live)
        lived = sum(at >= change.at - SAW for at in self._ended.get(schedule.id, ()))
        if most is None or lives + lived < most:
            self._say(f"an overlap was recorded while {lives} jobs of it lived", change)

    def _quota(self, schedule: Schedule, change: Change) -> None:
        over_until = self._over_until.get(schedule.tenant, 0)
        if over_until is not None and over_until < change.at - SAW:
            self._say("its tenant was not over its quota", change)

    def _say(self, what: str, change: Change) -> None:
        self.violated(what, change.at, schedule=change.id)


class OverlapPolicy(Invariant):
    """No more jobs of a schedule live than it allows, and who is to wait for another does."""

    name = "overlap-policy"

    def on_fire(self, change: Change) -> None:
        schedule, now = self.world.schedules.get(change.id), change.now
        if schedule is None or change.op != "I" or now["decision"] != "fired":
            return
        if now["kind"] not in ("due", "catch_up"):
            return
        self.checked += 1
        policy = self.evidence.policy(schedule.current)
        if policy.most_live is None:
            return
        # Those of an earlier version may not be known any more, nor those that were redriven.
        lives = [
            job.id
            for job in schedule.live.values()
            if job.id != now["job"]
            and job.version == schedule.current.n
            and not job.redriven
            and self.world.kinds.get(job.id) != "backfill"
        ]
        if len(lives) >= policy.most_live:
            what = f"it was fired while {len(lives)} of its jobs lived, overlap={policy.overlap}"
            self.violated(what, change.at, job=now["job"], schedule=change.id)

    def on_job(self, change: Change) -> None:
        job = self.world.jobs.get(change.id)
        if job is None or job.first_after is None or not is_claim(change):
            return
        self.checked += 1
        before = self.world.jobs.get(job.first_after)
        if job.after is not None or (before is not None and before.live and not before.redriven):
            what = (
                f"job {job.id} was claimed while job {job.first_after}, for which it waits, lives"
            )
            self.violated(what, change.at, job=job.id, schedule=job.schedule)
