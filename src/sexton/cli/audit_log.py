"""sexton audit-log"""

from typing import Annotated

import typer

from sexton.cli import output
from sexton.cli.instants import Instant
from sexton.cli.output import say, say_more, show, show_json, when
from sexton.cli.parameters import Cursor, Json, Limit, as_instant
from sexton.cli.session import run
from sexton.cli.site import Site, gathered
from sexton.remote.admin import LogLine
from sexton.remote.views import Page


def audit_log(
    context: typer.Context,
    action: Annotated[str | None, typer.Option("--action", help="Only: schedule.pause.")] = None,
    actor: Annotated[str | None, typer.Option("--actor", help="Only by exactly this one.")] = None,
    subject: Annotated[str | None, typer.Option("--subject", help="Only to exactly this.")] = None,
    start: Annotated[
        Instant | None,
        typer.Option("--from", metavar="INSTANT", parser=as_instant, help="From then on: -1d."),
    ] = None,
    end: Annotated[
        Instant | None, typer.Option("--to", metavar="INSTANT", parser=as_instant, help="Before.")
    ] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """What was changed: by whom, from where, before and after."""

    async def look(site: Site) -> Page[LogLine]:
        now = await site.now()
        return await gathered(
            site.audit_log,
            action=action,
            actor=actor,
            subject=subject,
            from_=start and start.resolved(now),
            to=end and end.resolved(now),
            limit=limit,
            cursor=cursor,
        )

    found = run(context, look)
    if as_json:
        show_json({"lines": found.items, "next": found.next})
        return
    if not found.items:
        say("nothing was changed" + (" like that" if action or actor or subject else ""))
        return
    made = output.table(
        *("at", "actor", "from", "action", "subject", "after"),
        shrinks=("actor", "from", "subject", "after"),
    )
    for each in found:
        output.row(
            made,
            *(when(each.at), each.actor, each.address, each.action, each.subject),
            "" if each.after is None else output.compact(each.after, 80),
        )
    show(made)
    say_more(found.next)
