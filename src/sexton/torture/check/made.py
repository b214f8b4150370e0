"""What fires made: jobs of the task, and with the payload, that was said or asked for."""

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import Change, Line
from sexton.torture.check.things import Job, Schedule, Version

_NAMES = ("id", "rev")  # of a payload, before others: whose it is, and of which request


class Wanted(NamedTuple):
    """Payloads that triggers were asked for with; None: that of the schedule."""

    by_job: dict[int, Line | None]
    unsure: dict[tuple[str, Any], list[Line]]  # of those that were not told of a job, by schedule


class Made:
    """Which versions of its schedule may speak for a job.

    A fire at its time goes by the one in force. A backfill goes by the one that was in force at
    the instant; before the first one, by that which is in force now. A trigger reads its schedule
    before it waits for whoever changes it, and may be asked for with another payload.
    """

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._world = evidence.world
        self._of_the_past: dict[int, int] = {}  # versions, by jobs of backfills
        self._began: dict[int, int] = {}  # transactions, by jobs of triggers

    def by_a_backfill(self, change: Change, version: Version) -> None:
        self._of_the_past[change.now["job"]] = version.n

    def by_a_trigger(self, change: Change) -> None:
        self._began[change.now["job"]] = change.now["began"]

    def of_another_task(self) -> Iterator[Job]:
        """Jobs whose task no such version has."""
        for job in self._world.jobs.values():
            versions = self._versions(job)
            if versions and all(each.task != job.task for each in versions):
                yield job

    def another_payload(self, job: Job, line: Line) -> str | None:
        """What a job ran with by an effect of it, if that was neither said nor asked for."""
        told = line["payload"]
        payloads = self._payloads(job)
        if not payloads or any(_is_of(told, each) for each in payloads):
            return None
        said = {_short(each) for each in payloads}
        return f"{_short(told)}, not with {' or '.join(sorted(said))}"

    def _versions(self, job: Job) -> list[Version]:
        schedule, n = self._world.schedules.get(job.schedule or 0), job.version
        kind = self._world.kinds.get(job.id)
        if kind == "backfill":
            n = self._of_the_past.get(job.id)
        if schedule is None or n is None or kind is None:
            return []
        if kind == "trigger":
            return [*self._perhaps_read(schedule, n, self._began[job.id])]
        return [schedule.version(n)]

    def _perhaps_read(self, schedule: Schedule, n: int, began: int) -> Iterator[Version]:
        """The version that stood when a trigger was written, and those before it, as long as what
        came after them may not have been seen when its transaction began."""
        version = schedule.version(n)
        yield version
        while n > schedule.versions[0].n and self._evidence.may_be_unseen(version.at, began):
            n -= 1
            version = schedule.version(n)
            yield version

    def _payloads(self, job: Job) -> list[Line]:
        found = [each.payload for each in self._versions(job)]
        if job.id not in self._began:
            return found
        if job.id in self._wanted.by_job:
            asked = self._wanted.by_job[job.id]
            return found if asked is None else [asked]
        schedule = self._world.schedules[job.schedule or 0]
        tenant = self._evidence.tenants.get(schedule.tenant, "")
        return found + self._wanted.unsure[tenant, schedule.name]

    @cached_property
    def _wanted(self) -> Wanted:
        wanted = Wanted({}, defaultdict(list))
        for ask in self._evidence.asks:
            if ask.verb != "trigger":
                continue
            payload, answer = ask.body.get("payload"), ask.answer or {}
            job = answer.get("job", answer.get("id"))
            if job is not None:
                wanted.by_job[job] = payload
            elif payload is not None:
                wanted.unsure[ask.tenant, ask.subject].append(payload)
        return wanted


def _is_of(told: Line, payload: Line) -> bool:
    """All of it, but for what was not said, and has its default."""
    return all(told.get(name) == value for name, value in payload.items())


def _short(payload: Line) -> str:
    rest = [name for name in payload if name not in _NAMES]
    return " ".join(f"{name} {payload.get(name)!r}" for name in (*_NAMES, *rest))
