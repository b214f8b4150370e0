"""sexton torture"""

import asyncio
import math
import secrets
import shutil
import signal
import tempfile
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from sexton.cli.output import ExitCode, complain, say, show_json
from sexton.cli.parameters import Json
from sexton.cli.session import Options, options, run_loop
from sexton.errors import ConfigurationError, SextonError

if TYPE_CHECKING:
    from sexton.torture.command import Report

MOST_SEED = 2**31
_LONGEST = 30 * 86_400.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise typer.BadParameter(f"{value} is no number to work with")
    return value


def torture(
    context: typer.Context,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds",
            min=10,
            max=_LONGEST,
            callback=_finite,
            help="How long it is hurt; to begin, to finish and to be judged takes a minute more.",
        ),
    ] = 900.0,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Of the work and the faults; without: a new one."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            help="Where everything is written down; kept. Without: a temporary one, which is kept "
            "if something was found.",
        ),
    ] = None,
    nodes: Annotated[int, typer.Option("--nodes", min=1, max=50)] = 5,
    workers: Annotated[int, typer.Option("--workers", min=1, max=50)] = 4,
    apis: Annotated[int, typer.Option("--apis", min=1, max=20)] = 2,
    fires: Annotated[
        float,
        typer.Option(
            "--fires", min=1, max=10_000, callback=_finite, help="Fires a second that are due."
        ),
    ] = 110.0,
    intensity: Annotated[
        float,
        typer.Option(
            "--intensity",
            min=0.0,
            max=20.0,
            callback=_finite,
            help="How many faults; 1: one in two seconds, 0: none.",
        ),
    ] = 1.0,
    as_json: Json = False,
) -> None:
    """Hurt a scratch cluster in every way we know and count what it lost or doubled.

    Starts nodes, workers, services and a PostgreSQL with a standby, all of its own; kills, stops,
    cuts and restarts them while they work; then checks every fire and every job.

    With --database-url the cluster works on that scratch server, in schemas of its own. The server
    is not stopped, and its connections are not used up; but sessions of the run are ended, the CPU
    is burnt, and with every other seed two transactions stay open. SEXTON_DATABASE_URL is not read:
    nobody shall torture by accident.

    Exit codes: 0 everything was checked and nothing is broken; 1 a promise was broken, and the
    report says which, when and how to see it again, or a process fell, did not end or did not come
    back; 2 wrong usage, or what a run cannot have; 3 no verdict: the server is not available, the
    rig failed, or something was not checked; 128 and the number of the signal that stopped it.
    """
    from sexton.torture.cast import Size
    from sexton.torture.command import Asked, perform

    url = _scratch_server(options(context))
    chosen = secrets.randbelow(MOST_SEED) if seed is None else seed
    where = folder or Path(tempfile.mkdtemp(prefix=f"torture-{chosen}-"))
    size = Size(nodes, workers, apis, fires_per_second=fires, intensity=intensity)
    asked = Asked(where, chosen, seconds, url, size)
    stop = _Stop()
    try:
        tell = _silent if as_json else say
        report = run_loop(stop.heed(perform(asked, say=tell, warn=complain)))
    except asyncio.CancelledError:
        if folder is None:
            shutil.rmtree(where, ignore_errors=True)
        complain(f"done: no verdict, and {'nothing' if folder is None else where} is kept")
        stop.leave()
    except SextonError:
        if folder is None:
            with suppress(OSError):
                where.rmdir()  # if it has come to nothing
        raise
    if as_json:
        show_json(report.as_json)
    else:
        for line in report.lines():
            say(line)
    if report.broken:
        complain(f"not clean: everything is in {where}")
        raise typer.Exit(ExitCode.FINDING)
    if not report.clean:
        complain(f"no verdict, because not everything was checked: everything is in {where}")
        raise typer.Exit(ExitCode.UNAVAILABLE)
    if folder is None:
        shutil.rmtree(where, ignore_errors=True)


def _scratch_server(given: Options) -> str | None:
    """Everything else that can be said before the command is about an installation there is."""
    for option, value in (
        ("--schema", given.schema),
        ("--data-folder", given.data_folder),
        ("--server", given.server),
        ("--key-file", given.key_file),
        ("--tenant", given.tenant),
    ):
        if value is not None:
            raise ConfigurationError(f"torture makes all that it hurts: {option} says nothing here")
    return given.database_url


class _Stop:
    """The first signal takes everything down in order; others do not disturb that."""

    def __init__(self) -> None:
        self._heard: int | None = None

    async def heed(self, work: Awaitable["Report"]) -> "Report":
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        for each in _SIGNALS:
            loop.add_signal_handler(each, self._hear, each, task)
        return await work

    def _hear(self, number: int, task: asyncio.Task[object]) -> None:
        if self._heard is None:
            self._heard = number
            complain("taking everything down: a moment")
            task.cancel()

    def leave(self) -> NoReturn:
        raise typer.Exit(128 + (self._heard or signal.SIGINT))


def _silent(_: str) -> None:
    """For programs there is only the report."""
