"""A job that was made, and what it ran with, against the one that was asked for."""

import json
from functools import cached_property
from sys import intern

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Ask, Change, Line
from sexton.torture.check.guards import CLOCKS, DELIVERED
from sexton.torture.check.said import length
from sexton.torture.check.things import Job

# A clock is read before the row is written, and rounded.
_ROUNDED = SECOND // 1000
# Of a payload: what every one has, and where it is compared otherwise.
_TOLD_APART = ("id", "tenant")


class AsAsked:
    """Remembers what jobs were when they were made: they are put off, and redriven."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._apart = CLOCKS + evidence.folder.clocks.doubt
        self._described = {each["task"]: each for each in evidence.folder.dump("tasks")}
        self._endpoints: dict[tuple[int, str], str] = {}  # the task of one, in its tenant
        self._first: dict[int, tuple[int, int | None]] = {}  # due, expires

    def see(self, change: Change) -> None:
        if change.op == "I" and change.now["schedule"] is None:
            self._first.setdefault(change.id, (change.now["due"], change.now["expires"]))

    def wrong(self, ask: Ask, job: Job, wanted: Line) -> str | None:
        """How it differs from what was asked for."""
        if not self.is_of(job, wanted["task"]):
            return f"it is a {job.task}, and a {wanted['task']} was asked for"
        usual = self._described.get(job.task, {}).get("priority") or 0
        for name, found, asked in (
            ("key", job.key, wanted.get("key")),
            ("limit_key", job.limit_key, wanted.get("limit_key")),
            ("priority", job.priority, wanted.get("priority", usual)),
            ("key_held_for", job.held, _micros(wanted, "key_held_for")),
        ):
            if found != asked:
                return f"its {name} is {found!r}, and {asked!r} was asked for"
        due, expires = self._first[job.id]
        if not self._from_then(ask, job, due - _micros(wanted, "delay")):
            return "it was due at another time than was asked for"
        if (expires is None) != ("expires_in" not in wanted):
            return "it expires, or does not, as was not asked for"
        if expires is not None and not self._from_then(
            ask, job, expires - _micros(wanted, "expires_in")
        ):
            return "it expires at another time than was asked for"
        return None

    def another(self, job: Job, line: Line) -> str | None:
        """What of a job was told to its task, by an effect of it, that is not the job's."""
        if line["task"] != job.task:
            return f"as a {line['task']}, and is a {job.task}"
        if not job.task.startswith(DELIVERED) and line.get("key") != job.key:
            return f"under the key {line.get('key')!r}, and has {job.key!r}"
        if job.schedule is not None:
            return None
        told = line["payload"]
        if told.get("id") != job.payload:
            return f"with the payload of {told.get('id')!r}, and has that of {job.payload!r}"
        asked = self._payloads.get(job.payload)
        if asked is not None and _rest(told) != asked:
            wanted = json.loads(asked)
            # What was not asked for has its default, which only a task knows.
            if job.task.startswith(DELIVERED) or any(
                told.get(name) != value for name, value in wanted.items()
            ):
                return f"with {_rest(told)}, and {asked} was asked for"
        return None

    @cached_property
    def _payloads(self) -> dict[str | None, str]:
        """What was asked for beside the id; few are different, and there are many."""
        return {
            each["payload"]["id"]: intern(_rest(each["payload"]))
            for ask in self._evidence.asks
            for each in ask.body.get("jobs", ())
        }

    def is_of(self, job: Job, task: str) -> bool:
        """Whether it has this task; of endpoints it is told only that each has one of its own."""
        if task in self._described or not self._described:
            return job.task == task
        known = self._endpoints.setdefault((job.tenant, task), job.task)
        return job.task == known and known.startswith(DELIVERED)

    def _from_then(self, ask: Ask, job: Job, began: int) -> bool:
        """Whether this is an instant between the request and the row."""
        return ask.began - self._apart <= began <= job.created + _ROUNDED


def _micros(wanted: Line, name: str) -> int:
    given = wanted.get(name)
    return 0 if given is None else round(length(given) * SECOND)


def _rest(payload: Line) -> str:
    rest = {name: value for name, value in payload.items() if name not in _TOLD_APART}
    return json.dumps(rest, sort_keys=True)
