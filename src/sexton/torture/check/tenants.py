"""Nothing of one tenant reaches another."""

from collections import Counter

from sexton.torture.check.folder import Ask, Change, Line
from sexton.torture.check.invariant import Invariant, is_claim

# A request of one tenant about something of another.
TRESPASS = "trespass"
# Whoever asks for what is not there is answered with what is: nothing.
MAY_FIND_NONE = ("redrive", "list_jobs")


class TenantsApart(Invariant):
    """Nothing crosses tenants: jobs, attempts, workers, deliveries, answers keep to their own."""

    name = "tenants-apart"

    def on_job(self, change: Change) -> None:
        job, now = self.world.jobs.get(change.id), change.now
        if change.op == "I":
            self.checked += 1
            schedule = self.world.schedules.get(now["schedule"])
            if schedule is not None and schedule.tenant != now["tenant"]:
                what = f"job {change.id} is of another tenant than its schedule"
                self.violated(what, change.at, job=change.id, schedule=schedule.id)
            elif job is not None and job.tenant != now["tenant"]:
                self.violated(f"job {job.id} came back to another tenant", change.at, job=job.id)
        elif change.op == "U" and job is not None:
            self.checked += 1
            if now["tenant"] != job.tenant:
                self.violated(f"job {job.id} went to another tenant", change.at, job=job.id)
            elif is_claim(change):
                worker = self.world.workers.get(now["by"])
                if worker is not None and worker.tenant not in (None, job.tenant):
                    what = f"job {job.id} was claimed by another tenant's worker {worker.name}"
                    self.violated(what, change.at, job=job.id)

    def on_attempt(self, change: Change) -> None:
        self._same(change, "history")

    def on_dead(self, change: Change) -> None:
        self._same(change, "dead jobs")

    def _same(self, change: Change, where: str) -> None:
        job = self.world.jobs.get(change.id)
        if job is None or change.op != "I":
            return
        self.checked += 1
        if change.now["tenant"] != job.tenant:
            what = f"job {job.id} is in the {where} of another tenant"
            self.violated(what, change.at, job=job.id)

    def on_due(self, change: Change) -> None:
        schedule = self.world.schedules.get(change.id)
        if schedule is not None and change.op == "U" and change.now["tenant"] != schedule.tenant:
            self.violated("it is due for another tenant", change.at, schedule=change.id)

    def on_effect(self, line: Line) -> None:
        job = self.world.jobs.get(line["job"])
        if job is None:
            return
        self.checked += 1
        name = self.evidence.tenants.get(job.tenant)
        if line["tenant"] != name:
            what = f"job {job.id} of {name!r} ran with what was meant for {line['tenant']!r}"
            self.violated(what, line["at"], job=job.id)
        headers = line.get("headers")
        if headers and (headers.get("addressed"), headers.get("verified")) != (name, True):
            what = f"job {job.id} of {name!r} was delivered to {headers.get('addressed')!r}"
            self.violated(f"{what}, signed: {headers.get('verified')}", line["at"], job=job.id)

    def finish(self) -> None:
        redriven: Counter[tuple[str, int]] = Counter()  # how often its tenant asked for that
        trespasses: list[Ask] = []
        for ask in self.evidence.asks:
            if ask.verb == TRESPASS:
                self._refused(ask)
                trespasses += [ask] if what_of(ask) == "redrive" else []
                continue
            if ask.verb == "redrive" and ask.again is None:
                redriven.update((ask.tenant, id) for id in ask.body.get("ids") or ())
            self._listed(ask)
            for id in _jobs_of(ask):
                job = self.world.jobs.get(id)
                if job is None:
                    continue
                self.checked += 1
                if self.evidence.tenants.get(job.tenant) != ask.tenant:
                    what = f"{ask.verb} for {ask.tenant!r} was answered with job {id} of another"
                    self.violated(what, ask.answered_at or ask.at, job=id)
        for ask in trespasses:
            self._stayed_dead(ask, redriven)

    def _refused(self, ask: Ask) -> None:
        self.checked += 1
        none = what_of(ask) in MAY_FIND_NONE and not (ask.answer or {}).get("jobs")
        if ask.answer is not None and not none:
            what = f"{ask.tenant!r} was heard ({what_of(ask)}) about {ask.subject!r}, which is"
            job = ask.subject if isinstance(ask.subject, int) else None
            self.violated(f"{what} another's", ask.answered_at or ask.at, job=job)

    def _listed(self, ask: Ask) -> None:
        """Schedules that an answer names."""
        for each in (ask.answer or {}).get("schedules") or ():
            self.checked += 1
            schedule = self.world.schedules.get(each["id"])
            if schedule is None or self.evidence.tenants.get(schedule.tenant) != ask.tenant:
                what = f"{ask.verb} for {ask.tenant!r} was answered with schedule {each['id']} of"
                at = ask.answered_at or ask.at
                self.violated(f"{what} another", at, schedule=each["id"])

    def _stayed_dead(self, ask: Ask, redriven: Counter[tuple[str, int]]) -> None:
        """Whatever the answer said: a job comes back as often as its own tenant asks for it."""
        job = self.world.jobs.get(ask.subject)
        if job is None:
            return
        self.checked += 1
        owner = self.evidence.tenants.get(job.tenant, "")
        if len(job.redriven) > redriven[owner, job.id]:
            what = f"job {job.id} of {owner!r} came back, and {ask.tenant!r} had asked for it"
            self.violated(what, job.redriven[-1], job=job.id)


def what_of(ask: Ask) -> str:
    """Which verb a trespass was."""
    return str(ask.body.get("what", "cancel_job"))


def _jobs_of(ask: Ask) -> list[int]:
    """The jobs that an answer names, or that it is about."""
    if ask.answer is None:
        return []
    answer = ask.answer
    listed = answer.get("jobs") if isinstance(answer.get("jobs"), list) else []
    found = [each["id"] for each in listed or () if isinstance(each, dict) and "id" in each]
    if isinstance(answer.get("job"), int):
        found.append(answer["job"])
    if isinstance(ask.subject, int):
        found.append(ask.subject)
    return found
