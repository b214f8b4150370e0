"""sexton job ls|show|progress|enqueue|cancel|retry"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

import typer
from rich.console import RenderableType

from sexton.cli import output
from sexton.cli.bulk import File, enqueue_from_file
from sexton.cli.complete import queues, schedules, tasks
from sexton.cli.instants import Instant
from sexton.cli.output import ExitCode, dated, say, say_more, show, show_json, when
from sexton.cli.parameters import (
    Cursor,
    JobId,
    JobIds,
    Json,
    Limit,
    Queue,
    Task,
    arguments_of_a_task,
    as_instant,
    as_seconds,
)
from sexton.cli.session import run
from sexton.cli.site import Site, as_target, gathered
from sexton.cli.undeclared import doubts, note
from sexton.domain.job import Enqueued
from sexton.errors import InvalidJob
from sexton.remote.errors import Conflict, NotFound
from sexton.remote.views import Dead, Job, JobLine, Page, Progress

commands = typer.Typer(no_args_is_help=True, help="Look at jobs, make them, stop them.")


class State(StrEnum):
    waiting = "waiting"
    ready = "ready"
    running = "running"
    succeeded = "succeeded"
    cancelled = "cancelled"
    dead = "dead"


@commands.command("ls")
def list_jobs(
    context: typer.Context,
    task: Task = None,
    queue: Queue = None,
    state: Annotated[State | None, typer.Option("--state", help="Only in this state.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only with this tag.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="Only with this key.")] = None,
    schedule: Annotated[
        str | None,
        typer.Option(
            "--schedule", metavar="NAME", help="Only by its fires.", autocompletion=schedules
        ),
    ] = None,
    start: Annotated[
        Instant | None,
        typer.Option("--from", metavar="INSTANT", parser=as_instant, help="Made since: -1h."),
    ] = None,
    end: Annotated[
        Instant | None,
        typer.Option("--to", metavar="INSTANT", parser=as_instant, help="Made before: -5m."),
    ] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """Jobs, live and finished, newest first."""
    filters: dict[str, Any] = {"state": state and state.value, "task": task, "queue": queue}
    filters |= {"tag": tag, "key": key, "schedule": schedule}

    async def look(site: Site) -> Page[JobLine]:
        now = await site.now()
        return await gathered(
            site.jobs,
            from_=start and start.resolved(now),
            to=end and end.resolved(now),
            limit=limit,
            cursor=cursor,
            **filters,
        )

    found = run(context, look)
    if as_json:
        show_json({"jobs": found.items, "next": found.next})
        return
    if not found.items:
        say("no jobs" + (" like that" if any(filters.values()) or start or end or cursor else ""))
        return
    made = output.table(
        *("id", "task", "queue", "state", "tries", "due", "ended", "key", "by", "error"),
        right=("id", "tries"),
        shrinks=("task", "queue", "key", "by", "error"),
    )
    for job in found:
        output.row(
            made,
            *(job.id, job.task, job.queue, output.state(job.state), job.attempt),
            *(when(job.due_at), when(job.finished_at), job.key or "", job.schedule or ""),
            output.first_line(job.error, 100),
        )
    show(made)
    say_more(found.next)


@commands.command("show")
def show_job(context: typer.Context, id: JobId, as_json: Json = False) -> None:
    """One job, live, dead or past, with every attempt."""

    async def look(site: Site) -> Job:
        return await site.job(id)

    job = run(context, look)
    if as_json:
        show_json(job)
    else:
        show(*described(job))


@commands.command("progress")
def show_progress(context: typer.Context, id: JobId, as_json: Json = False) -> None:
    """How far a job is, as it said itself."""

    async def look(site: Site) -> Progress:
        return await site.progress(id)

    found = run(context, look)
    if as_json:
        show_json(found)
    else:
        said = "nothing yet" if found.progress is None else output.compact(found.progress, 2000)
        say(f"job {id} is {found.state}, attempt {found.attempt}: {said}")


def described(job: Job | Dead) -> list[RenderableType]:
    """Everything about a job, for people."""
    live: list[tuple[str, Any]] = []
    if isinstance(job, Job):
        progress = None if job.progress is None else output.compact(job.progress)
        live = [
            ("due", dated(job.due_at)),
            ("after", None if job.after_job is None else f"job {job.after_job} has ended"),
            ("finished", dated(job.finished_at)),
            ("worker", job.worker),
            ("progress", progress),
            ("cancelling", "asked for" if job.cancel_requested else None),
            ("result", None if job.result is None else output.compact(job.result, 2000)),
        ]
    else:
        live = [("died", dated(job.died_at)), ("reason", job.reason)]
    shown: list[RenderableType] = [
        output.facts(
            [
                ("job", job.id),
                ("state", output.state(job.state if isinstance(job, Job) else "dead")),
                ("task", job.task),
                ("queue", job.queue),
                ("priority", job.priority),
                ("key", job.key),
                ("tags", ", ".join(job.tags)),
                ("arguments", output.compact(job.payload, 2000)),
                ("created", dated(job.created_at)),
                ("fired by", job.schedule),
                ("fire at", dated(job.fire_at) if job.fire_at else None),
                *live,
            ]
        )
    ]
    if job.attempts:
        made = output.table(
            "attempt",
            "outcome",
            "began",
            "took",
            "worker",
            "error",
            right=("attempt", "took"),
            shrinks=("worker", "error"),
        )
        for each in job.attempts:
            began = each.claimed_at
            took = (
                "" if began is None else output.lasted((each.finished_at - began).total_seconds())
            )
            output.row(
                made,
                *(each.attempt, output.state(each.outcome), when(each.claimed_at)),
                *(took, each.worker or ""),
                output.first_line(each.error, 100),
            )
        shown += ["", made]
    if job.error and "\n" in job.error.strip():
        shown += ["", output.indented(job.error)]
    return shown


@commands.command("enqueue")
def enqueue_job(
    context: typer.Context,
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="TASK",
            help="The task, as its code names it; http:NAME for an endpoint; or --file.",
            autocompletion=tasks,
        ),
    ] = None,
    arguments: Annotated[
        str, typer.Argument(metavar="JSON", help="Its arguments: an object.")
    ] = "{}",
    key: Annotated[
        str | None, typer.Option("--key", help="No second live job of the task with this key.")
    ] = None,
    delay: Annotated[
        float | None,
        typer.Option("--delay", metavar="DURATION", parser=as_seconds, help="Not before: 90s, 2h."),
    ] = None,
    at: Annotated[
        Instant | None,
        typer.Option(
            "--at",
            metavar="INSTANT",
            parser=as_instant,
            help="Not before: 2026-03-28T12:00:00Z, +2h.",
        ),
    ] = None,
    priority: Annotated[
        int | None, typer.Option("--priority", min=-5, max=5, help="The larger, the sooner.")
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option("--queue", help="Instead of the task's own.", autocompletion=queues),
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="May be given more than once.")
    ] = None,
    expires_in: Annotated[
        float | None,
        typer.Option(
            "--expires-in", metavar="DURATION", parser=as_seconds, help="Not begun later than that."
        ),
    ] = None,
    key_held_for: Annotated[
        float | None,
        typer.Option(
            "--key-held-for", metavar="DURATION", parser=as_seconds, help="After a success, too."
        ),
    ] = None,
    limit_key: Annotated[
        str | None, typer.Option("--limit-key", help="Whose limit it counts for.")
    ] = None,
    file: File = None,
    as_json: Json = False,
) -> None:
    """Make a job of any task that some worker knows, or all those of a file."""
    if file is not None:
        given = (key, delay, at, priority, queue, expires_in, key_held_for, limit_key)
        if task is not None or tag or any(each is not None for each in given):
            raise InvalidJob("--file has everything in it: give nothing else")
        enqueue_from_file(context, file, as_json)
        return
    if task is None:
        raise InvalidJob("give a TASK, or --file")
    if at is not None and delay is not None:
        raise typer.BadParameter("give --at or --delay, not both")
    if at is not None and at.absolute is None:
        delay = max(0.0, at.offset)  # counted by the database, whatever our clock says
    payload, target = arguments_of_a_task(arguments), as_target(task)

    async def enqueue(site: Site) -> tuple[Enqueued, str | None]:
        made = await site.enqueue(
            target,
            payload,
            key=key,
            delay=delay,
            at=None if at is None else at.absolute,
            priority=priority,
            queue=queue,
            tags=tag or None,
            expires_in=expires_in,
            key_held_for=key_held_for,
            limit_key=limit_key,
        )
        return made, await doubts(site, target, queue)

    made, doubt = run(context, enqueue)
    if as_json:
        show_json(made)
    elif made.duplicate:
        say(f"job {made.id} is live already with key {key!r}; nothing was enqueued")
    else:
        say(f"job {made.id} enqueued")
    note(doubt)


@dataclass(frozen=True, slots=True)
class Answer:
    """What was done for one of the ids, and the state the job has now; None: no such job."""

    id: int
    done: Literal["cancelled", "asked", "retried"] | None
    state: str | None
    job: int | None = None  # after a retry: the one that will run


async def _untouched(site: Site, id: int) -> Answer:
    try:
        return Answer(id, None, (await site.job(id)).state)
    except NotFound:
        return Answer(id, None, None)


@commands.command("cancel")
def cancel_jobs(context: typer.Context, ids: JobIds, as_json: Json = False) -> None:
    """End live jobs: those that run are asked to stop."""

    async def cancel(site: Site) -> list[Answer]:
        answers = []
        for id in ids:
            try:
                state = (await site.cancel(id)).state
                answers.append(Answer(id, "cancelled" if state == "cancelled" else "asked", state))
            except (NotFound, Conflict):
                answers.append(await _untouched(site, id))
        return answers

    _answer(run(context, cancel), [], as_json)


@commands.command("retry")
def retry_jobs(context: typer.Context, ids: JobIds, as_json: Json = False) -> None:
    """Try jobs again now: those that wait, dead ones, or new ones for those that have ended."""
    refused: list[str] = []

    async def retry(site: Site) -> list[Answer]:
        answers = []
        for id in ids:
            try:
                made = await site.retry(id)
                answers.append(Answer(id, "retried", made.state, made.id))
            except NotFound:
                answers.append(Answer(id, None, None))
            except Conflict as error:
                refused.append(str(error))
                answers.append(await _untouched(site, id))
        return answers

    _answer(run(context, retry), refused, as_json)


def _answer(answers: list[Answer], refused: list[str], as_json: bool) -> None:
    """What was done on stdout, what could not be done on stderr and in the exit code."""
    if as_json:
        show_json({"jobs": answers})
    for each in answers:
        match each:
            case Answer(id, None, None):
                output.complain(f"no job {id}")
            case Answer(id, None, state):
                output.complain(refused.pop(0) if refused else f"job {id} is {state}, not live")
            case Answer() if as_json:
                pass
            case Answer(id, "asked"):
                say(f"job {id} runs; its worker was asked to stop it")
            case Answer(id, "retried", state, job) if job != id:
                say(f"job {id} is done again as job {job}")
            case Answer(id, _, state):
                say(f"job {id} is {state}")
    if any(each.done is None for each in answers):
        raise typer.Exit(ExitCode.FINDING)
