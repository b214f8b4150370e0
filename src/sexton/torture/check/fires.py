"""Fires: one job each, none early, none by a rule that does not hold any more."""

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Change, Line
from sexton.torture.check.guards import CLOCKS
from sexton.torture.check.invariant import Invariant, is_claim

Fire = tuple[int, int, int]  # transaction, schedule, fire_at
Said = tuple[int, int]  # a schedule, and which of its versions
# A statement reads the clock when it begins, and may wait for a lock before it writes.
WRITTEN_WITHIN = 30 * SECOND


class OneJobPerFire(Invariant):
    """At most one job per fire, made in the transaction that records it and moves on."""

    name = "one-job-per-fire"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._first: dict[tuple[int, int], int] = {}
        self._recorded: dict[int, Fire] = {}  # jobs that the ledger names, until they are made
        self._made: dict[int, Fire] = {}  # jobs of fires, until the ledger names them
        self._moves: dict[tuple[int, int], int] = {}  # fires whose schedule has not moved

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
        if change.op == "I":
            self._by_the_clock("decided", change.now["decided"], change, schedule=change.id)

    def on_attempt(self, change: Change) -> None:
        if change.op == "I":
            self._by_the_clock("ended", change.now["finished"], change, job=change.id)

    def _by_the_clock(self, what: str, said: int, change: Change, **whose: int) -> None:
        self.checked += 1
        if not change.at - WRITTEN_WITHIN <= said <= change.at + 1:
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
        if is_claim(change):
            self.checked += 1
            if change.at < change.was["due"]:
                early = change.was["due"] - change.at
                what = f"job {change.id} was claimed {early} µs before it was due"
                self.violated(what, change.at, job=change.id)


class ByTheRuleInForce(Invariant):
    """None after a committed pause, edit or cancel: each fire is one of the version in force."""

    name = "by-the-rule-in-force"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._late_triggers: list[tuple[int, int, int]] = []  # schedule, began, at
        self._open: dict[int, list[Said]] = {}  # by whom fires are, until their transaction commits
        self._last: dict[Said, int] = {}  # commit of a fire

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

    def finish(self) -> None:
        self._after_an_answer()
        self._after_a_cancel()

    def _after_an_answer(self) -> None:
        """Whoever was told of a version sees no fire by an earlier one committed after that."""
        ids = {
            (self.evidence.tenants.get(each.tenant), each.name): each.id
            for each in self.world.schedules.values()
        }
        told: dict[int, list[tuple[int, int]]] = {}  # of schedules: when, of which version
        for ask in self.evidence.asks:
            version = (ask.answer or {}).get("version")
            if version is not None and (id := ids.get((ask.tenant, ask.subject))) is not None:
                told.setdefault(id, []).append((ask.answered_at or ask.at, version))
        apart = CLOCKS + self.evidence.folder.clocks.doubt
        for (id, n), committed in self._last.items():
            self.checked += 1
            if any(version > n and at + apart < committed for at, version in told.get(id, ())):
                what = f"by its version {n} a fire was committed after another was acknowledged"
                self.violated(what, committed, schedule=id)

    def _after_a_cancel(self) -> None:
        """Who asks for a trigger while another cancels may be heard first; afterwards, no more."""
        acked: dict[tuple[str, object], list[int]] = {}
        for ask in self.evidence.asks:
            if ask.verb == "cancel_schedule" and ask.answered_at and ask.answer is not None:
                acked.setdefault((ask.tenant, ask.subject), []).append(ask.answered_at)
        for id, began, at in self._late_triggers:
            schedule = self.world.schedules[id]
            cancels = acked.get((self.evidence.tenants.get(schedule.tenant, ""), schedule.name), [])
            version = max(
                (each for each in schedule.versions if each.at <= at), key=lambda each: each.n
            )
            if any(version.at <= cancelled < began for cancelled in cancels):
                self.violated("it was triggered after it was cancelled", at, schedule=id)
