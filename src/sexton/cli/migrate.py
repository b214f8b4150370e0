"""sexton migrate"""

from typing import Annotated

import typer

from sexton.cli.output import ExitCode, say, show_json
from sexton.cli.parameters import Json
from sexton.cli.progress import waiting
from sexton.cli.session import embedded, is_somewhere, options, run_loop
from sexton.store.migrations import Migration, SchemaState, migrations


def migrate(
    context: typer.Context,
    check: Annotated[
        bool,
        typer.Option("--check", help="Change nothing: exit code 0 current, 1 behind, 2 newer."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Bring the schema up to date; safe when many processes do so at once."""

    async def look_or_change() -> tuple[list[Migration], SchemaState]:
        app = options(context).application()
        if check and not is_somewhere(app.settings):
            return [], SchemaState(app.settings.schema, 0, migrations()[-1].version)
        async with embedded(app.settings) as server:
            if server is not None:
                # Given as a server of the user's: opening it then changes nothing by itself.
                app.settings = app.settings.but(database_url=server.url)
            applied = [] if check else await app.migrate()
            return applied, await app.schema_state()

    with waiting("looking at the schema" if check else "migrating", quiet=as_json):
        applied, state = run_loop(look_or_change())
    if as_json:
        show_json(
            {
                "schema": state.schema,
                "version": state.found,
                "wanted": state.wanted,
                "current": state.current,
                "applied": [{"version": each.version, "name": each.name} for each in applied],
            }
        )
    else:
        for each in applied:
            say(f"applied {each.version:04} {each.name}")
        say(_said(state))
    if state.found > state.wanted:
        raise typer.Exit(ExitCode.USAGE)
    if not state.current:
        raise typer.Exit(ExitCode.FINDING)


def _said(state: SchemaState) -> str:
    where = f"schema {state.schema!r}"
    if state.current:
        return f"{where} is up to date, version {state.found}"
    if state.found == 0:
        return f"there is no {where} yet: run `sexton migrate`"
    if state.found < state.wanted:
        return f"{where} is at version {state.found} of {state.wanted}: run `sexton migrate`"
    return (
        f"{where} is at version {state.found}, newer than this code's {state.wanted}: "
        "upgrade Sexton here"
    )
