"""sexton stuck|workers|queues|retention"""

from typing import Annotated

import typer
from rich.text import Text

from sexton import Sexton
from sexton.cli import output
from sexton.cli.output import ExitCode, lasted, say, show, show_json, when
from sexton.cli.parameters import Json, as_seconds, reads
from sexton.cli.session import at_database, run
from sexton.cli.site import Site, gathered
from sexton.domain.duration import seconds
from sexton.remote.views import Page, Queue, Worker

DAY = 86400.0
MOST = 100_000
FOREVER = "forever"


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
            shrinks=("ids", "worker"),
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
        right=("running",),
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
    made = output.table("queue", *numbers, right=numbers)
    for each in found:
        oldest = each.oldest_ready_for
        output.row(
            made,
            *(each.queue, f"{each.waiting:,}", f"{each.ready:,}", f"{each.running:,}"),
            "" if oldest is None else lasted(oldest),
        )
    show(made)


def _retention(text: str) -> float:
    """0 stands for ever, which is no length of time."""
    if text.strip().lower() == FOREVER:
        return 0.0
    length = seconds(text)
    if length < DAY:
        raise ValueError(f"{text!r} is too short: history is dropped by whole days, at least 1d")
    return length


def retention(
    context: typer.Context,
    history: Annotated[
        float | None,
        typer.Option(
            "--history", metavar="DURATION", parser=reads(_retention), help="Keep attempts: 90d."
        ),
    ] = None,
    dead: Annotated[
        float | None,
        typer.Option(
            "--dead", metavar="DURATION|forever", parser=reads(_retention), help="Keep dead jobs."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """How long history and dead jobs are kept; with an option, change it."""
    if history == 0:
        raise typer.BadParameter("history is dropped some day: give a duration such as 3650d")

    async def keep(app: Sexton) -> tuple[float, float | None]:
        store = (await app.client()).store
        return await store.history.set_retention(history, dead or None, dead is not None)

    kept, kept_dead = at_database(context, keep)
    if as_json:
        show_json({"history": kept, "dead": kept_dead})
    else:
        show(
            output.facts(
                [
                    ("history", Text(_days(kept))),
                    ("dead jobs", Text(FOREVER if kept_dead is None else _days(kept_dead))),
                ]
            )
        )


def _days(length: float) -> str:
    return output.count(round(length / DAY), "day") if length % DAY == 0 else lasted(length)
