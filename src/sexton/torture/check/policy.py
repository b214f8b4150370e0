"""Policies: a reason for not firing is a true one, and as many jobs live as the schedule allows."""

from collections import defaultdict, deque

from sexton.torture.check.evidence import UNSEEN_IN_TROUBLE, Evidence
from sexton.torture.check.folder import SECOND, Change
from sexton.torture.check.invariant import Invariant, is_claim
from sexton.torture.check.passed import DECIDES_WITHIN, Passages, is_latest
from sexton.torture.check.quotas import Quotas
from sexton.torture.check.replaced import Fire, Replacements
from sexton.torture.check.silence import Silences
from sexton.torture.check.things import Job, Schedule

# Up to so much is an ordinary delay. What is read just before that is fired a moment later: of
# 300,000 due fires the last came after 11.5 s.
LATE_AFTER = 10 * SECOND
DUE_WITHIN = LATE_AFTER + 5 * SECOND
# An end that is not seen yet excuses few overlaps: of those that rest on it alone there may be so
# many, of all of them. In three runs there were 3 of 169, 3 of 208 and 2 of 64.
ON_FAITH, FEWEST = 0.05, 10

End = tuple[int, int]  # when a job was deleted, and its fence


class ReasonsHold(Invariant):
    """Every reason that is recorded for not firing is a true one."""

    name = "reasons-hold"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._ended: dict[int, deque[End]] = defaultdict(deque)  # jobs, by schedule
        self._unsure: list[tuple[Change, int, list[int]]] = []  # of these fences so many must live
        self._quotas = Quotas(evidence)
        self._passages = Passages(evidence)
        self._silences = Silences(evidence)
        self._overlapped = self._on_faith = 0

    def on_tenant(self, change: Change) -> None:
        if (wrong := self._quotas.tenant(change)) is not None:
            self.violated(wrong, change.at)

    def on_job(self, change: Change) -> None:
        job = self.world.jobs.get(change.id)
        if change.op == "I":
            self._quotas.job(change, change.now["tenant"])
        if change.op != "D" or job is None:
            return
        self._quotas.job(change, job.tenant)
        if job.schedule is None:
            return
        if self.world.kinds.get(job.id) != "backfill":
            ended = self._ended[job.schedule]
            ended.append((change.at, change.was["fence"]))
            while ended[0][0] < change.at - UNSEEN_IN_TROUBLE:
                ended.popleft()

    def on_due(self, change: Change) -> None:
        if change.op != "U":
            return
        was_due = change.was["next"]
        if change.now["late"] and not change.was["late"]:
            self.checked += 1
            if was_due is None or was_due > change.at - LATE_AFTER:
                what = "it was taken for late, and was not late by more than ten seconds"
                self._say(what, change)
                return
        if (wrong := self._silences.broken_by(change)) is not None:
            self._say(wrong, change)

    def on_schedule(self, change: Change) -> None:
        schedule = self.world.schedules.get(change.id)
        if schedule is None or change.op != "U" or change.now["state"] != "quarantined":
            return
        self.checked += 1
        current = schedule.current
        if current.state != "quarantined" and self.evidence.rule(schedule, current) is not None:
            self._say(f"it was quarantined for no reason: {change.now['reason']}", change)

    def on_fire(self, change: Change) -> None:
        if change.op == "D":
            return
        for wrong in self._quotas.fires(change.at):
            self.violated(wrong, change.at)
        schedule, now = self.world.schedules.get(change.id), change.now
        if schedule is None or now["kind"] == "trigger":
            return
        self._passages.fired(change)
        if now["kind"] == "backfill":
            return
        self.checked += 1
        match now["decision"]:
            case "fired":
                self._in_time(schedule, change)
                if self._quotas.is_over(schedule.tenant, now["began"]):
                    self._say("its tenant was over its quota", change)
            case "overlap":
                self._in_time(schedule, change)
                self._overlaps(schedule, change)
            case "quota":
                self._in_time(schedule, change)
                if not self._quotas.may_be_over(schedule.tenant, change.at):
                    self._say("its tenant was not over its quota", change)
            case _:
                self._passed(schedule, change, now["scheduled"])

    def on_gap(self, change: Change) -> None:
        schedule = self.world.schedules.get(change.id)
        if schedule is None or change.op != "I":
            return
        self.checked += 1
        if change.now["decision"] != "excluded":
            self._passed(schedule, change, change.now["last"])
            return
        # Whoever changes a schedule says it of what it was, up to then, and of what it is now.
        versions = (
            schedule.versions[-2:] if schedule.current.tx == change.tx else [schedule.current]
        )
        if self._passages.not_excluded(schedule, versions, change):
            self._say("what was recorded as excluded is not what its calendars take out", change)

    def finish(self) -> None:
        self.checked += self._silences.many + self._quotas.many
        for change, wanted, fences in self._unsure:
            # Who settles in a transaction of its own speaks once more after its commit.
            ran = [self.evidence.ran[fence] for fence in fences if fence in self.evidence.ran]
            if sum(each.last >= change.at for each in ran) < wanted:
                self._say("an overlap was recorded, and its jobs were over", change)
        if self._on_faith > max(FEWEST, ON_FAITH * self._overlapped):
            what = f"of {self._overlapped} overlaps {self._on_faith} were with jobs that had ended"
            self.violated(what, self.world.ended)
        for change in self._passages.into_nothing():
            self._say("it was coalesced, and not into the fire after it", change)

    def _in_time(self, schedule: Schedule, change: Change) -> None:
        """What is due comes in time; what is late is what its policy makes of it."""
        now, policy = change.now, self.evidence.policy(schedule.current)
        late = change.at - now["fire_at"]
        if now["kind"] == "due":
            if late > DUE_WITHIN:
                what = f"it is called due, and came {late / SECOND:.1f} s after its instant"
                self._say(what, change)
            return
        rule = self.evidence.rule(schedule, schedule.current)
        if not schedule.was_late:
            self._say("it was caught up without having been late", change)
        elif policy.misfire == "skip":
            self._say("it was caught up, with misfire=skip", change)
        elif late > policy.grace + DECIDES_WITHIN:
            self._say("it was caught up after its grace", change)
        elif policy.misfire == "latest" and rule and not is_latest(rule, schedule.id, change):
            self._say("it was caught up for all, and is not the latest", change)

    def _passed(self, schedule: Schedule, change: Change, last: int) -> None:
        """Fires that were passed over, up to an instant."""
        current, decision = schedule.current, change.now["decision"]
        anew = current.tx == change.tx
        whose = schedule.versions[-2] if anew and len(schedule.versions) > 1 else current
        before = schedule.versions[-2].state if len(schedule.versions) > 1 else "active"
        if anew and current.state == "quarantined" and decision == "missed":
            # It cannot be computed, so nobody can say which instants these are.
            if self.evidence.rule(schedule, whose) is not None:
                self._say(f"it was quarantined for no reason: {current.reason}", change)
            return
        if (wrong := self._passages.wrong(schedule, whose, change)) is not None:
            self._say(f"what was recorded as {decision} {wrong}", change)
        match decision:
            case "paused":
                if not anew or "paused" not in (current.state, before):
                    self._say("it was recorded as paused, and was not", change)
            case "superseded":
                if not anew or before == "paused":
                    self._say("it was recorded as superseded, and nothing took its place", change)
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
        if most is None:
            self._say("an overlap was recorded, and none is too many", change)
            return
        kinds = self.world.kinds
        lives = sum(kinds.get(id) != "backfill" for id in schedule.live)
        wanted, perhaps = most - lives, []
        self._overlapped += 1
        self._on_faith += wanted > 0
        for at, fence in self._ended.get(schedule.id, ()):
            if self.evidence.may_be_unseen(at, change.at):
                wanted -= 1
            elif at >= change.at - UNSEEN_IN_TROUBLE:
                perhaps.append(fence)
        if wanted > len(perhaps):
            self._say(f"an overlap was recorded while {lives} jobs of it lived", change)
        elif wanted > 0:
            self._unsure.append((change, wanted, perhaps))

    def _say(self, what: str, change: Change) -> None:
        self.violated(what, change.at, schedule=change.id)


