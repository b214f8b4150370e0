"""sexton schedule preview|backfill|backfills|stop-backfill: fires to come, and fires of the past"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer

from sexton import Sexton
from sexton.cli import output
from sexton.cli.instants import Instant
from sexton.cli.output import ExitCode, say, show, show_json, when
from sexton.cli.parameters import Json, Limit, as_instant
from sexton.cli.schedule import Name
from sexton.cli.session import options, run, run_loop
from sexton.cli.terms import resolved, takes
from sexton.domain.backfill import BackfillView
from sexton.domain.crontab import FIELDS
from sexton.domain.spec import WHEN
from sexton.domain.when.cron import parse_cron
from sexton.domain.when.timetable import Planned
from sexton.errors import InvalidSchedule

commands = typer.Typer()


@commands.command("preview")
@takes(*(name for name in WHEN if name != "cron"))
def preview_fires(
    context: typer.Context,
    said: dict[str, Any],
    what: Annotated[
        str | None,
        typer.Argument(metavar="[NAME|EXPRESSION]", help="A schedule, or a cron expression."),
    ] = None,
    start: Annotated[
        Instant | None,
        typer.Option("--from", metavar="INSTANT", parser=as_instant, help="Fires after that."),
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, max=10_000, help="So many.")] = 10,
    name: Annotated[
        str, typer.Option("--name", help="The name that an H in the expression is spread by.")
    ] = "",
    as_json: Json = False,
) -> None:
    """The next fires, with notes on what changes of the clocks and calendars do to them."""
    cron = _as_cron(what, said)
    if what is None and not said:
        raise InvalidSchedule("which fires? Give a schedule's name, an expression or a rule")
    if cron is None and what is not None and said:
        raise InvalidSchedule(f"{what!r} is not a cron expression, and a schedule has its own rule")

    async def look(app: Sexton) -> Sequence[Planned]:
        begin = None
        if start is not None:
            now = datetime.now(UTC)
            if start.absolute is None and not _alone(said, cron):
                now = await (await app.client()).store.history.clock()
            begin = start.resolved(now)
        elif _alone(said, cron):
            begin = datetime.now(UTC)
        if cron is None and not said:
            return await app.schedules.preview(what, count=count, from_=begin)
        given = await resolved(app, said)
        if cron is not None:
            given["cron"] = cron
        return await app.schedules.preview(name, count=count, from_=begin, **given)

    # A rule alone is the same everywhere: that needs no database.
    found = (
        run_loop(look(options(context).application())) if _alone(said, cron) else run(context, look)
    )
    if as_json:
        show_json({"fires": found})
        return
    if not found:
        say("it never fires again")
        return
    zone = said.get("timezone")
    made = output.table("fire at", "local", "scheduled", "note", shrinks=("note",))
    for each in found:
        moved = each.fire_at != each.scheduled_at
        output.row(
            made,
            *(each.fire_at.isoformat(), _local(each.fire_at, zone)),
            *(each.scheduled_at.isoformat() if moved else "", each.note or ""),
        )
    show(made)


def _local(at: datetime, zone: str | None) -> str:
    return at.astimezone(None if zone is None else ZoneInfo(zone)).strftime(
        "%a %Y-%m-%d %H:%M:%S %Z"
    )


def _as_cron(what: str | None, said: dict[str, Any]) -> str | None:
    """An expression has five words or more, or is one like @daily; else it is a name."""
    if what is None or (len(what.split()) < FIELDS and not what.startswith("@")):
        return None
    parse_cron(what, dialect=said.get("dialect", "cron"), name="preview")
    return what


def _alone(said: dict[str, Any], cron: str | None) -> bool:
    relative = any(str(value)[:1] in ("+", "-") for value in said.values())
    return bool(cron or said) and not (relative or "exclude" in said or "only" in said)


@commands.command("backfill")
def backfill_schedule(
    context: typer.Context,
    name: Name,
    start: Annotated[
        Instant,
        typer.Option("--from", metavar="INSTANT", parser=as_instant, help="The first: -7d."),
    ],
    end: Annotated[
        Instant, typer.Option("--to", metavar="INSTANT", parser=as_instant, help="Before: -1h.")
    ],
    rate: Annotated[float, typer.Option("--rate", help="So many fires a second at most.")] = 10.0,
    as_json: Json = False,
) -> None:
    """Fire what was not fired in the past; what was is not fired again."""

    async def begin(app: Sexton) -> BackfillView:
        now = await (await app.client()).store.history.clock()
        id = await app.schedules.backfill(name, start.resolved(now), end.resolved(now), rate=rate)
        [made] = await app.schedules.backfills(id=id)
        return made

    made = run(context, begin)
    if as_json:
        show_json(made)
    else:
        say(f"backfill {made.id} begins; see `sexton schedule backfills {name}`")


@commands.command("backfills")
def list_backfills(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Only of this schedule.")
    ] = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """Backfills, newest first, and how far they have come."""
    found = run(context, lambda app: app.schedules.backfills(name, limit=limit))
    if as_json:
        show_json({"backfills": found})
        return
    if not found:
        say("no backfills")
        return
    made = output.table(
        *("id", "schedule", "from", "to", "state", "done until", "fired", "skipped"),
        right=("id", "fired", "skipped"),
        shrinks=("schedule",),
    )
    for each in found:
        state = "running"
        if each.finished_at is not None:
            state = "cancelled" if each.cancelled else "succeeded"
        output.row(
            made,
            *(each.id, each.schedule, when(each.from_at), when(each.to_at), output.state(state)),
            *(when(max(each.next_at, each.from_at)), f"{each.fired:,}", f"{each.skipped:,}"),
        )
    show(made)


@commands.command("stop-backfill")
def stop_backfill(
    context: typer.Context,
    id: Annotated[int, typer.Argument(metavar="ID", min=1, help="The backfill's id.")],
    as_json: Json = False,
) -> None:
    """End a backfill where it is; its jobs go on."""
    stopped = run(context, lambda app: app.schedules.cancel_backfill(id))
    if as_json:
        show_json({"id": id, "stopped": stopped})
    elif stopped:
        say(f"backfill {id} is stopped")
    if not stopped:
        output.complain(f"no backfill {id} is under way")
        raise typer.Exit(ExitCode.FINDING)
