"""sexton api"""

import gc
import logging
from typing import Annotated

import typer

from sexton.cli.parameters import LogFormat, LogLevel, Observe
from sexton.cli.session import called, log_to, options, run_loop
from sexton.cli.worker import GC_THRESHOLD


def api(
    context: typer.Context,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="Where to listen; SEXTON_API_HOST, or 127.0.0.1. Anything else needs a key first.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=0, max=65535, help="SEXTON_API_PORT, or 8000; 0 takes any that is free."
        ),
    ] = None,
    observe: Observe = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = None,
) -> None:
    """Serve the REST API until SIGTERM or Ctrl-C; requests that have begun are finished."""
    from sexton.api.server import serve  # half a second that no other command needs

    log_to(logging.StreamHandler(), log_level, log_format, api=called(None))
    app = options(context).application()
    settings = app.settings
    app.settings = settings = settings.but(
        observe=observe or settings.observe,
        api_host=host or settings.api_host,
        api_port=settings.api_port if port is None else port,
    )
    # As in a worker: requests leave hardly any cycles behind.
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLD)
    run_loop(serve(app, settings.api_host, settings.api_port))
