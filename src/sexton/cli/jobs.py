"""sexton job ls|show|enqueue|cancel|retry"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

import typer
from rich.console import RenderableType

from sexton import JobView, Sexton
from sexton.cli import output
from sexton.cli.instants import Instant
from sexton.cli.output import ExitCode, say, show, show_json, when
from sexton.cli.parameters import (
    JobId,
    JobIds,
    Json,
    Limit,
    Queue,
    Task,
    as_instant,
    as_seconds,
)
from sexton.cli.session import run
from sexton.domain.job import LIVE_STATES, Enqueued
from sexton.errors import InvalidJob, UnknownJob

commands = typer.Typer(no_args_is_help=True, help="Look at jobs, make them, stop them.")


class LiveState(StrEnum):
    waiting = "waiting"
    ready = "ready"
    running = "running"


@commands.command("ls")
def list_jobs(
    context: typer.Context,
    task: Task = None,
    queue: Queue = None,
    state: Annotated[
        LiveState | None, typer.Option("--state", help="Only these; dead ones: `sexton dead ls`.")
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only with this tag.")] = None,
    before: Annotated[
        int | None, typer.Option("--before", metavar="ID", help="Older than this job: next page.")
    ] = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """Live jobs, newest first."""

    async def look(app: Sexton) -> list[JobView]:
        wanted = next((each for each in LIVE_STATES if each == state), None)
        return await app.jobs(
            task=task, queue=queue, state=wanted, tag=tag, before=before, limit=limit
        )

    jobs = run(context, look)
    if as_json:
        show_json({"jobs": jobs})
        return
    if not jobs:
        say("no live jobs" + (" like that" if task or queue or state or tag or before else ""))
        return
    made = output.table(
        *("id", "task", "queue", "state", "tries", "due", "key", "arguments"),
        right=("id", "tries"),
        shrinks=("key", "arguments", "error"),
    )
    for job in jobs:
        output.row(
            made,
            *(job.id, job.task, job.queue, output.state(job.state), job.attempt),
            *(when(job.due_at), job.key or "", output.compact(job.payload)),
        )
    show(made)
    if len(jobs) == limit:
        say(f"older ones: --before {jobs[-1].id}")


@commands.command("show")
def show_job(context: typer.Context, id: JobId, as_json: Json = False) -> None:
    """One job, live, dead or past, with every attempt."""
    job = run(context, lambda app: app.job(id))
    if as_json:
        show_json(job)
    else:
        show(*described(job))


def described(job: JobView) -> list[RenderableType]:
    """Everything about a job, for people."""
    shown: list[RenderableType] = [
        output.facts(
            [
                ("job", job.id),
                ("state", output.state(job.state)),
                ("task", job.task),
                ("queue", job.queue),
                ("priority", job.priority),
                ("key", job.key),
                ("tags", ", ".join(job.tags)),
                ("arguments", output.compact(job.payload, 2000)),
                ("created", when(job.created_at)),
                ("due", when(job.due_at)),
                ("after", None if job.after_job is None else f"job {job.after_job} has ended"),
                ("fired by", job.schedule),
                ("fire at", when(job.fire_at) if job.fire_at else None),
                ("finished", when(job.finished_at)),
                ("worker", job.worker),
                ("progress", None if job.progress is None else output.compact(job.progress)),
                ("cancelling", "asked for" if job.cancel_requested else None),
                ("result", None if job.result is None else output.compact(job.result, 2000)),
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
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task, as its code names it.")],
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
    queue: Annotated[str | None, typer.Option("--queue", help="Instead of the task's own.")] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="May be given more than once.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a job of any task that some worker knows."""
    if at is not None and delay is not None:
        raise typer.BadParameter("give --at or --delay, not both")
    if at is not None and at.absolute is None:
        delay = max(0.0, at.offset)  # counted by the database, whatever our clock says
    payload = _object(arguments)

    async def enqueue(app: Sexton) -> Enqueued:
        return await app.enqueue(
            task,
            payload,
            key=key,
            delay=delay,
            at=at and at.absolute,
            priority=priority,
            queue=queue,
            tags=tag or None,
        )

    made = run(context, enqueue)
    if as_json:
        show_json(made)
    elif made.duplicate:
        say(f"job {made.id} is live already with key {key!r}; nothing was enqueued")
    else:
        say(f"job {made.id} enqueued")


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidJob(
            f"the arguments are not JSON: {error}; write them like '{{\"a\": 1}}'"
        ) from None
    if not isinstance(value, dict):
        raise InvalidJob("the arguments must be a JSON object, by name, like '{\"a\": 1}'")
    return value


@dataclass(frozen=True, slots=True)
class Answer:
    """What was done for one of the ids, and the state the job has now; None: no such job."""

    id: int
    done: Literal["cancelled", "asked", "redriven"] | None
    state: str | None


async def _untouched(app: Sexton, id: int) -> Answer:
    try:
        return Answer(id, None, (await app.job(id)).state)
    except UnknownJob:
        return Answer(id, None, None)


@commands.command("cancel")
def cancel_jobs(context: typer.Context, ids: JobIds, as_json: Json = False) -> None:
    """End live jobs: those that run are asked to stop."""

    async def cancel(app: Sexton) -> list[Answer]:
        ended = await app.cancel(*ids)
        known = {
            id: Answer(id, "cancelled", "cancelled") if at_once else Answer(id, "asked", "running")
            for id, at_once in ended.items()
        }
        return [known.get(id) or await _untouched(app, id) for id in ids]

    _answer(run(context, cancel), as_json)


@commands.command("retry")
def retry_jobs(context: typer.Context, ids: JobIds, as_json: Json = False) -> None:
    """Give dead jobs another life, with a fresh budget of attempts."""

    async def retry(app: Sexton) -> list[Answer]:
        chosen = await app.redrive(*ids, limit=len(ids))
        revived = {each.id for each in chosen if each.revived}
        return [
            Answer(id, "redriven", "ready") if id in revived else await _untouched(app, id)
            for id in ids
        ]

    _answer(run(context, retry), as_json, only="dead")


def _answer(answers: list[Answer], as_json: bool, only: str = "live") -> None:
    """What was done on stdout, what could not be done on stderr and in the exit code."""
    if as_json:
        show_json({"jobs": answers})
    for each in answers:
        match each:
            case Answer(id, None, None):
                output.complain(f"no job {id}")
            case Answer(id, None, "dead") if only == "dead":
                output.complain(f"job {id} stays dead: another live job holds its key")
            case Answer(id, None, state):
                output.complain(f"job {id} is {state}, not {only}")
            case Answer() if as_json:
                pass
            case Answer(id, "asked"):
                say(f"job {id} runs; its worker was asked to stop it")
            case Answer(id, "redriven"):
                say(f"job {id} lives again")
            case Answer(id, done):
                say(f"job {id} is {done}")
    if any(each.done is None for each in answers):
        raise typer.Exit(ExitCode.FINDING)
