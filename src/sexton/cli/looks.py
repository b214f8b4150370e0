"""sexton stuck|workers|queues"""

from typing import Annotated

import typer

from sexton.cli import output
from sexton.cli.output import ExitCode, lasted, say, show, show_json, when
from sexton.cli.parameters import Json, as_seconds
from sexton.cli.session import at_database, run
from sexton.cli.site import Site, gathered
from sexton.remote.views import Page, Queue, Worker

MOST = 100_000


def stuck(
    context: typer.Context,
    silent_for: Annotated[
        float,
        typer.Option(
            "--silent-for",
            metavar="DURATION",
            parser=as_seconds,
            help="Its worker has not renewed for so long.",
        ),
    ] = 60.0,
    as_json: Json = False,
) -> None:
    """Running jobs, by task, whose worker has gone silent; exit code 1 if there are any."""
    found = at_database(context, lambda app: app.stuck(silent_for))
    if as_json:
        show_json({"stuck": found})
    elif not found:
        say(f"nothing is stuck: every running job's worker renewed within {lasted(silent_for)}")
    else:
        made = output.table(
            *("task", "jobs", "worker", "silent for", "longest", "ids"),
            right=("jobs",),
            shrinks=("task", "ids", "worker"),
        )
        for each in found:
            ids = ", ".join(map(str, each.ids)) + (", …" if each.jobs > len(each.ids) else "")
            output.row(
                made,
                *(each.task, each.jobs, f"{each.worker} ({each.worker_id})"),
                *(lasted(each.silent_for), lasted(each.longest), ids),
            )
        show(made)
    if found:
        raise typer.Exit(ExitCode.FINDING)


def workers(context: typer.Context, as_json: Json = False) -> None:
    """The workers that live."""

    async def look(site: Site) -> Page[Worker]:
        return await gathered(site.workers, limit=MOST)

    found = run(context, look).items
    if as_json:
        show_json({"workers": found})
        return
    if not found:
        say("no workers; start one with `sexton worker APP`")
        return
    made = output.table(
        *("id", "name", "queues", "running", "since", "renewed", "lease until", "version"),
        right=("id", "running"),
        shrinks=("name", "queues"),
    )
    for each in found:
        output.row(
            made,
            *(each.id, each.name, ", ".join(each.queues), each.running, when(each.started_at)),
            *(when(each.renewed_at), when(each.lease_until), each.version),
        )
    show(made)


def queues(context: typer.Context, as_json: Json = False) -> None:
    """How many live jobs each queue has, by state, and how long the oldest has been ready."""

    async def look(site: Site) -> list[Queue]:
        return await site.queues()

    found = run(context, look)
    if as_json:
        show_json({"queues": found})
        return
    if not found:
        say("no live jobs in any queue")
        return
    numbers = ("waiting", "ready", "running", "oldest")
    made = output.table("queue", *numbers, right=numbers, shrinks=("queue",))
    for each in found:
        oldest = each.oldest_ready_for
        output.row(
            made,
            *(each.queue, f"{each.waiting:,}", f"{each.ready:,}", f"{each.running:,}"),
            "" if oldest is None else lasted(oldest),
        )
    show(made)
