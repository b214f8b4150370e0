"""What clients and operators were told, against what is there."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable

from sexton.torture.check.edits import differs, fires_as_told
from sexton.torture.check.enqueued import AsAsked
from sexton.torture.check.evidence import UNSEEN, Evidence
from sexton.torture.check.folder import Ask, Change, Line
from sexton.torture.check.guards import CLOCKS
from sexton.torture.check.invariant import Invariant
from sexton.torture.check.repeats import ECHO, REUSE, Repeats
from sexton.torture.check.things import Schedule
from sexton.torture.check.told import AsTold
from sexton.torture.check.unasked import Unasked

_ENQUEUES = ("enqueue", "enqueue_many")
Jobs = dict[str | None, list[int]]  # by the id of their payload


class AcknowledgedSurvives(Invariant):
    """Every acknowledged enqueue and write survives as it was asked; what was refused never was."""

    name = "acknowledged-survives"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._apart = CLOCKS + evidence.folder.clocks.doubt
        self._as_asked = AsAsked(evidence)
        self._requests: dict[str, Counter[int]] = {"trigger": Counter(), "backfill": Counter()}
        self._as_told = AsTold(evidence, self._apart)
        self._unasked = Unasked(self._apart, self.world.almanac)
        self._repeats = Repeats()

    def on_job(self, change: Change) -> None:
        self._as_asked.see(change)
        if change.op == "U" and (names := change.now.get("rewritten")):
            what = f"job {change.id} was made with another {', '.join(names)} than it has now"
            self.violated(what, change.at, job=change.id)

    def on_schedule(self, change: Change) -> None:
        if change.op != "D":
            self._as_told.schedule(change)

    def on_fire(self, change: Change) -> None:
        if change.op == "I" and change.now["kind"] == "trigger":
            self._as_told.triggered[change.now["job"]] = change.id

    def on_backfill(self, change: Change) -> None:
        if change.op == "I":
            self._as_told.backfills[change.id] = change.now

    def on_effect(self, line: Line) -> None:
        job = self.world.jobs.get(line["job"])
        if job is None:
            return
        self.checked += 1
        if (wrong := self._as_asked.another(job, line)) is not None:
            self.violated(f"job {job.id} ran {wrong}", line["at"], job=job.id)

    def finish(self) -> None:
        by_payload: dict[str | None, list[int]] = defaultdict(list)
        for job in self.world.jobs.values():
            if job.schedule is None:
                by_payload[job.payload].append(job.id)
        by_name = {(each.tenant, each.name): each for each in self.world.schedules.values()}
        asked: Counter[str | None] = Counter()
        for ask in self.evidence.asks:
            if ask.verb in _ENQUEUES:
                self._enqueue(ask, by_payload, asked)
                continue
            schedule = by_name.get((self._tenant(ask), ask.subject))
            if ask.verb in (ECHO, REUSE):
                self._repeated(ask, by_payload, None if schedule is None else schedule.id)
                continue
            if schedule is not None:
                self._unasked.hear(ask, schedule)
                if ask.verb in self._requests:
                    self._requests[ask.verb][schedule.id] += ask.again is None
            if ask.answer is not None:
                self._written(ask, schedule)
        for payload, jobs in by_payload.items():
            self.checked += 1
            if len(jobs) > (most := asked[payload]):
                what = f"{payload!r} was asked for {most} times, and made jobs {jobs}"
                self.violated(what, self.world.jobs[jobs[-1]].created, job=jobs[-1])
        if (wrong := self._repeats.silent()) is not None:
            self.violated(wrong, self.world.ended)
        self._no_more_than_asked("trigger", self._as_told.triggered.values())
        rows = self._as_told.backfills.values()
        self._no_more_than_asked("backfill", [each["schedule"] for each in rows])
        registered = {self._registered(line) for line in self.evidence.folder.dump("population")}
        self._nothing_unasked(registered)
        self._stands_as_replayed()

    def _tenant(self, ask: Ask) -> int:
        return self.evidence.tenant_ids.get(ask.tenant, 0)

    # ── jobs ────────────────────────────────────────────────────────────────

    def _enqueue(self, ask: Ask, made: Jobs, asked: Counter[str | None]) -> None:
        wanted = {each["payload"]["id"]: each for each in ask.body.get("jobs", ())}
        for payload in wanted:
            # However often a request is sent through the API under one key, it is one request.
            if ask.via != "api" or ask.again is None:
                asked[payload] += 1
        if ask.answer is not None:
            self._told(ask, ask.answer.get("jobs") or [], wanted, made)
        elif ask.refused and ask.again is None and (ask.via != "python" or len(wanted) == 1):
            self.checked += 1
            for payload in wanted:
                self._refused(ask, payload, str(ask.error), made)
        elif not ask.refused:
            self._unanswered(ask, wanted, made)

    def _told(self, ask: Ask, answers: list[Line], wanted: dict[str, Line], made: Jobs) -> None:
        if [each["payload_id"] for each in answers] != [*wanted]:
            what = f"{len(wanted)} jobs were asked for, and {len(answers)} answers given, or others"
            self.violated(f"{what}: {[*wanted][:1]}", ask.answered_at or ask.at)
            return
        for each in answers:
            self.checked += 1
            if "id" in each:
                self._made(ask, each, wanted[each["payload_id"]])
            elif ask.again is None:
                self._refused(ask, each["payload_id"], str(each.get("error")), made)

    def _unanswered(self, ask: Ask, wanted: dict[str, Line], made: Jobs) -> None:
        """What nobody was told of may have been made all the same: then it is as it was asked."""
        for payload, each in wanted.items():
            for id in made.get(payload, ()):
                self.checked += 1
                if (wrong := self._as_asked.wrong(ask, self.world.jobs[id], each)) is not None:
                    what = f"job {id} was made for {payload!r}, of which nobody was told: {wrong}"
                    self.violated(what, self.world.jobs[id].created, job=id)

    def _refused(self, ask: Ask, payload: str, why: str, made: Jobs) -> None:
        for job in made.get(payload, ()):
            what = f"{payload!r} was refused ({why}), and yet there is job {job}"
            self.violated(what, ask.at, job=job)

    def _made(self, ask: Ask, answered: Line, wanted: Line) -> None:
        job, at = self.world.jobs.get(answered["id"]), ask.answered_at or ask.at
        what = f"{ask.via} was told of job {answered['id']} for {answered['payload_id']!r}"
        if job is None:
            self.violated(f"{what}: there is none", at, job=answered["id"])
        elif answered["duplicate"]:
            what = f"{answered['payload_id']!r} was a duplicate of job {job.id}, which has"
            if job.key != wanted.get("key") or not self._as_asked.is_of(job, wanted["task"]):
                self.violated(f"{what} another key", at, job=job.id)
            elif job.ended is not None and self._was_free(job.ended + job.held, ask.began):
                self.violated(f"{what} let go of its key before", at, job=job.id)
        elif job.payload != answered["payload_id"] or job.created > at + self._apart:
            self.violated(f"{what}, which it is not", at, job=job.id)
        elif (wrong := self._as_asked.wrong(ask, job, wanted)) is not None:
            self.violated(f"{what}: {wrong}", at, job=job.id)

    def _was_free(self, since: int, asked: int) -> bool:
        """Whether a key was nobody's any more when somebody asked for it.

        Whatever is done to PostgreSQL: of 130 that were told of a job that has ended since, nobody
        had asked after it had let go.
        """
        return since < asked - self._apart - UNSEEN

    def _repeated(self, ask: Ask, made: dict[str | None, list[int]], schedule: int | None) -> None:
        """Under a key that was used before."""
        self.checked += 1
        if (wrong := self._repeats.wrong(ask)) is not None:
            what = f"{ask.verb} of {ask.body['what']} for {ask.tenant!r}: {wrong}"
            self.violated(what, ask.answered_at or ask.at, schedule=schedule)
        if ask.verb == REUSE and ask.again is None:
            for each in ask.body.get("jobs", ()):
                self._refused(ask, each["payload"]["id"], "its key was used", made)

    def _settled(self, ask: Ask) -> str | None:
        outcome = ask.body.get("outcome") or {"succeed": "succeeded", "fail": "failed"}[ask.verb]
        job = self.world.jobs.get(ask.subject)
        found = [] if job is None else [(each.fence, each.outcome) for each in job.settled]
        wanted = (ask.body["fence"], outcome)
        return None if wanted in found else f"its claim {wanted[0]} was not settled as {outcome}"

    def _cancelled(self, ask: Ask) -> str | None:
        job, answer = self.world.jobs.get(ask.subject), ask.answer or {}
        if job is None:
            return "there is no such job"
        if answer.get("ended") is True and job.state != "cancelled":
            return f"the job is {job.state}"
        over = job.ended is not None and job.ended <= (ask.answered_at or 0) + self._apart
        # Who lives again after a redrive was over when it was asked about.
        if not over and job.asked_to_end is None and not job.redriven:
            return "nobody asked its worker to stop"
        return None

    def _redriven(self, ask: Ask) -> str | None:
        first, last = ask.meanwhile(self._apart)
        for each in (ask.answer or {}).get("jobs", ()):
            job = self.world.jobs.get(each["id"])
            came_back = () if job is None else job.redriven
            if each["revived"] and not any(first <= at <= last for at in came_back):
                return f"job {each['id']} did not come back"
        return None

    def _no_more_than_asked(self, verb: str, done: Iterable[int]) -> None:
        """However often a request is sent under one key, it is done once."""
        for schedule, times in Counter(done).items():
            self.checked += 1
            if times > (asked := self._requests[verb][schedule]):
                what = f"{verb} was asked for {asked} times, and done {times} times"
                self.violated(what, self.world.ended, schedule=schedule)

    def _nothing_unasked(self, registered: Collection[int]) -> None:
        """No schedule changes but by a request of its own tenant that was not refused."""
        for schedule in self.world.schedules.values():
            self.checked += len(schedule.versions)
            for version, wish in self._unasked.of(schedule, registered=schedule.id in registered):
                wrong = f"nobody of its tenant asked for its version {version.n}: {wish}"
                self.violated(wrong, version.at, schedule=schedule.id)

    # ── schedules ───────────────────────────────────────────────────────────

    def _written(self, ask: Ask, schedule: Schedule | None) -> None:
        self.checked += 1
        wrong: str | None = None
        match ask.verb:
            case "succeed" | "fail" | "settle":
                wrong = self._settled(ask)
            case "cancel_job":
                wrong = self._cancelled(ask)
            case "redrive":
                wrong = self._redriven(ask)
            case verb if verb in self._as_told:
                if schedule is None:
                    wrong = "there is no such schedule"
                else:
                    wrong = self._as_told.wrong(ask, schedule)
            case _:
                self.checked -= 1
        if wrong is not None:
            what = f"{ask.verb} of {ask.subject!r} for {ask.tenant!r} was acknowledged: {wrong}"
            job = ask.subject if ask.verb in ("cancel_job", "succeed", "fail", "settle") else None
            at = ask.answered_at or ask.at
            self.violated(what, at, job=job, schedule=None if schedule is None else schedule.id)

    def _registered(self, line: Line) -> int:
        """Before anybody touched it, a schedule says what it was described to say."""
        self.checked += 1
        schedule = self.world.schedules.get(line["id"])
        if schedule is None or schedule.name != line["name"]:
            self.violated(f"schedule {line['name']!r} is not there", self.world.began)
        elif not fires_as_told(self.evidence, line, schedule, schedule.versions[0]):
            what = "it fires at other times than it was registered with"
            self.violated(what, schedule.versions[0].at, schedule=schedule.id)
        elif (wrong := differs(line.get("options") or {}, schedule.versions[0])) is not None:
            self.violated(wrong, schedule.versions[0].at, schedule=schedule.id)
        return int(line["id"])

    def _stands_as_replayed(self) -> None:
        """What was written is still written."""
        rows = {each["id"]: each for each in self.evidence.folder.dump("schedule")}
        for schedule in self.world.schedules.values():
            self.checked += 1
            row, version = rows.get(schedule.id), schedule.current
            if row is None or (row["version"], row["state"]) != (version.n, version.state):
                what = f"its version {version.n} was {version.state}, and is not there any more"
                self.violated(what, version.at, schedule=schedule.id)
