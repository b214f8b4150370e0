"""Enqueueing for a tenant: from what a request says to jobs in its transaction."""

from collections.abc import Mapping, Sequence
from typing import Any

from sexton.api.desk import Desk
from sexton.api.problems import Problem
from sexton.api.targets import task_of
from sexton.domain.job import Enqueued, NewJob
from sexton.domain.spec import checked_instant
from sexton.errors import InvalidJob
from sexton.observe import traces
from sexton.targets.arguments import encode
from sexton.targets.task import Call, checked_text

RESERVED = "http:"
OPTIONS = (
    "queue",
    "priority",
    "at",
    "delay",
    "key",
    "key_held_for",
    "limit_key",
    "tags",
    "expires_in",
)
# As the checks behind us call them.
_FIELDS = {"tag": "tags", "a": "task"}


async def new_job(desk: Desk, said: Mapping[str, Any]) -> NewJob:
    """A job to be, checked; `said` has the fields of the API, None where nothing was given."""
    task = await _task(desk, said.get("task"), said.get("target"))
    if said.get("at") is not None and said.get("delay") is not None:
        raise Problem(422, "invalid", "delay: give at or delay, not both", field="delay")
    job = NewJob(task, _payload(desk, task, said.get("payload") or {}), "", None)
    given = {name: said[name] for name in OPTIONS if said.get(name) is not None}
    if isinstance(given.get("at"), str):
        given["at"] = checked_instant(given["at"], "at")
    try:
        Call(desk.service.app, job).options(**given)
    except InvalidJob as error:
        raise _named(error) from None
    job.tenant = desk.tenant_id
    return job


async def _task(desk: Desk, task: str | None, target: Mapping[str, Any] | None) -> str:
    if (task is None) == (target is None):
        raise Problem(422, "invalid", "target: give either task or target", field="target")
    if target is not None:
        return await task_of(desk, target)
    assert task is not None
    demand_task(task)
    return task


def demand_task(task: str) -> None:
    """A name that a task may have."""
    try:
        checked_text("task", task)
    except InvalidJob as error:
        raise _named(error) from None
    if task.startswith(RESERVED):
        raise Problem(
            422,
            "invalid",
            f'task: names that begin with {RESERVED} are endpoints: give target {{"http": …}}',
            field="task",
        )


def _payload(desk: Desk, task: str, payload: Mapping[str, Any]) -> str:
    """Checked against the task's function, if it is one that this process knows."""
    known = desk.tasks.get(task)
    try:
        if known is not None:
            arguments = known.arguments
            return arguments.encode(arguments.bind((), payload), desk.max_payload_bytes)
        return encode(dict(payload), "payload", desk.max_payload_bytes)
    except InvalidJob as error:
        detail = str(error).removeprefix("payload: ")
        raise Problem(422, "invalid", f"payload: {detail}", field="payload") from None


def _named(error: InvalidJob) -> Problem:
    """The first word of what is wrong is the field."""
    word = str(error).replace(":", " ").partition(" ")[0]
    field = _FIELDS.get(word, word)
    if field not in (*OPTIONS, "task"):
        return Problem(422, "invalid", str(error))
    return Problem(422, "invalid", f"{field}: {str(error).removeprefix(f'{field}: ')}", field=field)


async def enqueue(desk: Desk, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """All of them, in the transaction of this desk; the answers come in the same order."""
    with traces.enqueued_for(jobs, desk.origin.trace) as made:
        enqueued = await _enqueue(desk, jobs)
        if len(enqueued) == 1:
            made(enqueued[0].id)
        return enqueued


async def _enqueue(desk: Desk, jobs: Sequence[NewJob]) -> list[Enqueued]:
    enqueued: list[Enqueued | None] = [None] * len(jobs)
    plain = [(nth, job) for nth, job in enumerate(jobs) if job.key is None]
    keyed = [(nth, job) for nth, job in enumerate(jobs) if job.key is not None]
    queues: set[str] = set()
    if plain:
        made = await desk.store.remote.enqueue_batch(desk.tenant_id, [job for _, job in plain])
        for (nth, _), (id, queue) in zip(plain, made, strict=True):
            enqueued[nth] = Enqueued(id)
            queues.add(queue)
    if keyed:
        # By a function that wakes the sleeping itself.
        answers = await desk.store.jobs.enqueue_keyed([job for _, job in keyed])
        for (nth, _), answer in zip(keyed, answers, strict=True):
            enqueued[nth] = answer
    await wake(desk, queues)
    return [each for each in enqueued if each is not None]


async def wake(desk: Desk, queues: set[str]) -> None:
    """Those who sleep on these queues, once this is committed; together with others' wake-ups."""
    if not queues:
        return
    waker = (await desk.service.app.client()).waker

    def send() -> None:
        for queue in queues:
            waker.wake(queue, desk.tenant_id)

    desk.after_commit(send)
