"""sexton doctor"""

import typer
from rich.text import Text

from sexton.cli import output
from sexton.cli.output import ExitCode, clean, count, say, show, show_json
from sexton.cli.parameters import Json
from sexton.cli.session import embedded, is_somewhere, options, run_loop
from sexton.doctor.examine import examine
from sexton.doctor.finding import Finding
from sexton.errors import ConfigurationError

STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red", "unknown": "dim"}


def doctor(context: typer.Context, as_json: Json = False) -> None:
    """Look for what is wrong, and say what to do about it; exit code 1 if there is a problem."""

    async def look() -> list[Finding]:
        app = options(context).application()
        if not is_somewhere(app.settings):
            raise ConfigurationError(
                "there is no Sexton here: go to its folder, or set SEXTON_DATABASE_URL"
            )
        async with embedded(app.settings) as server:
            if server is not None:
                # Given as a server of the user's: opening it then changes nothing by itself.
                app.settings = app.settings.but(database_url=server.url)
            return await examine(await app.address(), await app.schema_state())

    found = run_loop(look())
    many = {level: sum(each.level == level for each in found) for level in STYLES}
    if as_json:
        show_json({"findings": found, **{f"{level}s": n for level, n in many.items()}})
    else:
        made = output.table("", "check", "found", "do", shrinks=("found", "do"))
        for each in found:
            level = Text(each.level, style=STYLES[each.level], no_wrap=True)
            made.add_row(level, *(Text(clean(t)) for t in (each.check, each.what, each.do)))
        show(made)
        unknown = f", {many['unknown']:,} unknown" if many["unknown"] else ""
        say(f"{count(many['problem'], 'problem')}, {count(many['warning'], 'warning')}{unknown}")
    if many["problem"]:
        raise typer.Exit(ExitCode.FINDING)
