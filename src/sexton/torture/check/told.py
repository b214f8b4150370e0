"""What schedules were told to be and to do, against what they were and did."""

from collections.abc import Callable

from sexton.torture.check.backfills import Backfills
from sexton.torture.check.edits import differs, fires_as_told, forgets
from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import Ask, Change, Line
from sexton.torture.check.things import Schedule


class AsTold:
    """Fed with schedules, triggers and backfills; says how an acknowledged request did not hold."""

    def __init__(self, evidence: Evidence, apart: int) -> None:
        self._evidence = evidence
        self._apart = apart  # the clocks of those who ask, from the database's
        self._past = Backfills(evidence)
        self.triggered: dict[int, int] = {}  # schedule, by job
        self.backfills: dict[int, Line] = {}
        self._versions: dict[tuple[int, int], Line] = {}  # of schedules, as they began
        self._verbs: dict[str, Callable[[Ask, Schedule], str | None]] = {
            "add": self._says,
            "update": self._says,
            "pause": self._pause,
            "resume": self._resume,
            "cancel_schedule": self._cancel,
            "trigger": self._trigger,
            "backfill": self._backfill,
        }

    def schedule(self, change: Change) -> None:
        """One of its versions, the first time that it is seen."""
        self._versions.setdefault((change.id, change.now["version"]), change.now)

    def __contains__(self, verb: str) -> bool:
        return verb in self._verbs

    def wrong(self, ask: Ask, schedule: Schedule) -> str | None:
        """What was acknowledged, and is not so."""
        return self._verbs[ask.verb](ask, schedule) or _answered(ask, schedule)

    def _says(self, ask: Ask, schedule: Schedule) -> str | None:
        """`rev` of a payload is that of one request."""
        rev = ask.body["payload"]["rev"]
        found = [each for each in schedule.versions if each.payload.get("rev") == rev]
        if not found:
            return "no version of it says what was asked"
        version, options = found[0], ask.body.get("options") or {}
        if version.payload != ask.body["payload"]:
            return f"its version {version.n} has another payload than was asked for"
        if ask.body.get("when") is not None and not fires_as_told(
            self._evidence, ask.body, schedule, version
        ):
            return f"its version {version.n} fires at other times than was asked"
        task = self._versions[schedule.id, version.n]["task"]
        if ask.body.get("task") not in (None, task):
            return f"its version {version.n} is of {task}"
        wrong = differs(options, version)
        if wrong is None and ask.verb == "update":
            wrong = forgets(
                options, version, schedule.versions[schedule.versions.index(version) - 1]
            )
        return wrong

    def _pause(self, ask: Ask, schedule: Schedule) -> str | None:
        reason, until = ask.body.get("reason"), ask.body.get("until_us")
        for each in schedule.versions:
            if each.began_as == "paused" and each.reason == reason:
                ends = self._versions[schedule.id, each.n]["until"]
                return None if ends == until else f"it was paused until {ends}, not {until}"
        return "it was not paused for this reason"

    def _resume(self, ask: Ask, schedule: Schedule) -> str | None:
        states = self._states(ask, schedule)
        return "it stayed paused" if states == {"paused"} else None

    def _cancel(self, ask: Ask, schedule: Schedule) -> str | None:
        return None if "cancelled" in self._states(ask, schedule) else "it was not cancelled"

    def _states(self, ask: Ask, schedule: Schedule) -> set[str]:
        """The states that it was in at some time between the request and its answer."""
        first, last = ask.meanwhile(self._apart)
        stood = schedule.between(first, last)
        return {state for each in stood for state in (each.began_as, each.state)}

    def _trigger(self, ask: Ask, schedule: Schedule) -> str | None:
        job = (ask.answer or {}).get("job", (ask.answer or {}).get("id"))
        found = isinstance(job, int) and self.triggered.get(job) == schedule.id
        return None if found else f"job {job} is not in the ledger as a trigger of it"

    def _backfill(self, ask: Ask, schedule: Schedule) -> str | None:
        id = (ask.answer or {}).get("id", 0)
        found = self.backfills.get(id)
        wanted = (schedule.id, ask.body["from_us"], ask.body["to_us"])
        if found is None or (found["schedule"], found["from"], found["to"]) != wanted:
            return "there is no such backfill"
        return self._past.wrong(id, ask, schedule)


def _answered(ask: Ask, schedule: Schedule) -> str | None:
    """The version that the answer shows is one that there was."""
    answer = ask.answer or {}
    shown = (answer.get("version"), answer.get("since_us"))
    if shown[0] is None:
        return None
    known = {(each.n, each.since) for each in schedule.versions}
    return None if shown in known else f"it was told of a version {shown[0]} that never was"
