"""sexton scheduler"""

import logging
from typing import Annotated

import typer

from sexton.cli.parameters import LogLevel
from sexton.cli.session import log_to, options, run_loop


def scheduler(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Option("--name", help="What it is called in lists and the ledger.")
    ] = None,
    log_level: LogLevel = "info",
) -> None:
    """Fire schedules until SIGTERM or Ctrl-C: one node of the cluster; run two or more."""
    log_to(logging.StreamHandler(), log_level)
    app = options(context).application()

    async def fire() -> None:
        async with app:
            await app.run_scheduler(name=name, handle_signals=True)

    run_loop(fire())
