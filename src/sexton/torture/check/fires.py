"""Fires: one job each, none early, none by a rule that does not hold any more."""

from sexton.torture.check.evidence import UNSEEN_IN_TROUBLE, Evidence
from sexton.torture.check.folder import SECOND, Ask, Change, Line
from sexton.torture.check.guards import CLOCKS
from sexton.torture.check.invariant import Invariant, is_claim
from sexton.torture.check.made import Made
from sexton.torture.check.things import Schedule, Version

Fire = tuple[int, int, int]  # transaction, schedule, fire_at
Said = tuple[int, int]  # a schedule, and which of its versions
# A statement reads the clock when it begins, and may wait for a lock before it writes.
WRITTEN_WITHIN = 30 * SECOND


class OneJobPerFire(Invariant):
    """At most one job per fire, made in the transaction that records it and moves on."""

    name = "one-job-per-fire"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        # Also by what was fired before the run, whether the ledger remembers it or not.
        self._first: dict[tuple[int, int], int] = {
            (each["schedule"], each["fire_at"]): each["job"]
            for each in evidence.folder.dump("ledger")
        }
        self._recorded: dict[int, Fire] = {}  # jobs that the ledger names, until they are made
        self._made: dict[int, Fire] = {}  # jobs of fires, until the ledger names them
        self._moves: dict[tuple[int, int], int] = {}  # fires whose schedule has not moved
        self._ledger: dict[tuple[int, int], int] = {}  # jobs of fires, as they were recorded
        self._triggers: set[tuple[int, int]] = set()

    def on_job(self, change: Change) -> None:
        now = change.now
        if change.op != "I" or now["schedule"] is None or change.id in self.world.jobs:
            return
        fire = (now["schedule"], now["fire_at"])
        first = self._first.setdefault(fire, change.id)
        if first != change.id:
            what = f"job {change.id} was made for a fire that had job {first} already"
            self.violated(what, change.at, job=change.id, schedule=fire[0])
        elif self._recorded.pop(change.id, None) != (change.tx, *fire):
            self._made[change.id] = (change.tx, *fire)

    def on_fire(self, change: Change) -> None:
        now = change.now
        if change.op == "D" or now["decision"] != "fired":
            return
        self.checked += 1
        self._ledger[change.id, now["fire_at"]] = now["job"]
        if now["kind"] == "trigger":
            self._triggers.add((change.id, now["fire_at"]))
        fire = (change.tx, change.id, now["fire_at"])
        if self._made.pop(now["job"], None) != fire:
            self._recorded[now["job"]] = fire
        schedule = self.world.schedules.get(change.id)
        at_its_time = now["kind"] in ("due", "catch_up")
        if at_its_time and schedule is not None and schedule.moved_tx != change.tx:
            self._moves[change.id, change.tx] = change.at

    def on_due(self, change: Change) -> None:
        if change.op == "U" and change.was["next"] != change.now["next"]:
            self._moves.pop((change.id, change.tx), None)

    def on_effect(self, line: Line) -> None:
        job = self.world.jobs.get(line["job"])
        if job is not None and line["fire_at"] is not None and line["fire_at"] != job.fire_at:
            what = f"job {job.id} was told that it is of another fire than its own"
            self.violated(what, line["at"], job=job.id)

    def finish(self) -> None:
        for job, (_, schedule, fire_at) in self._recorded.items():
            what = f"the ledger says that job {job} was fired; its transaction made no such job"
            self.violated(what, fire_at, job=job, schedule=schedule)
        for job, (_, schedule, fire_at) in self._made.items():
            what = f"job {job} was made for a fire that its transaction did not record as fired"
            self.violated(what, fire_at, job=job, schedule=schedule)
        for (schedule, tx), at in self._moves.items():
            what = f"transaction {tx} fired and did not move the schedule on"
            self.violated(what, at, schedule=schedule)
        self._stands_as_replayed()

    def _stands_as_replayed(self) -> None:
        """What the ledger said of jobs it says at the end; that no trigger is missing is not asked
        elsewhere, as no rule has it."""
        rows = {
            (each["schedule"], each["fire_at"]): each.get("job")
            for each in self.evidence.folder.dump("fire")
        }
        for fire, job in self._ledger.items():
            self.checked += 1
            if fire not in rows and fire in self._triggers:
                what = f"the ledger does not know any more that job {job} was triggered"
                self.violated(what, fire[1], job=job, schedule=fire[0])
            elif rows.get(fire, job) != job:
                what = f"the ledger says job {rows[fire]}, and job {job} was recorded"
                self.violated(what, fire[1], job=job, schedule=fire[0])


