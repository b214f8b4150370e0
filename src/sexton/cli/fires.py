"""sexton schedule preview|fires|backfill|backfills|stop-backfill: fires to come, and of the past"""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, get_args

import typer

from sexton.cli import output
from sexton.cli.complete import schedules
from sexton.cli.database import Database
from sexton.cli.instants import Instant
from sexton.cli.output import lasted, say, say_more, show, show_json, when
from sexton.cli.parameters import Cursor, Json, Limit, as_instant, one_of
from sexton.cli.schedule import Name
from sexton.cli.session import options, run, run_loop
from sexton.cli.site import Site, gathered
from sexton.cli.terms import RULES, resolved, takes
from sexton.domain.crontab import FIELDS
from sexton.domain.schedule import Decided
from sexton.domain.spec import WHEN
from sexton.domain.when.cron import parse_cron
from sexton.domain.when.zone import zone_named
from sexton.errors import InvalidSchedule
from sexton.remote.views import Backfill, Decision, Page, Planned
from sexton.store.schedules import DEFAULT_TENANT

commands = typer.Typer()
_STAR = re.compile(r"\*(/\d+)?")


@commands.command("preview")
@takes(*(name for name in WHEN if name != "cron"))
def preview_fires(
    context: typer.Context,
    said: dict[str, Any],
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME|EXPRESSION]",
            help="A schedule, or a cron expression.",
            autocompletion=schedules,
        ),
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
    if what is None and not RULES & said.keys():
        raise InvalidSchedule("which fires? Give a schedule's name, an expression or a rule")
    if cron is None and what is not None and said:
        raise InvalidSchedule(f"{what!r} is not a cron expression, and a schedule has its own rule")

    async def look(site: Site) -> tuple[list[Planned], str | None]:
        """Also whose hours are local: those of the schedule, or of the rule."""
        begin = None
        if start is not None:
            now = datetime.now(UTC)
            if start.absolute is None and not _alone(said, cron):
                now = await site.now()
            begin = start.resolved(now)
        elif _alone(said, cron):
            begin = datetime.now(UTC)
        if cron is None and what is not None:
            zone = None if as_json else (await site.schedules.get(what)).timezone
            return await site.schedules.preview(what, count=count, from_=begin), zone
        given = await resolved(site, said)
        if cron is not None:
            given["cron"] = cron
        found = await site.schedules.preview(name or None, count=count, from_=begin, **given)
        return found, said.get("timezone")

    # A rule alone is the same everywhere: that needs no database, and no service.
    if _alone(said, cron):
        found, zone = run_loop(look(Database(options(context).bare(), DEFAULT_TENANT)))
    else:
        found, zone = run(context, look)
    if as_json:
        show_json({"fires": found})
        return
    if not found:
        say("it never fires again")
        return
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
    return at.astimezone(None if zone is None else zone_named(zone)).strftime(
        "%a %Y-%m-%d %H:%M:%S %Z"
    )


def _as_cron(what: str | None, said: dict[str, Any]) -> str | None:
    """An expression has five words or more, or is one like @daily, or has a star that stands alone,
    and may then be wrong; anything else is a name."""
    if what is None:
        return None
    words = what.split()
    meant = what.startswith("@") or any(_STAR.fullmatch(word) for word in words)
    if len(words) < FIELDS and not meant:
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

    async def begin(site: Site) -> Backfill:
        now = await site.now()
        id = await site.schedules.backfill(name, start.resolved(now), end.resolved(now), rate=rate)
        latest = await site.schedules.backfills(name)
        return next(each for each in latest if each.id == id)

    made = run(context, begin)
    if as_json:
        show_json(made)
    else:
        say(f"backfill {made.id} begins; see `sexton schedule backfills {name}`")


@commands.command("backfills")
def list_backfills(
    context: typer.Context,
    name: Name,
    cursor: Cursor = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """Backfills of a schedule, newest first, and how far they have come."""

    async def look(site: Site) -> Page[Backfill]:
        return await gathered(site.schedules.backfills, name, limit=limit, cursor=cursor)

    found = run(context, look)
    if as_json:
        show_json({"backfills": found.items, "next": found.next})
        return
    if not found.items:
        say("no backfills")
        return
    made = output.table(
        *("id", "from", "to", "state", "done until", "fired", "skipped"),
        right=("id", "fired", "skipped"),
    )
    for each in found:
        state = "running"
        if each.finished_at is not None:
            state = "cancelled" if each.cancelled else "succeeded"
        output.row(
            made,
            *(each.id, when(each.from_), when(each.to), output.state(state)),
            *(when(each.reached), f"{each.fired:,}", f"{each.skipped:,}"),
        )
    show(made)
    say_more(found.next)


@commands.command("stop-backfill")
def stop_backfill(
    context: typer.Context,
    name: Name,
    id: Annotated[int, typer.Argument(metavar="ID", min=1, help="The backfill's id.")],
    as_json: Json = False,
) -> None:
    """End a backfill where it is; its jobs go on."""

    async def stop(site: Site) -> None:
        await site.schedules.cancel_backfill(name, id)

    run(context, stop)
    if as_json:
        show_json({"id": id, "stopped": True})
    else:
        say(f"backfill {id} is stopped")


@commands.command("fires")
def list_fires(
    context: typer.Context,
    name: Name,
    start: Annotated[
        Instant | None,
        typer.Option("--from", metavar="INSTANT", parser=as_instant, help="From then on: -1h."),
    ] = None,
    end: Annotated[
        Instant | None,
        typer.Option("--to", metavar="INSTANT", parser=as_instant, help="Before."),
    ] = None,
    decision: Annotated[
        str | None,
        typer.Option(
            "--decision",
            metavar="WORD",
            parser=one_of(get_args(Decided)),
            help="Only with this: fired, overlap, missed.",
        ),
    ] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """The ledger of a schedule: every decision about its fires, newest first."""

    async def look(site: Site) -> Page[Decision]:
        now = await site.now()
        return await gathered(
            site.schedules.fires,
            name,
            from_=start and start.resolved(now),
            to=end and end.resolved(now),
            decision=decision,
            limit=limit,
            cursor=cursor,
        )

    found = run(context, look)
    if as_json:
        show_json({"fires": found.items, "next": found.next})
        return
    if not found.items:
        say("nothing was decided" + (" like that" if start or end or decision else " yet"))
        return
    made = output.table(
        *("fire at", "decision", "kind", "job", "lag", "fires", "decided", "node"),
        right=("job", "lag", "fires"),
        shrinks=("node",),
    )
    for each in found:
        many = "many" if each.fires is None else f"{each.fires:,}" if each.fires > 1 else ""
        output.row(
            made,
            *(each.fire_at.isoformat(), each.decision, each.kind or "", each.job or ""),
            *("" if each.lag is None else lasted(max(0.0, each.lag)), many),
            *(when(each.decided_at), each.node or ""),
        )
    show(made)
    say_more(found.next)