class OverlapPolicy(Invariant):
    """No more jobs of a schedule live than it allows, and who is to wait for another does."""

    name = "overlap-policy"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._last: dict[int, int] = {}  # job of a schedule, but for backfills
        self._one_before: dict[int, int] = {}  # of a job, the last that was made before it
        self._replacements = Replacements(evidence)

    def on_fire(self, change: Change) -> None:
        schedule, now = self.world.schedules.get(change.id), change.now
        if schedule is None or change.op != "I" or now["decision"] != "fired":
            return
        if now["kind"] == "backfill":
            return
        if (before := self._last.get(schedule.id)) is not None:
            self._one_before[now["job"]] = before
        self._last[schedule.id] = now["job"]
        if now["kind"] == "trigger":
            return
        self.checked += 1
        policy, n = self.evidence.policy(schedule.current), schedule.current.n
        lives = self._before(schedule, now["job"], n)
        if policy.most_live is not None and len(lives) >= policy.most_live:
            what = f"it was fired while {len(lives)} of its jobs lived, overlap={policy.overlap}"
            self.violated(what, change.at, job=now["job"], schedule=change.id)
        if policy.overlap == "replace":
            self.checked += len(lives)
            self._replacements.begin(lives, change)

    def on_job(self, change: Change) -> None:
        job = self.world.jobs.get(change.id)
        if job is None or job.schedule is None:
            return
        for fire in self._replacements.end(change):
            self._not_asked(job.id, fire)
        if not is_claim(change):
            return
        if job.first_after is not None:
            self.checked += 1
            before = self.world.jobs.get(job.first_after)
            if job.after is not None or (
                before is not None and before.live and not before.redriven
            ):
                self._claimed_while(job, job.first_after, change)
                return
        self._in_turn(job, change)

    def finish(self) -> None:
        for job, fire in self._replacements.left():
            self._not_asked(job, fire)

    def _in_turn(self, job: Job, change: Change) -> None:
        """Whose policy is to wait does so for all before it, whomever it was told to wait for."""
        schedule = self.world.schedules.get(job.schedule or 0)
        if schedule is None or job.version is None or job.redriven:
            return
        if self.world.kinds.get(job.id) not in ("due", "catch_up"):
            return
        if self.evidence.policy(schedule.version(job.version)).serial:
            self.checked += 1
            for before in self._before(schedule, job.id, job.version)[:1]:
                self._claimed_while(job, before.id, change)

    def _before(self, schedule: Schedule, job: int, version: int) -> list[Job]:
        """Jobs before one that live, and of which its fire knew.

        Nobody waits for a backfill. Who was dead when others were fired, and is redriven, is not
        known to them. A version that looks at no job forgets all but the last.
        """
        return [
            each
            for each in schedule.live.values()
            if each.id < job
            and not each.redriven
            and self.world.kinds.get(each.id) != "backfill"
            and (self._one_before.get(job) == each.id or self._looked(schedule, each, version))
        ]

    def _looked(self, schedule: Schedule, job: Job, until: int) -> bool:
        first = until if job.version is None else job.version
        return all(self.evidence.policy(schedule.version(n)).looks for n in range(first, until + 1))

    def _not_asked(self, job: int, fire: Fire) -> None:
        what = f"job {job} was replaced, and was not asked to end in time"
        self.violated(what, fire.at, job=job, schedule=fire.schedule)

    def _claimed_while(self, job: Job, other: int, change: Change) -> None:
        what = f"job {job.id} was claimed while job {other}, for which it waits, lives"
        self.violated(what, change.at, job=job.id, schedule=job.schedule)
