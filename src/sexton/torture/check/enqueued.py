"""A job that was made, against the one that was asked for."""

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Ask, Change, Line
from sexton.torture.check.guards import CLOCKS, DELIVERED
from sexton.torture.check.said import length
from sexton.torture.check.things import Job

# A clock is read before the row is written, and rounded.
_ROUNDED = SECOND // 1000


class AsAsked:
    """Remembers what jobs were when they were made: they are put off, and redriven."""

    def __init__(self, evidence: Evidence) -> None:
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
