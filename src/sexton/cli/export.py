"""sexton schedule export: schedules as JSON lines, which `schedule import` and the API take back"""

import json
from collections import Counter
from typing import Annotated, Any

import typer

from sexton.cli.complete import tasks
from sexton.cli.output import complain, count, write
from sexton.cli.schedule import State, said
from sexton.cli.session import run
from sexton.cli.site import AT_ONCE, Site
from sexton.remote.views import Schedule

commands = typer.Typer()


@commands.command("export")
def export_schedules(
    context: typer.Context,
    state: Annotated[
        State | None,
        typer.Option("--state", help="Only these; without, all but cancelled and ended ones."),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            "--task", help="Only of this task, or for this endpoint.", autocompletion=tasks
        ),
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only with this tag.")] = None,
    text: Annotated[str | None, typer.Option("--text", help="Only with this in the name.")] = None,
) -> None:
    """What schedules say, a JSON object a line: for `schedule import`, here or elsewhere."""
    filters = {"state": state and state.value, "target": task, "tag": tag, "text": text}
    states: Counter[str] = Counter()

    async def export(site: Site) -> None:
        cursor = None
        while True:
            page = await site.schedules.list(**filters, limit=AT_ONCE, cursor=cursor)
            kept = [each for each in page if state is not None or each.state != "ended"]
            states.update(each.state for each in kept)
            write("".join(json.dumps(_line(each)) + "\n" for each in kept))
            if (cursor := page.next) is None:
                return

    run(context, export)
    if others := states.total() - states["active"]:
        complain(
            f"{count(others, 'schedule')} of {states.total():,} "
            f"{'is' if others == 1 else 'are'} not active, which the lines do not say: "
            "where they are new, they begin"
        )


def _line(view: Schedule) -> dict[str, Any]:
    """As the API takes it."""
    options = {name: value for name, value in said(view).items() if value not in (None, [])}
    return {"name": view.name, "target": view.target, "payload": view.payload, **options}
