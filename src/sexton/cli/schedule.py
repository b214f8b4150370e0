"""sexton schedule ls|show|versions|add|put|update|pause|resume|cancel|trigger"""

import json
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer
from rich.console import RenderableType

from sexton.cli import output, site
from sexton.cli.bulk import File, add_from_file
from sexton.cli.complete import schedules, tasks
from sexton.cli.instants import Instant
from sexton.cli.output import dated, say, say_more, show, show_json, when
from sexton.cli.parameters import Cursor, Json, Limit, arguments_of_a_task, as_instant
from sexton.cli.plan import show_plan
from sexton.cli.session import run
from sexton.cli.site import Site, as_target, gathered
from sexton.cli.terms import EVERYTHING, in_words, resolved, takes
from sexton.cli.undeclared import doubts, note
from sexton.errors import InvalidSchedule
from sexton.remote.views import Page, Plan, Schedule, Version

commands = typer.Typer(
    no_args_is_help=True, help="Schedules: make them, change them, stop them, look at them."
)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The schedule's name.", autocompletion=schedules)
]
Reason = Annotated[str | None, typer.Option("--reason", help="Why; shown to everybody.")]
Made = tuple[Schedule, str | None]  # and what may be wrong with it
TASK = "The task, as its code names it; http:NAME for an endpoint, or a URL."
Arguments = Annotated[
    str | None, typer.Option("--args", metavar="JSON", help="The task's arguments: an object.")
]


class State(StrEnum):
    active = "active"
    paused = "paused"
    ended = "ended"
    cancelled = "cancelled"
    quarantined = "quarantined"
    all = "all"


