"""sexton dead ls|show|redrive|purge"""

import sys
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from sexton.cli import output
from sexton.cli.instants import Instant
from sexton.cli.jobs import described
from sexton.cli.output import ExitCode, count, say, say_more, show, show_json, when
from sexton.cli.parameters import Cursor, JobId, Json, Limit, Queue, Task, as_instant, one_of
from sexton.cli.progress import Bar, progress
from sexton.cli.session import run
from sexton.cli.site import Site, gathered
from sexton.domain.given import LARGEST_ID
from sexton.errors import ConfigurationError
from sexton.remote.views import Dead, DeadLine, Page, Redriven

commands = typer.Typer(
    no_args_is_help=True, help="Jobs that will not be tried again by themselves."
)
BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
REASONS = ("permanent", "exhausted", "expired")

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
# Each batch is a transaction of its own.
BATCH = 1000
# What a service looks at in one go.
MOST = 10_000


@commands.command("ls")
def list_dead(
    context: typer.Context,
    task: Task = None,
    queue: Queue = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only with this tag.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="Only with this key.")] = None,
    reason: Annotated[
        str | None,
        typer.Option(
            "--reason", metavar="|".join(REASONS), parser=one_of(REASONS), help="Only for this."
        ),
    ] = None,
    error: Error = None,
    since: Since = None,
    until: Until = None,
    cursor: Cursor = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """Dead jobs, newest first."""
    filters = {"task": task, "queue": queue, "tag": tag, "key": key, "reason": reason}
    filters |= {"error": error}

    async def look(site: Site) -> Page[DeadLine]:
        now = await site.now()
        return await gathered(
            site.dead,
            from_=since and since.resolved(now),
            to=until and until.resolved(now),
            limit=limit,
            cursor=cursor,
            **filters,
        )

    found = run(context, look)
    if as_json:
        show_json({"dead": found.items, "next": found.next})
        return
    if not found.items:
        chosen = any(filters.values()) or since or until or cursor
        say("no dead jobs" + (" like that" if chosen else ""))
        return
    made = output.table(
        *("id", "task", "queue", "died", "tries", "reason", "key", "error"),
        right=("id", "tries"),
        shrinks=("task", "queue", "key", "error"),
    )
    for job in found:
        output.row(
            made,
            *(job.id, job.task, job.queue, when(job.died_at), job.attempt, job.reason),
            *(job.key or "", output.first_line(job.error, 100)),
        )
    show(made)
    say_more(found.next)


@commands.command("show")
def show_dead(context: typer.Context, id: JobId, as_json: Json = False) -> None:
    """One dead job with its error and every attempt."""

    async def look(site: Site) -> Dead:
        return await site.dead_job(id)

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
    choice = _Choice(ids, task, queue, error, since, until, everything, limit)

    async def look(site: Site) -> list[Redriven]:
        filters = await choice.filters(site)
        return [
            each
            for part in choice.parts()
            for each in (await site.redrive(*part, **filters, limit=_few(limit), dry_run=True)).jobs
        ]

    async def redrive(site: Site, bar: Bar) -> list[Redriven]:
        filters = await choice.filters(site)
        chosen: dict[int, Redriven] = {}
        for part in choice.parts():
            while len(chosen) < limit or part:
                # Those that stay dead, because others hold their keys, are chosen every time.
                dead = sum(not each.revived for each in chosen.values())
                few = min(MOST, min(BATCH, limit - len(chosen)) + dead) if not part else BATCH
                answer = await site.redrive(*part, **filters, limit=few)
                fresh = [each for each in answer.jobs if each.id not in chosen]
                chosen |= {each.id: each for each in fresh}
                bar.step(sum(each.revived for each in fresh))
                if part or not fresh:
                    break
        return [*chosen.values()]

    if dry_run:
        chosen = run(context, look)
    else:
        with progress("jobs redriven", quiet=as_json) as bar:
            chosen = run(context, lambda site: redrive(site, bar))
    revived = [each for each in chosen if each.revived]
    if as_json:
        show_json(
            {"dry_run": dry_run, "chosen": len(chosen), "redriven": len(revived), "jobs": chosen}
        )
    else:
        _show_redriven(chosen, dry_run, choice.is_cut(len(chosen)))
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
    choice = _Choice(ids, task, queue, error, since, until, everything, limit)
    if not yes and not sys.stdin.isatty():
        raise ConfigurationError("nobody is here to confirm it: give --yes")

    async def look(site: Site) -> int:
        filters = await choice.filters(site)
        return sum(
            [
                (await site.purge(*part, **filters, limit=_few(limit), dry_run=True)).chosen
                for part in choice.parts()
            ]
        )

    async def purge(site: Site, bar: Bar) -> list[int]:
        purged: list[int] = []
        filters = await choice.filters(site)
        for part in choice.parts():
            while len(purged) < limit or part:
                few = min(BATCH, limit - len(purged)) if not part else BATCH
                gone = (await site.purge(*part, **filters, limit=few)).ids
                purged += gone
                bar.step(len(gone))
                if part or not gone:
                    break
        return purged

    if not yes:
        many = run(context, look)
        said = f"{many:,} or more dead jobs" if choice.is_cut(many) else count(many, "dead job")
        typer.confirm(f"Throw {said} away for good?", abort=True)
    with progress("dead jobs thrown away", quiet=as_json) as bar:
        purged = run(context, lambda site: purge(site, bar))
    if as_json:
        show_json({"purged": sorted(purged)})
    else:
        say(f"{count(len(purged), 'dead job')} thrown away")
    _missing(ids, set(purged))


class _Choice:
    """Which jobs are meant; nothing is ever meant by saying nothing."""

    def __init__(
        self,
        ids: list[int] | None,
        task: str | None,
        queue: str | None,
        error: str | None,
        since: Instant | None,
        until: Instant | None,
        everything: bool,
        limit: int,
    ) -> None:
        self.ids = ids or []
        self._filters: dict[str, Any] = {"task": task, "queue": queue, "error": error}
        self._since, self._until, self._limit = since, until, limit
        if not (ids or everything or since or until or any(self._filters.values())):
            raise ConfigurationError(
                "which ones? Give ids, or --task, --queue, --error, --since, --until, or --all"
            )

    async def filters(self, site: Site) -> dict[str, Any]:
        now = await site.now()
        if not self.ids or self._since is not None:
            since = self._since.resolved(now) if self._since else BEGINNING
            self._filters["since"] = since
        if self._until is not None:
            self._filters["until"] = self._until.resolved(now)
        return self._filters

    def is_cut(self, found: int) -> bool:
        """Whether there may be more than were looked at in one go."""
        return not self.ids and found == MOST < self._limit

    def parts(self) -> list[list[int]]:
        """The ids some at a time; without any, nothing but the filters."""
        return [self.ids[nth : nth + BATCH] for nth in range(0, len(self.ids), BATCH)] or [[]]


def _few(limit: int) -> int:
    return min(limit, MOST)


def _show_redriven(chosen: list[Redriven], dry_run: bool, cut: bool) -> None:
    held = [each for each in chosen if each.held]
    if dry_run:
        live = [each for each in chosen if not each.held]
        said = f"{len(live):,} or more dead jobs" if cut else count(len(live), "dead job")
        say(f"{said} would be redriven{_named(live)}")
    else:
        live = [each for each in chosen if each.revived]
        say(f"{count(len(live), 'job')} redriven{_named(live)}")
    if held:
        stay = "would stay" if dry_run else "stay"
        say(f"{count(len(held), 'job')} {stay} dead: a live one holds the key{_named(held)}")


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
