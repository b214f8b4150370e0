"""sexton calendar put|ls|show|users|rm"""

from typing import Annotated

import msgspec
import typer

from sexton.cli import output
from sexton.cli.complete import calendars
from sexton.cli.output import count, dated, say, say_more, show, show_json, when
from sexton.cli.parameters import Cursor, Json, Limit
from sexton.cli.session import run
from sexton.cli.site import Site, gathered
from sexton.remote.views import Calendar, Page

commands = typer.Typer(
    no_args_is_help=True, help="Calendars: dates that schedules keep out of or in."
)
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The calendar's name.", autocompletion=calendars)
]


@commands.command("put")
def put_calendar(
    context: typer.Context,
    name: Name,
    date: Annotated[
        list[str] | None,
        typer.Option("--date", help="2026-12-25, or --12-25 every year; more than once."),
    ] = None,
    range_: Annotated[
        list[str] | None,
        typer.Option("--range", help="2026-12-24/2027-01-02, also of instants; more than once."),
    ] = None,
    window: Annotated[
        list[str] | None,
        typer.Option("--window", help="mon-fri 09:00-17:00; more than once."),
    ] = None,
    timezone: Annotated[
        str | None, typer.Option("--timezone", metavar="ZONE", help="Else the schedule's.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a calendar, or give it this content; schedules that use it change with it."""

    async def put(site: Site) -> Calendar:
        return await site.calendars.put(
            name, dates=date or (), ranges=range_ or (), windows=window or (), timezone=timezone
        )

    view = run(context, put)
    changed = view.recomputed or 0
    if as_json:
        shown = msgspec.structs.replace(view, recomputed=None)
        show_json({"calendar": shown, "schedules_changed": changed})
    else:
        say(f"calendar {name}, version {view.version}; {count(changed, 'schedule')} changed")


@commands.command("ls")
def list_calendars(
    context: typer.Context, cursor: Cursor = None, limit: Limit = 50, as_json: Json = False
) -> None:
    """Calendars, by name."""

    async def look(site: Site) -> Page[Calendar]:
        return await gathered(site.calendars.list, limit=limit, cursor=cursor)

    found = run(context, look)
    if as_json:
        show_json({"calendars": found.items, "next": found.next})
        return
    if not found.items:
        say("no calendars")
        return
    made = output.table(
        *("name", "version", "since", "timezone", "dates", "ranges", "windows"),
        right=("version", "dates", "ranges", "windows"),
        shrinks=("name", "timezone"),
    )
    for each in found:
        output.row(
            made,
            *(each.name, each.version, when(each.since), each.timezone or ""),
            *(len(each.dates), len(each.ranges), len(each.windows)),
        )
    show(made)
    say_more(found.next)


@commands.command("show")
def show_calendar(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """One calendar and all that is in it."""

    async def look(site: Site) -> Calendar:
        return await site.calendars.get(name)

    view = run(context, look)
    if as_json:
        show_json(view)
        return
    show(
        output.facts(
            [
                ("calendar", view.name),
                ("version", f"{view.version}, since {dated(view.since)}"),
                ("timezone", view.timezone or "that of the schedule"),
                ("dates", "\n".join(view.dates)),
                ("ranges", "\n".join(view.ranges)),
                ("windows", "\n".join(view.windows)),
            ]
        )
    )


@commands.command("users")
def list_users(
    context: typer.Context,
    name: Name,
    cursor: Cursor = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """The schedules that go by a calendar, by name."""

    async def look(site: Site) -> Page[str]:
        return await gathered(site.calendars.users, name, limit=limit, cursor=cursor)

    found = run(context, look)
    if as_json:
        show_json({"users": found.items, "next": found.next})
        return
    if not found.items:
        say(f"no schedule goes by {name}")
        return
    for each in found:
        say(each)
    say_more(found.next)


@commands.command("rm")
def remove_calendar(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """End a calendar; refused while a schedule uses it."""

    async def remove(site: Site) -> None:
        await site.calendars.remove(name)

    run(context, remove)
    if as_json:
        show_json({"removed": name})
    else:
        say(f"calendar {name} is removed")
