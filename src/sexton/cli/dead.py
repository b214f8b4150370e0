"""sexton dead ls|show|redrive|purge"""

import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from sexton import DeadJob, JobView, Sexton
from sexton.cli import output
from sexton.cli.instants import Instant
from sexton.cli.jobs import described
from sexton.cli.output import ExitCode, count, say, show, show_json, when
from sexton.cli.parameters import JobId, Json, Limit, Queue, Task, as_instant
from sexton.cli.session import run
from sexton.domain.given import LARGEST_ID
from sexton.errors import ConfigurationError, UnknownJob
from sexton.store.history import Redriven

commands = typer.Typer(
    no_args_is_help=True, help="Jobs that will not be tried again by themselves."
)
BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)

Ids = Annotated[
    list[int] | None, typer.Argument(metavar="[ID]...", min=1, max=LARGEST_ID, help="Ids of jobs.")
]
Error = Annotated[str | None, typer.Option("--error", help="Only if the error contains this.")]
Since = Annotated[
    Instant | None,
    typer.Option("--since", metavar="INSTANT", parser=as_instant, help="Died from then on: -1h."),
]
Until = Annotated[
    Instant | None,
    typer.Option("--until", metavar="INSTANT", parser=as_instant, help="Died before: -5m."),
]
Everything = Annotated[bool, typer.Option("--all", help="All of them.")]
Choose = Callable[[Sexton, bool], Awaitable[list[Redriven]]]


@commands.command("ls")
def list_dead(
    context: typer.Context,
    task: Task = None,
    queue: Queue = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """Dead jobs, newest first."""

    async def look(app: Sexton) -> list[DeadJob]:
        return await app.dead(task=task, queue=queue, limit=limit)

    dead = run(context, look)
    if as_json:
        show_json({"dead": dead})
        return
    if not dead:
        say("no dead jobs" + (" like that" if task or queue else ""))
        return
    made = output.table(
        *("id", "task", "queue", "died", "tries", "reason", "arguments", "error"),
        right=("id", "tries"),
        shrinks=("key", "arguments", "error"),
    )
    for job in dead:
        output.row(
            made,
            *(job.id, job.task, job.queue, when(job.died_at), job.attempt, job.reason),
            *(output.compact(job.payload, 40), output.first_line(job.error, 100)),
        )
    show(made)
    if len(dead) == limit:
        say(f"these are the newest {limit:,}; --limit shows more")


@commands.command("show")
def show_dead(context: typer.Context, id: JobId, as_json: Json = False) -> None:
    """One dead job with its error and every attempt."""

    async def look(app: Sexton) -> JobView:
        job = await app.job(id)
        if job.state != "dead":
            raise UnknownJob(f"job {id} is {job.state}, not dead: see `sexton job show {id}`")
        return job

    job = run(context, look)
    if as_json:
        show_json(job)
    else:
        show(*described(job))


@commands.command("redrive")
def redrive_dead(
    context: typer.Context,
    ids: Ids = None,
    task: Task = None,
    queue: Queue = None,
    error: Error = None,
    since: Since = None,
    until: Until = None,
    everything: Everything = False,
    limit: Limit = 1000,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which.")] = False,
    as_json: Json = False,
) -> None:
    """Give dead jobs another life: these, or those that the filters choose."""
    choose = _chooser(ids, task, queue, error, since, until, everything, limit)
    chosen = run(context, lambda app: choose(app, dry_run))
    revived = [each for each in chosen if each.revived]
    if as_json:
        show_json(
            {"dry_run": dry_run, "chosen": len(chosen), "redriven": len(revived), "jobs": chosen}
        )
    elif dry_run:
        say(f"{count(len(chosen), 'dead job')} would be redriven{_named(chosen)}")
    else:
        say(f"{count(len(revived), 'job')} redriven{_named(revived)}")
        held = [each for each in chosen if not each.revived]
        if held:
            say(f"{count(len(held), 'job')} stay dead: a live one holds the key{_named(held)}")
    _missing(ids, {each.id for each in chosen})
    if not dry_run and len(revived) < len(chosen):
        raise typer.Exit(ExitCode.FINDING)


@commands.command("purge")
def purge_dead(
    context: typer.Context,
    ids: Ids = None,
    task: Task = None,
    queue: Queue = None,
    error: Error = None,
    since: Since = None,
    until: Until = None,
    everything: Everything = False,
    limit: Limit = 1000,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Throw dead jobs away for good; asks first. Their history stays until its time."""
    choose = _chooser(ids, task, queue, error, since, until, everything, limit)
    if not yes and not sys.stdin.isatty():
        raise ConfigurationError("nobody is here to confirm it: give --yes")
    chosen = [each.id for each in run(context, lambda app: choose(app, True))]
    purged: list[int] = []
    if chosen:
        if not yes:
            typer.confirm(f"Throw {count(len(chosen), 'dead job')} away for good?", abort=True)
        purged = run(context, lambda app: app.purge(*chosen))
    if as_json:
        show_json({"purged": sorted(purged)})
    else:
        say(f"{count(len(purged), 'dead job')} thrown away")
    _missing(ids, set(chosen))


def _chooser(
    ids: list[int] | None,
    task: str | None,
    queue: str | None,
    error: str | None,
    since: Instant | None,
    until: Instant | None,
    everything: bool,
    limit: int,
) -> Choose:
    """Which jobs are meant; nothing is ever meant by saying nothing."""
    filters: dict[str, Any] = {"task": task, "queue": queue, "error": error}
    if not (ids or everything or since or until or any(filters.values())):
        raise ConfigurationError(
            "which ones? Give ids, or --task, --queue, --error, --since, --until, or --all"
        )

    async def choose(app: Sexton, dry_run: bool) -> list[Redriven]:
        now = await (await app.client()).store.history.clock()
        return await app.redrive(
            *(ids or ()),
            **filters,
            since=since.resolved(now) if since else BEGINNING,
            until=until.resolved(now) if until else None,
            limit=limit,
            dry_run=dry_run,
        )

    return choose


def _named(jobs: list[Redriven]) -> str:
    if not jobs:
        return ""
    ids = ", ".join(str(each.id) for each in jobs[:10])
    return f": {ids}" + (", …" if len(jobs) > 10 else "")


def _missing(ids: list[int] | None, found: set[int]) -> None:
    missing = [id for id in ids or () if id not in found]
    for id in missing:
        output.complain(f"no dead job {id}")
    if missing:
        raise typer.Exit(ExitCode.FINDING)
