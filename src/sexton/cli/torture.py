"""sexton torture"""

import secrets
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from sexton.cli.output import ExitCode, complain, say, show_json
from sexton.cli.parameters import Json
from sexton.cli.session import options, run_loop

MOST_SEED = 2**31


def torture(
    context: typer.Context,
    seconds: Annotated[
        float, typer.Option("--seconds", min=10, help="How long it is hurt.")
    ] = 900.0,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Of the work and the faults; without: a new one."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder", help="Where everything is written down; kept. Without: a temporary one."
        ),
    ] = None,
    nodes: Annotated[int, typer.Option("--nodes", min=1, max=50)] = 5,
    workers: Annotated[int, typer.Option("--workers", min=1, max=50)] = 4,
    apis: Annotated[int, typer.Option("--apis", min=1, max=20)] = 2,
    fires: Annotated[
        float, typer.Option("--fires", min=1, help="Fires a second that are due.")
    ] = 110.0,
    intensity: Annotated[
        float, typer.Option("--intensity", min=0.0, help="How many faults; 1: one in two seconds.")
    ] = 1.0,
    as_json: Json = False,
) -> None:
    """Hurt a scratch cluster in every way we know and count what it lost or doubled.

    Starts nodes, workers, services and a PostgreSQL with a standby, all of its own; kills, stops,
    cuts and restarts them while they work; then checks every fire and every job. With
    --database-url the cluster works on that scratch server, in a schema of its own, and the
    server's processes are left in peace.

    Exit code 1: a promise was broken, and the report says which, when and how to see it again.
    """
    from sexton.torture.cast import Size
    from sexton.torture.command import Asked, perform

    chosen = secrets.randbelow(MOST_SEED) if seed is None else seed
    where = folder or Path(tempfile.mkdtemp(prefix=f"torture-{chosen}-"))
    asked = Asked(
        folder=where,
        seed=chosen,
        seconds=seconds,
        url=options(context).database_url,
        size=Size(nodes, workers, apis, fires_per_second=fires, intensity=max(intensity, 0.001)),
    )
    report = run_loop(perform(asked, say=(lambda _: None) if as_json else say))
    if as_json:
        show_json(report.as_json)
    else:
        for line in report.lines():
            say(line)
    if not report.clean:
        complain(f"a promise was broken; everything is in {where}")
        raise typer.Exit(ExitCode.FINDING)
