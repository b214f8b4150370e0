"""sexton scheduler"""

import logging
from typing import Annotated

import typer

from sexton.cli.parameters import LogFormat, LogLevel, Observe
from sexton.cli.session import called, log_to, options, run_loop


def scheduler(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Option("--name", help="What it is called in lists and the ledger.")
    ] = None,
    observe: Observe = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = None,
) -> None:
    """Fire schedules until SIGTERM or Ctrl-C: one node of the cluster; run two or more."""
    log_to(logging.StreamHandler(), log_level, log_format, node=called(name))
    app = options(context).application()
    app.settings = app.settings.but(observe=observe or app.settings.observe)

    async def fire() -> None:
        async with app:
            await app.run_scheduler(name=name, handle_signals=True)

    run_loop(fire())
