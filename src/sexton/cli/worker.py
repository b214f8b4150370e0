"""sexton worker"""

import gc
import logging
from typing import Annotated

import typer

from sexton.app import DEFAULT_CONCURRENCY
from sexton.cli.locate import locate
from sexton.cli.parameters import LogFormat, LogLevel, Observe
from sexton.cli.session import called, log_to, options, run_loop

GC_THRESHOLD = (50_000, 20, 50)


def _slots(text: str, usual: int) -> tuple[str, int]:
    """`name` or `name:concurrency`."""
    name, colon, many = text.rpartition(":")
    if not colon:
        return text, usual
    if not name or not many.isdecimal():
        raise typer.BadParameter(f"{text!r} is not a queue: write it like billing or billing:10")
    return name, int(many)


def worker(
    context: typer.Context,
    app_name: Annotated[
        str | None,
        typer.Argument(
            metavar="APP",
            help="The application: module:attribute. Without: only deliveries to HTTP endpoints.",
        ),
    ] = None,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            "--queue",
            metavar="NAME[:CONCURRENCY]",
            help="Serve this queue, so many jobs at once; may be given more than once. "
            "Without: every queue that the tasks of APP name. Deliveries to HTTP endpoints are in "
            "the queue http.",
        ),
    ] = None,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, help="Jobs at once, for each queue.")
    ] = DEFAULT_CONCURRENCY,
    name: Annotated[
        str | None, typer.Option("--name", help="What it is called in lists and history.")
    ] = None,
    observe: Observe = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = None,
) -> None:
    """Run the jobs of an application until SIGTERM or Ctrl-C."""
    log_to(logging.StreamHandler(), log_level, log_format, worker=called(name))
    chosen = options(context)
    app = chosen.application() if app_name is None else chosen.applied(locate(app_name))
    if app_name is None and not queue:
        raise typer.BadParameter("give APP, or --queue http for deliveries to HTTP endpoints")
    app.settings = app.settings.but(observe=observe or app.settings.observe)
    slots = dict(_slots(each, concurrency) for each in queue) if queue else None

    async def work() -> None:
        async with app:
            await app.run_worker(slots, concurrency=concurrency, name=name, handle_signals=True)

    # A worker makes and drops tens of thousands of objects in a second, hardly any in cycles:
    # looking through all of them that often costs a fifth of its time.
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLD)
    run_loop(work())
