"""What is stuck, waits in vain, or was put aside."""

from collections.abc import AsyncIterator
from shlex import quote

from sexton.doctor.finding import (
    Finding,
    Patient,
    counted,
    judged,
    lasted,
    listed,
    ok,
    problem,
    warning,
)
from sexton.errors import did_you_mean
from sexton.store.schedules import DEFAULT_TENANT
from sexton.store.source import Row
from sexton.targets.http import QUEUE

OLD_WARNING, OLD_PROBLEM = 300.0, 3600.0
# Somebody may be about to start.
WITHOUT_WORKER_FOR = 60.0
SHOWN = 5
MOST_JOBS = 100_000


async def stuck(patient: Patient) -> AsyncIterator[Finding]:
    """Running jobs whose worker has gone silent, and that nobody has taken over."""
    found = await patient.store.gauges.stuck()
    if not found:
        yield ok("stuck", "every running job's worker renewed its lease lately")
        return
    many = sum(jobs for _, jobs in found)
    named = listed([f"{task} ({jobs:,})" for task, jobs in found])
    yield problem(
        "stuck",
        f"{counted(many, 'running job has', 'running jobs have')} a silent worker: {named}",
        "start a worker: any one reaps for all; then `sexton stuck`",
    )


async def queues(patient: Patient) -> AsyncIterator[Finding]:
    """Jobs that are due: somebody must serve their queue, know their task, and keep up."""
    in_vain: set[str] = set()
    for row in await patient.store.checks.undeclared(MOST_JOBS, SHOWN):
        if row["alone"]:
            in_vain.add(row["queue"])
        yield _undeclared(row)
    served: set[str] = set()
    for row in await patient.store.checks.workers():
        if not row["over"]:
            served |= set(row["queues"])
    amiss = False
    for queue, age in await patient.store.gauges.ages():
        if queue not in served and age > 0:
            amiss = True
            level = judged(age, 0.0, WITHOUT_WORKER_FOR)
            yield Finding(
                "queues",
                level,
                f"no worker serves {queue!r}, whose oldest job has been due for {lasted(age)}",
                "a worker alone would not help: see `tasks`"
                if queue in in_vain
                else f"start one: `sexton worker {_serving(queue)}`",
            )
        elif (level := judged(age, OLD_WARNING, OLD_PROBLEM)) != "ok":
            amiss = True
            yield Finding(
                "queues",
                level,
                f"the oldest job of {queue!r} has been due for {lasted(age)}",
                "start more workers, raise their concurrency, or look at what is limited",
            )
    if not amiss:
        queues = counted(len(served), "queue is", "queues are")
        yield ok("queues", f"{queues} served, and none is far behind")


async def schedules(patient: Patient) -> AsyncIterator[Finding]:
    """Those that were put aside do not fire any more; those that are late will."""
    found = await patient.store.checks.quarantined(SHOWN + 1)
    known = await patient.store.gauges.installation()
    for row in found[:SHOWN]:
        yield problem(
            "schedules",
            f"{row['name']!r} of {row['tenant']} is quarantined: {row['reason']}",
            f"mend it and `sexton schedule resume {_named(row['tenant'], row['name'])}`, "
            "or remove it",
        )
    if len(found) > SHOWN:
        yield problem(
            "schedules",
            f"{counted(known.quarantined - SHOWN, 'more is', 'more are')} quarantined",
            "look for them with `sexton schedule ls --state quarantined`, for each --tenant",
        )
    if known.late:
        yield warning(
            "schedules",
            f"{counted(known.late, 'schedule is', 'schedules are')} late",
            "the leader catches up at its pace; is there one?",
        )
    if not found and not known.late:
        yield ok("schedules", "none is quarantined, none is late")


def _undeclared(row: Row) -> Finding:
    task, meant = row["task"], did_you_mean(row["task"], row["declared"])
    wait = counted(row["jobs"], "job waits", "jobs wait")
    jobs = f"`sexton job ls --task {_named(row['tenant'], task)}`"
    return warning(
        "tasks",
        f"{wait} for {task!r} in {row['queue']!r}, and no worker has declared it{meant}",
        f"start a worker whose code has it; if the name is wrong, cancel them: {jobs}",
    )


def _serving(queue: str) -> str:
    """Deliveries need no application."""
    return f"--queue {QUEUE}" if queue == QUEUE else f"APP --queue {quote(queue)}"


def _named(tenant: str, name: str) -> str:
    """As a shell takes it."""
    whose = "" if tenant == DEFAULT_TENANT else f" --tenant {quote(tenant)}"
    return quote(name) + whose
