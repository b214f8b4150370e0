"""The door: global options, every command, and errors as one line and an exit code."""

import sys
import traceback
from pathlib import Path
from typing import Annotated

import asyncpg
import typer

from sexton import __version__
from sexton.cli import (
    api,
    audit,
    audit_log,
    calendar,
    cluster,
    completion,
    crontabs,
    dead,
    deploy,
    dev,
    doctor,
    endpoint,
    explain,
    export,
    fires,
    installation,
    jobs,
    key,
    looks,
    migrate,
    schedule,
    scheduler,
    secret_key,
    tenant,
    torture,
    worker,
)
from sexton.cli.output import EXIT_CODES, ExitCode, complain, say
from sexton.cli.parameters import paragraphs
from sexton.cli.session import Options
from sexton.errors import EmbeddedError, SextonError, UnknownJob, UnknownSchedule
from sexton.store.connection import is_lost

# These may stand anywhere on the line, before the command or after it.
_WITH_VALUE = (
    *("--database-url", "--schema", "--data-folder"),
    *("--server", "--key-file", "--tenant"),
)
_DEBUG = "--debug"

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"sexton {__version__}")
        raise typer.Exit


@app.callback()
def sexton(
    context: typer.Context,
    database_url: Annotated[
        str | None,
        typer.Option(
            "--database-url",
            metavar="URL",
            help="A PostgreSQL of yours; SEXTON_DATABASE_URL. Without: the embedded one.",
        ),
    ] = None,
    data_folder: Annotated[
        Path | None,
        typer.Option(
            "--data-folder",
            metavar="FOLDER",
            help="Where the embedded PostgreSQL lives; SEXTON_DATA_FOLDER, or ./.sexton.",
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema", metavar="NAME", help="Which installation; SEXTON_SCHEMA, or sexton."
        ),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            metavar="URL",
            help="A service instead of a database, as `sexton api` is one; SEXTON_SERVER.",
        ),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file", metavar="FILE", help="Has the key for the service; or SEXTON_KEY."
        ),
    ] = None,
    tenant_name: Annotated[
        str | None,
        typer.Option(
            "--tenant",
            metavar="NAME",
            help="Whose; `default`. To a service the key says it.",
        ),
    ] = None,
    debug: Annotated[bool, typer.Option(_DEBUG, help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say it and end.")
    ] = False,
) -> None:
    """A job scheduler and queue on PostgreSQL: every fire once, every job claimed once."""
    context.obj = Options(database_url, schema, data_folder, server, key_file, tenant_name)


app.command()(dev.dev)
app.command()(worker.worker)
app.command()(scheduler.scheduler)
app.command()(api.api)
app.command()(migrate.migrate)
app.add_typer(schedule.commands, name="schedule")
for each in (fires.commands, deploy.commands, crontabs.commands, export.commands):
    schedule.commands.registered_commands += each.registered_commands
schedule.commands.command()(explain.explain)
app.add_typer(calendar.commands, name="calendar")
app.add_typer(jobs.commands, name="job")
app.add_typer(dead.commands, name="dead")
app.add_typer(endpoint.commands, name="endpoint")
app.add_typer(tenant.commands, name="tenant")
app.add_typer(key.commands, name="key")
app.command()(secret_key.secret_key)
app.command("audit-log")(audit_log.audit_log)
app.command()(cluster.cluster)
app.command()(audit.audit)
app.command()(doctor.doctor)
app.command()(looks.queues)
app.command()(looks.workers)
app.command()(looks.stuck)
app.command()(installation.installation)
app.command()(installation.retention)
app.command(help=paragraphs(torture.torture))(torture.torture)
app.command()(completion.completion)


def global_first(words: list[str]) -> list[str]:
    """The global options before everything else, which is where the parser wants them."""
    ahead, rest = [], []
    words = list(words)
    while words:
        word = words.pop(0)
        if word == "--":
            rest += [word, *words]
            break
        if word in _WITH_VALUE and words:
            ahead += [word, words.pop(0)]
        elif word == _DEBUG or word.startswith(tuple(f"{each}=" for each in _WITH_VALUE)):
            ahead.append(word)
        else:
            rest.append(word)
    return ahead + rest


def exit_code(error: Exception) -> ExitCode:
    if is_lost(error):
        return ExitCode.UNAVAILABLE
    match error:
        case UnknownJob() | UnknownSchedule():
            return ExitCode.FINDING
        case EmbeddedError():
            return ExitCode.UNAVAILABLE
        case _:
            return ExitCode.USAGE


def main() -> None:
    """The entry point of the `sexton` program."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    completion.answer(app, global_first)
    words = global_first(sys.argv[1:])
    try:
        app(words, prog_name="sexton")
    except (SextonError, asyncpg.PostgresError) as error:
        if _DEBUG in words:
            traceback.print_exc()
        known = isinstance(error, SextonError)
        complain(str(error) if known else f"PostgreSQL: {error}")
        sys.exit(exit_code(error))
    except UnicodeEncodeError:
        if _DEBUG in words:
            traceback.print_exc()
        complain("there is a word on the line that is not UTF-8")
        sys.exit(ExitCode.USAGE)


if __name__ == "__main__":
    main()