class NoneEarly(Invariant):
    """None early by the database's clock: no fire and no claim; and no row tells another time."""

    name = "none-early"

    def on_fire(self, change: Change) -> None:
        now = change.now
        if change.op == "D":
            return
        self._by_the_clock("decided", now["decided"], change, schedule=change.id)
        if now["decision"] not in ("fired", "overlap", "quota"):
            return
        self.checked += 1
        if now["kind"] != "trigger" and min(change.at, now["decided"]) < now["fire_at"]:
            early = now["fire_at"] - min(change.at, now["decided"])
            self.violated(f"it was fired {early} µs early", change.at, schedule=change.id)

    def on_gap(self, change: Change) -> None:
        if change.op != "I":
            return
        schedule, decided = self.world.schedules.get(change.id), change.now["decided"]
        earliest = change.at - WRITTEN_WITHIN
        if schedule is not None and schedule.current.tx == change.tx:
            current = schedule.current
            if change.now["node"] is None and decided != current.since:
                what = f"it was decided at another instant than its version {current.n} begins"
                self.violated(what, change.at, schedule=change.id)
            earliest = min(earliest, _end_of_a_pause(schedule) or earliest)
        self._by_the_clock("decided", decided, change, earliest, schedule=change.id)

    def on_schedule(self, change: Change) -> None:
        schedule, now = self.world.schedules.get(change.id), change.now
        if change.op == "D" or (schedule is not None and schedule.current.n == now["version"]):
            return
        before = None if schedule is None else _end_of(schedule.current)
        earliest = before if before == now["since"] else None
        self._by_the_clock("begun", now["since"], change, earliest, schedule=change.id)

    def on_attempt(self, change: Change) -> None:
        if change.op == "I":
            self._by_the_clock("ended", change.now["finished"], change, job=change.id)

    def _by_the_clock(
        self, what: str, said: int, change: Change, earliest: int | None = None, **whose: int
    ) -> None:
        self.checked += 1
        if not (earliest or change.at - WRITTEN_WITHIN) <= said <= change.at + 1:
            away = (said - change.at) / SECOND
            self.violated(f"it was {what}, it says, {away:+.3f} s from now", change.at, **whose)

    def on_job(self, change: Change) -> None:
        job, now = self.world.jobs.get(change.id), change.now
        made = change.op == "I" and now["schedule"] is not None and job is None
        let_go = change.op == "U" and job is not None and job.after is not None
        if (made or let_go) and now["after"] is None and now["by"] is None:
            self.checked += 1
            if now["due"] > change.at + 1:
                late = (now["due"] - change.at) / SECOND
                what = f"job {change.id} could run at once, and is due in {late:.3f} s"
                self.violated(what, change.at, job=change.id)
        if change.op == "U" and now["due"] != change.was["due"] and not let_go:
            # Who was put back is due anew, and so is who need not wait for another any more.
            self.checked += 1
            if change.was["by"] is None or now["by"] is not None:
                away = (now["due"] - change.was["due"]) / SECOND
                what = f"job {change.id} is due {away:+.3f} s from when it was due, and nobody had"
                self.violated(f"{what} put it back", change.at, job=change.id)
        if is_claim(change):
            self.checked += 1
            if change.at < change.was["due"]:
                early = change.was["due"] - change.at
                what = f"job {change.id} was claimed {early} µs before it was due"
                self.violated(what, change.at, job=change.id)


def _end_of_a_pause(schedule: Schedule) -> int | None:
    """Of one that has just ended by itself: that is noticed later, and holds as of then."""
    return _end_of(schedule.versions[-2]) if len(schedule.versions) > 1 else None


def _end_of(pause: Version) -> int | None:
    return None if pause.ends is None else max(pause.ends, pause.since)


