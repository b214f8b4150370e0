"""sexton calendar put|ls|show|rm"""

from typing import Annotated

import typer

from sexton import Sexton
from sexton.cli import output
from sexton.cli.output import count, say, show, show_json, when
from sexton.cli.parameters import Json
from sexton.cli.session import run
from sexton.store.calendars import CalendarView

commands = typer.Typer(
    no_args_is_help=True, help="Calendars: dates that schedules keep out of or in."
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The calendar's name.")]


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

    async def put(app: Sexton) -> tuple[int, CalendarView]:
        changed = await app.calendars.put(
            name, dates=date or (), ranges=range_ or (), windows=window or (), timezone=timezone
        )
        return changed, await app.calendars.get(name)

    changed, view = run(context, put)
    if as_json:
        show_json({"calendar": view, "schedules_changed": changed})
    else:
        say(f"calendar {name}, version {view.version}; {count(changed, 'schedule')} changed")


@commands.command("ls")
def list_calendars(context: typer.Context, as_json: Json = False) -> None:
    """Calendars, by name."""
    found = run(context, lambda app: app.calendars.list())
    if as_json:
        show_json({"calendars": found})
        return
    if not found:
        say("no calendars")
        return
    made = output.table(
        *("name", "version", "since", "timezone", "dates", "ranges", "windows"),
        right=("version", "dates", "ranges", "windows"),
    )
    for each in found:
        content = each.calendar
        output.row(
            made,
            *(each.name, each.version, when(each.since), content.timezone or ""),
            *(len(content.dates), len(content.ranges), len(content.windows)),
        )
    show(made)


@commands.command("show")
def show_calendar(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """One calendar and all that is in it."""
    view = run(context, lambda app: app.calendars.get(name))
    if as_json:
        show_json(view)
        return
    content = view.calendar
    show(
        output.facts(
            [
                ("calendar", view.name),
                ("version", f"{view.version}, since {when(view.since)}"),
                ("timezone", content.timezone or "that of the schedule"),
                ("dates", "\n".join(content.dates)),
                ("ranges", "\n".join(content.ranges)),
                ("windows", "\n".join(content.windows)),
            ]
        )
    )


@commands.command("rm")
def remove_calendar(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """End a calendar; refused while a schedule uses it."""
    run(context, lambda app: app.calendars.remove(name))
    if as_json:
        show_json({"removed": name})
    else:
        say(f"calendar {name} is removed")
