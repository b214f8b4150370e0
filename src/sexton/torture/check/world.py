"""The database's history, replayed: what stood there when something was written."""

from collections.abc import Callable
from sys import intern

from sexton.torture.check.calendars import Almanac
from sexton.torture.check.charge import Charge
from sexton.torture.check.folder import Change, Line
from sexton.torture.check.things import Job, Member, Schedule, Settled
from sexton.torture.check.when import Pins


class World:
    """Everything as it stands after the changes so far."""

    def __init__(self, calendars: Pins) -> None:
        self.jobs: dict[int, Job] = {}
        self.schedules: dict[int, Schedule] = {}
        self.workers: dict[int, Member] = {}
        self.nodes: dict[int, Member] = {}
        self.tasks: dict[str, Line] = {}
        self.kinds: dict[int, str] = {}  # of fires, by the job that they made
        self.began = self.ended = 0
        self._early: dict[int, Change] = {}  # where schedules stand that are not there yet
        self.charge = Charge()
        self.almanac = Almanac(calendars)
        self._handlers: dict[str, Callable[[Change], None]] = {
            "job": self._job,
            "attempt": self._attempt,
            "dead": self._dead,
            "schedule": self._schedule,
            "calendar": self.almanac.change,
            "due": self._due,
            "fire": self._fire,
            "worker": self._worker,
            "node": self._node,
            "task": self._task,
            "ownership": self.charge.share,
            "leader": self.charge.leads,
        }

    def apply(self, change: Change) -> None:
        if not self.began:
            self.began = change.at
        self.ended = max(self.ended, change.at)
        handle = self._handlers.get(change.tab)
        if handle is not None:
            handle(change)

    def _job(self, change: Change) -> None:
        job = self.jobs.get(change.id)
        schedule = None
        if change.op == "I":
            if change.now["schedule"] is not None:
                schedule = self.schedules.get(change.now["schedule"])
            if job is None:
                version = None if schedule is None else schedule.current.n
                job = self.jobs[change.id] = Job(change, version)
            else:
                job.revive(change)
            if schedule is not None:
                schedule.live[job.id] = job
        elif job is None:
            return  # made before anybody looked
        elif change.op == "U":
            job.change(change)
        else:
            job.live, job.ended, job.ended_tx = False, change.at, change.tx
            job.state = "gone"
            if job.schedule in self.schedules:
                self.schedules[job.schedule].live.pop(job.id, None)

    def _attempt(self, change: Change) -> None:
        job, now = self.jobs.get(change.id), change.now
        if job is None or change.op != "I":
            return
        outcome, next = intern(now["outcome"]), intern(now["next"])
        job.settled.append(Settled(now["fence"], change.at, outcome, next, now["worker"]))
        job.released = None
        if not job.live and now["next"] != "waiting":
            job.state = next

    def _dead(self, change: Change) -> None:
        job = self.jobs.get(change.id)
        if job is not None and change.op == "D" and not job.live:
            job.state = "purged"

    def _schedule(self, change: Change) -> None:
        schedule = self.schedules.get(change.id)
        if change.op == "I":
            self.schedules[change.id] = schedule = Schedule(change)
            schedule.current.calendars = self.almanac.now
            if (early := self._early.pop(change.id, None)) is not None:
                self._due(early)
        elif schedule is not None and change.op == "U":
            before = schedule.current
            schedule.change(change)
            self.almanac.pin(schedule, before)

    def _due(self, change: Change) -> None:
        if change.op == "D":
            return
        if (schedule := self.schedules.get(change.id)) is not None:
            schedule.move(change)
        else:  # both are written by one statement, in any order
            self._early[change.id] = change

    def _fire(self, change: Change) -> None:
        now, schedule = change.now, self.schedules.get(change.id)
        if change.op == "D" or schedule is None:
            return
        if now["job"] is not None:
            self.kinds[now["job"]] = intern(now["kind"])
        if now["decision"] == "fired" and now["kind"] in ("due", "catch_up"):
            schedule.fire(now["scheduled"])

    def _worker(self, change: Change) -> None:
        _member(self.workers, change)

    def _node(self, change: Change) -> None:
        _member(self.nodes, change)

    def _task(self, change: Change) -> None:
        if change.op != "D":
            self.tasks[change.now["name"]] = change.now


def _member(members: dict[int, Member], change: Change) -> None:
    if change.op == "I":
        members[change.id] = Member(change)
    elif change.op == "U" and change.id in members:
        member = members[change.id]
        if member.gone is None:
            member.renewed = change.was["renewed"]
            member.gone, member.why = change.now["gone"], change.now["why"]
