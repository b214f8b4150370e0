"""sexton schedule explain"""

from typing import Annotated

import typer
from rich.console import RenderableType

from sexton.cli import output
from sexton.cli.complete import schedules
from sexton.cli.instants import Instant
from sexton.cli.output import show, show_json
from sexton.cli.parameters import Json, as_instant
from sexton.cli.session import run
from sexton.cli.site import Site
from sexton.remote.views import Explanation


def explain(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The schedule's name.", autocompletion=schedules)
    ],
    at: Annotated[
        Instant,
        typer.Option(
            "--at",
            metavar="INSTANT",
            parser=as_instant,
            help="Which fire: 2026-03-29T02:30:00+01:00, -10m; without a fraction, of that second.",
        ),
    ],
    as_json: Json = False,
) -> None:
    """Say what became of a fire and why, or which fires are next to an instant."""

    async def look(site: Site) -> Explanation:
        return await site.schedules.explain(name, at.resolved(await site.now()))

    found = run(context, look)
    if as_json:
        show_json(found)
    else:
        show(*_described(name, found))


def _described(name: str, found: Explanation) -> list[RenderableType]:
    verdict = found.verdict.replace("_", " ")
    shown: list[RenderableType] = [
        output.facts(
            [
                ("schedule", name),
                ("asked", found.at.isoformat()),
                ("fire at", found.fire_at and found.fire_at.isoformat()),
                ("verdict", output.state(verdict)),
            ]
        ),
        "",
    ]
    shown += [output.clean(sentence) for sentence in found.sentences]
    near = [("before", found.before), ("after", found.after)]
    if any(each for _, each in near):
        made = output.table("", "fire at", "verdict", "note", shrinks=("note",))
        for word, each in near:
            if each is not None:
                fate = each.verdict.replace("_", " ")
                output.row(made, word, each.fire_at.isoformat(), fate, each.note or "")
        shown += ["", made]
    return shown