@commands.command("ls")
def list_schedules(
    context: typer.Context,
    state: Annotated[
        State | None, typer.Option("--state", help="Only these; without, all but cancelled ones.")
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            "--task", help="Only of this task, or for this endpoint.", autocompletion=tasks
        ),
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only with this tag.")] = None,
    text: Annotated[str | None, typer.Option("--text", help="Only with this in the name.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """Schedules, by name."""
    filters = {"state": state and state.value, "target": task, "tag": tag, "text": text}

    async def look(site: Site) -> Page[Schedule]:
        return await gathered(site.schedules.list, limit=limit, cursor=cursor, **filters)

    found = run(context, look)
    if as_json:
        show_json({"schedules": found.items, "next": found.next})
        return
    if not found.items:
        say("no schedules" + (" like that" if any(filters.values()) or cursor else ""))
        return
    made = output.table(
        *("name", "state", "when", "task", "next", "last"), shrinks=("name", "when", "task")
    )
    for each in found:
        following = "late" if each.late else when(each.next_fire_at)
        output.row(
            made,
            *(each.name, output.state(each.state), in_words(said(each))),
            *(site.in_words(each.target), following, when(each.last_fire_at)),
        )
    show(made)
    say_more(found.next)


def said(view: Schedule) -> dict[str, Any]:
    """What its author wrote, and what is usual where that says nothing."""
    fields: dict[str, Any] = msgspec.to_builtins(view)
    return {name: fields[name] for name in EVERYTHING if fields.get(name) is not None}


@commands.command("show")
def show_schedule(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """One schedule: what it says, and how it stands."""

    async def look(site: Site) -> Schedule:
        return await site.schedules.get(name)

    _show(run(context, look), as_json)


def _show(view: Schedule, as_json: bool) -> None:
    if as_json:
        show_json(view)
    else:
        show(described(view))


async def _doubted(site: Site, view: Schedule) -> Made:
    return view, await doubts(site, view.target, view.queue)


def _show_made(made: Made, as_json: bool) -> None:
    view, doubt = made
    _show(view, as_json)
    note(doubt)


def described(view: Schedule) -> RenderableType:
    """Everything about a schedule, for people."""
    shown = {"cron", "every", "at", "rrule", "any", "timezone", "queue", "priority", "tags"}
    options = said(view)
    return output.facts(
        [
            ("schedule", view.name),
            ("state", output.state(view.state)),
            ("why", view.reason),
            ("until", dated(view.until)),
            ("when", in_words(options)),
            *(
                (name.replace("_", " "), _option(name, value))
                for name, value in options.items()
                if name not in shown
            ),
            ("task", site.in_words(view.target)),
            ("arguments", output.compact(view.payload, 2000)),
            ("queue", view.queue),
            ("priority", view.priority),
            ("tags", ", ".join(view.tags)),
            ("next fire", "late" if view.late else dated(view.next_fire_at)),
            ("last fire", dated(view.last_fire_at)),
            ("version", f"{view.version}, since {dated(view.since)}"),
            ("created", dated(view.created_at)),
            ("declared by", view.declared_by),
        ]
    )


def _option(name: str, value: Any) -> str:
    if name in ("grace", "jitter", "expires_in"):
        return output.shortly(value)
    return value if isinstance(value, str) else json.dumps(value)


@commands.command("versions")
def show_versions(
    context: typer.Context,
    name: Name,
    cursor: Cursor = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """Everything a schedule has said, newest first, and from when to when."""

    async def look(site: Site) -> Page[Version]:
        return await gathered(site.schedules.versions, name, limit=limit, cursor=cursor)

    found = run(context, look)
    if as_json:
        show_json({"versions": found.items, "next": found.next})
        return
    made = output.table(
        *("version", "since", "until", "ended by", "state", "when", "task", "arguments"),
        right=("version",),
        shrinks=("when", "task", "arguments"),
    )
    for each in found:
        output.row(made, *_version(each))
    show(made)
    say_more(found.next)


def _version(each: Version) -> tuple[Any, ...]:
    return (
        *(each.version, when(each.since), when(each.until), each.ended_by or ""),
        *(output.state(each.state), in_words(each.said), site.in_words(each.target)),
        output.compact(each.payload),
    )


@commands.command("add")
@takes(*EVERYTHING)
def add_schedule(
    context: typer.Context,
    said: dict[str, Any],
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The schedule's name; or --file.")
    ] = None,
    task: Annotated[
        str | None,
        typer.Option("--task", help=TASK, autocompletion=tasks),
    ] = None,
    arguments: Arguments = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="If there is one of this name, make it say this.")
    ] = False,
    file: File = None,
    as_json: Json = False,
) -> None:
    """Make a schedule of any task that some worker knows, or all those of a file."""
    if file is not None:
        if name is not None or task is not None or said or arguments is not None:
            raise InvalidSchedule("--file has everything in it: give nothing else but --replace")
        add_from_file(context, file, replace, as_json)
        return
    if name is None or task is None:
        raise InvalidSchedule("give NAME and --task, or --file")
    payload = arguments_of_a_task(arguments or "{}")
    target = as_target(task)

    async def add(site: Site) -> Made:
        options = await resolved(site, said)
        if replace:
            return await _doubted(site, await site.schedules.put(name, target, payload, **options))
        return await _doubted(site, await site.schedules.add(name, target, payload, **options))

    _show_made(run(context, add), as_json)


@commands.command("put")
@takes(*EVERYTHING)
def put_schedule(
    context: typer.Context,
    name: Name,
    task: Annotated[str, typer.Option("--task", help=TASK, autocompletion=tasks)],
    said: dict[str, Any],
    arguments: Arguments = None,
    as_json: Json = False,
) -> None:
    """Make a schedule, or make the one of this name say exactly this."""
    payload = arguments_of_a_task(arguments or "{}")

    async def put(site: Site) -> Made:
        options = await resolved(site, said)
        made = await site.schedules.put(name, as_target(task), payload, **options)
        return await _doubted(site, made)

    _show_made(run(context, put), as_json)


@commands.command("update")
@takes(*EVERYTHING)
def update_schedule(
    context: typer.Context,
    name: Name,
    said: dict[str, Any],
    task: Annotated[
        str | None, typer.Option("--task", help="Another task.", autocompletion=tasks)
    ] = None,
    arguments: Arguments = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="OPTION", help="Take an option back: jitter, ends-at."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what it would do to the next fires.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Change some of what a schedule says; it holds from now on, and the old version is kept."""
    changes: dict[str, Any] = {option.replace("-", "_"): None for option in unset or ()}
    if "tag" in changes:
        changes["tags"] = changes.pop("tag")
    if task is not None:
        changes["target"] = as_target(task)
    if arguments is not None:
        changes["arguments"] = arguments_of_a_task(arguments)
    if not said and not changes:
        raise InvalidSchedule("nothing to change: give the options that are to be different")

    async def update(site: Site) -> Made:
        made = await site.schedules.update(name, **(changes | await resolved(site, said)))
        return await _doubted(site, made)

    async def plan(site: Site) -> Plan:
        return await site.schedules.plan(name, **(changes | await resolved(site, said)))

    if dry_run:
        show_plan(run(context, plan), as_json)
    else:
        _show_made(run(context, update), as_json)


@commands.command("pause")
def pause_schedule(
    context: typer.Context,
    name: Name,
    reason: Reason = None,
    until: Annotated[
        Instant | None,
        typer.Option(
            "--until", metavar="INSTANT", parser=as_instant, help="It goes on by itself: +2h."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """No fires until it is resumed."""

    async def pause(site: Site) -> Schedule:
        end = None if until is None else until.resolved(await site.now())
        return await site.schedules.pause(name, reason, until=end)

    _show(run(context, pause), as_json)


@commands.command("resume")
def resume_schedule(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Go on after a pause or a quarantine; what was left out is made up for by a backfill only."""

    async def resume(site: Site) -> Schedule:
        return await site.schedules.resume(name)

    _show(run(context, resume), as_json)


@commands.command("rm", help="The same as cancel.")
@commands.command("cancel")
def cancel_schedule(
    context: typer.Context, name: Name, reason: Reason = None, as_json: Json = False
) -> None:
    """No more fires; jobs that live go on, history stays, and the name may be added again."""

    async def cancel(site: Site) -> Schedule:
        await site.schedules.cancel(name, reason)
        return await site.schedules.get(name)

    _show(run(context, cancel), as_json)


@commands.command("trigger")
def trigger_schedule(
    context: typer.Context, name: Name, arguments: Arguments = None, as_json: Json = False
) -> None:
    """Make a job of it at once, recorded as triggered; also while it is paused."""
    payload = None if arguments is None else arguments_of_a_task(arguments)

    async def trigger(site: Site) -> int:
        return await site.schedules.trigger(name, arguments=payload)

    id = run(context, trigger)
    if as_json:
        show_json({"job": id})
    else:
        say(f"job {id} made by {name}")
