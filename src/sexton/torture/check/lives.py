"""The lives of jobs: an end is an end, attempts are counted, and nobody gets lost."""

from collections import Counter, defaultdict

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import Ask, Change, Line
from sexton.torture.check.guards import CLOCKS
from sexton.torture.check.invariant import Invariant, is_claim

_NOT_OF_THE_BUDGET = ("snoozed", "released")


class TerminalIsTerminal(Invariant):
    """Terminal is terminal: nothing is written of a job that ended, but the redrive of the dead."""

    name = "terminal-is-terminal"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._raised: dict[int, int] = {}  # from the dead, by which transaction

    def on_dead(self, change: Change) -> None:
        if change.op == "D":
            self._raised[change.id] = change.tx

    def on_job(self, change: Change) -> None:
        job = self.world.jobs.get(change.id)
        if job is None:
            return
        if change.op == "I":
            self.checked += 1
            if job.live or self._raised.get(job.id) != change.tx:
                self.violated(f"job {job.id} was made again", change.at, job=job.id)
        elif not job.live:
            self.violated(f"job {job.id} was changed after it had ended", change.at, job=job.id)

    def on_attempt(self, change: Change) -> None:
        job = self.world.jobs.get(change.id)
        if job is None:
            return
        self.checked += 1
        if change.op != "I":
            self.violated(f"the history of job {job.id} was changed", change.at, job=job.id)
        elif not job.live and (job.ended_tx != change.tx or job.state != "gone"):
            what = f"job {job.id} was settled as {change.now['outcome']} when it was {job.state}"
            self.violated(what, change.at, job=job.id)

    def finish(self) -> None:
        """The dead are raised as often as somebody asks for that, and is not refused."""
        apart = CLOCKS + self.evidence.folder.clocks.doubt
        asked: dict[int, list[int]] = defaultdict(list)
        for ask in self.evidence.asks:
            for id in _to_raise(ask):
                asked[id].append(ask.began - apart)
        for job in self.world.jobs.values():
            for nth, at in enumerate(job.redriven, 1):
                self.checked += 1
                if (times := sum(began <= at for began in asked[job.id])) < nth:
                    what = f"job {job.id} came back for the {nth}. time, asked for {times} times"
                    self.violated(what, at, job=job.id)


def _to_raise(ask: Ask) -> list[int]:
    """Whose end somebody wants undone; whether they are another tenant's is looked at elsewhere.

    However often it is sent through the API under one key, it is one request.
    """
    if ask.refused or (ask.via == "api" and ask.again is not None):
        return []
    if ask.verb == "trespass" and ask.body.get("what") == "redrive":
        return [ask.subject]
    return ask.body.get("ids") or [] if ask.verb == "redrive" else []


class AttemptsInBounds(Invariant):
    """Attempts are counted one by one under growing fences, and there are no more than allowed."""

    name = "attempts-in-bounds"

    def on_job(self, change: Change) -> None:
        job = self.world.jobs.get(change.id)
        if job is None or not is_claim(change):
            return
        self.checked += 1
        was, now = change.was, change.now
        if now["attempt"] != was["attempt"] + 1:
            what = f"attempt {now['attempt']} of job {job.id} came after {was['attempt']}"
            self.violated(what, change.at, job=job.id)
        if now["fence"] <= max(was["fence"], *(each.fence for each in job.claims), 0):
            what = f"job {job.id} got fence {now['fence']}, which is not larger than before"
            self.violated(what, change.at, job=job.id)
        budget = self.evidence.budget(job.task)
        if budget is not None and now["attempt"] - job.before > budget.max_attempts:
            what = f"attempt {now['attempt'] - job.before} of at most {budget.max_attempts}"
            self.violated(f"job {job.id} began {what}", change.at, job=job.id)

    def on_attempt(self, change: Change) -> None:
        job, now = self.world.jobs.get(change.id), change.now
        if job is None or change.op != "I":
            return
        if now["next"] != "waiting" or job.released is None or job.released[0] != change.tx:
            return
        self.checked += 1
        _, before, after = job.released
        counted = 0 if now["outcome"] in _NOT_OF_THE_BUDGET else 1
        if (now["attempt"], after["attempt"]) != (
            before["attempt"],
            before["attempt"] - 1 + counted,
        ):
            what = f"attempt {before['attempt']} of job {job.id} was {now['outcome']}, and then it"
            self.violated(f"{what} stood at {after['attempt']}", change.at, job=job.id)
        budget = self.evidence.budget(job.task)
        if counted and budget is not None and job.tries >= budget.max_attempts:
            what = f"job {job.id} is to be tried again after {job.tries} attempts"
            self.violated(f"{what} of {budget.max_attempts}", change.at, job=job.id)

    def on_effect(self, line: Line) -> None:
        job = self.world.jobs.get(line["job"])
        if line["event"] != "begin":
            return
        self.checked += 1
        ran = (line["fence"], line["attempt"])
        if job is None or ran not in [(each.fence, each.attempt) for each in job.claims]:
            what = (
                f"attempt {ran[1]} of job {line['job']} ran with fence {ran[0]}: nobody claimed it"
            )
            self.violated(what, line["at"], job=line["job"])


class NothingLost(Invariant):
    """Created = live + succeeded + cancelled + dead: each job is in one place, and there."""

    name = "nothing-lost"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self.places: Counter[str] = Counter()

    def finish(self) -> None:
        folder = self.evidence.folder
        live = {each["id"] for each in folder.dump("job")}
        dead = {each["id"] for each in folder.dump("dead")}
        ends: dict[int, list[str]] = {}
        for each in folder.dump("attempt"):
            if each["next"] in ("succeeded", "cancelled"):
                ends.setdefault(each["id"], []).append(each["next"])
        for job in self.world.jobs.values():
            self.checked += 1
            found = [*ends.get(job.id, ())]
            found += ["live"] if job.id in live else []
            found += ["dead"] if job.id in dead else []
            self.places[job.state] += 1
            if found != [job.state]:
                where = " and ".join(found) or "nowhere"
                what = f"job {job.id} should be {job.state}, and is found {where}"
                self.violated(what, job.ended or job.created, job=job.id)
        for id in sorted((live | dead | {*ends}) - {*self.world.jobs}):
            self.violated(f"nobody saw job {id} being made", self.world.began, job=id)