class ByTheRuleInForce(Invariant):
    """None after a committed pause, edit or cancel: fires and jobs are of the version in force."""

    name = "by-the-rule-in-force"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._late_triggers: list[tuple[int, int, int]] = []  # schedule, began, at
        self._open: dict[int, list[Said]] = {}  # by whom fires are, until their transaction commits
        self._last: dict[Said, int] = {}  # commit of a fire
        self._made = Made(evidence)
        self._apart = CLOCKS + evidence.folder.clocks.doubt

    def on_commit(self, change: Change) -> None:
        for said in self._open.pop(change.tx, ()):
            self._last[said] = change.at

    def on_fire(self, change: Change) -> None:
        schedule, now = self.world.schedules.get(change.id), change.now
        if schedule is None or change.op == "D":
            return
        version = schedule.current
        if now["kind"] in ("due", "catch_up"):
            self._open.setdefault(change.tx, []).append((schedule.id, version.n))
        if now["kind"] == "trigger":
            self.checked += 1
            self._made.by_a_trigger(change)
            if version.state == "cancelled":
                self._late_triggers.append((schedule.id, now["began"], change.at))
            return
        if now["decision"] not in ("fired", "overlap", "quota"):
            return
        self.checked += 1
        if now["kind"] == "backfill":
            if version.state == "cancelled":
                self._say("it was backfilled after it was cancelled", change)
                return
            version = schedule.in_force_at(now["scheduled"]) or version
            if version.began_as == "cancelled":
                self._say("it was backfilled over a time when it was cancelled", change)
                return
            self._made.by_a_backfill(change, version)
        elif version.state != "active" and schedule.ended_tx != change.tx:
            self._say(f"it was fired while it was {version.state}", change)
            return
        elif now["scheduled"] <= version.since:
            self._say(f"it was fired for an instant before its version {version.n}", change)
            return
        elif version.max_fires is not None and schedule.fired >= version.max_fires:
            self._say(f"it had been fired {schedule.fired} times, as often as it may", change)
            return
        rule = self.evidence.rule(schedule, version)
        if rule is None:
            return
        if not rule.has(now["scheduled"]):
            self._say(f"its version {version.n} has no such instant", change)
        elif rule.fires_at(schedule.id, now["scheduled"]) != now["fire_at"]:
            self._say("its jitter does not follow from the schedule and the instant", change)

    def _say(self, what: str, change: Change) -> None:
        self.violated(what, change.at, job=change.now["job"], schedule=change.id)

    def on_effect(self, line: Line) -> None:
        job = self.world.jobs.get(line["job"])
        if job is None or job.schedule is None:
            return
        self.checked += 1
        if (wrong := self._made.another_payload(job, line)) is not None:
            what = f"job {job.id} ran with {wrong}"
            self.violated(what, line["at"], job=job.id, schedule=job.schedule)

    def finish(self) -> None:
        for job in self._made.of_another_task():
            what = f"job {job.id} is a {job.task}, and its schedule says another task"
            self.violated(what, job.created, job=job.id, schedule=job.schedule)
        named = {
            (self.evidence.tenants.get(each.tenant), each.name): each
            for each in self.world.schedules.values()
        }
        told: dict[int, list[tuple[int, int]]] = {}  # of schedules: when, of which version
        cancelled: dict[int, list[int]] = {}
        for ask in self.evidence.asks:
            schedule = named.get((ask.tenant, ask.subject))
            if schedule is None or ask.answer is None or ask.answered_at is None:
                continue
            if (version := self._told_of(ask, schedule)) is not None:
                told.setdefault(schedule.id, []).append((ask.answered_at, version))
            if ask.verb == "cancel_schedule":
                cancelled.setdefault(schedule.id, []).append(ask.answered_at)
        self._after_an_answer(told)
        self._after_a_cancel(cancelled)

    def _told_of(self, ask: Ask, schedule: Schedule) -> int | None:
        """A version that stood when somebody was answered, or one before it: who cancels through
        the API is not told which it is."""
        version: int | None = (ask.answer or {}).get("version")
        if version is not None or ask.verb != "cancel_schedule":
            return version
        first = ask.began - self._apart - UNSEEN_IN_TROUBLE
        stood = schedule.between(first, (ask.answered_at or ask.at) + self._apart)
        return min((each.n for each in stood if each.began_as == "cancelled"), default=None)

    def _after_an_answer(self, told: dict[int, list[tuple[int, int]]]) -> None:
        """Whoever was told of a version sees no fire by an earlier one committed after that."""
        for (id, n), committed in self._last.items():
            self.checked += 1
            if any(v > n and at + self._apart < committed for at, v in told.get(id, ())):
                what = f"by its version {n} a fire was committed after another was acknowledged"
                self.violated(what, committed, schedule=id)

    def _after_a_cancel(self, cancelled: dict[int, list[int]]) -> None:
        """Who asks for a trigger while another cancels may be heard first; afterwards, no more."""
        for id, began, at in self._late_triggers:
            schedule = self.world.schedules[id]
            version = max(
                (each for each in schedule.versions if each.at <= at), key=lambda each: each.n
            )
            if any(version.at <= answered < began for answered in cancelled.get(id, ())):
                self.violated("it was triggered after it was cancelled", at, schedule=id)
