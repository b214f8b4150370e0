"""sexton schedule ls|show|versions|add|update|pause|resume|cancel|trigger"""

import json
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from sexton import Sexton
from sexton.cli import output
from sexton.cli.instants import Instant
from sexton.cli.output import say, show, show_json, when
from sexton.cli.parameters import Json, Limit, Task, as_instant
from sexton.cli.session import run
from sexton.cli.terms import EVERYTHING, in_words, resolved, takes
from sexton.domain.change import VersionView
from sexton.domain.schedule import ScheduleView
from sexton.errors import InvalidSchedule

commands = typer.Typer(
    no_args_is_help=True, help="Schedules: make them, change them, stop them, look at them."
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Why; shown to everybody.")]
Arguments = Annotated[
    str | None, typer.Option("--args", metavar="JSON", help="The task's arguments: an object.")
]


class State(StrEnum):
    active = "active"
    paused = "paused"
    ended = "ended"
    cancelled = "cancelled"
    quarantined = "quarantined"


@commands.command("ls")
def list_schedules(
    context: typer.Context,
    state: Annotated[State | None, typer.Option("--state", help="Only these.")] = None,
    task: Task = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only with this tag.")] = None,
    text: Annotated[str | None, typer.Option("--text", help="Only with this in the name.")] = None,
    after: Annotated[
        str | None, typer.Option("--after", metavar="NAME", help="The next page begins there.")
    ] = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """Schedules, by name."""
    wanted: Any = None if state is None else state.value

    async def look(app: Sexton) -> list[ScheduleView]:
        return await app.schedules.list(
            state=wanted, task=task, tag=tag, text=text, after=after, limit=limit
        )

    found = run(context, look)
    if as_json:
        show_json({"schedules": found})
        return
    if not found:
        say("no schedules" + (" like that" if state or task or tag or text or after else ""))
        return
    made = output.table(
        *("name", "state", "when", "task", "next", "last"), shrinks=("name", "when", "task")
    )
    for each in found:
        following = "late" if each.late else when(each.next_fire_at)
        output.row(
            made,
            *(each.name, output.state(each.state), in_words(each.said), each.task),
            *(following, when(each.last_fire_at)),
        )
    show(made)
    if len(found) == limit:
        say(f"more: --after {found[-1].name}")


@commands.command("show")
def show_schedule(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """One schedule: what it says, and how it stands."""
    _show(run(context, lambda app: app.schedules.get(name)), as_json)


def _show(view: ScheduleView, as_json: bool) -> None:
    if as_json:
        show_json(view)
    else:
        show(described(view))


def described(view: ScheduleView) -> RenderableType:
    """Everything about a schedule, for people."""
    shown = {"cron", "every", "at", "rrule", "any", "timezone", "queue", "priority", "tags"}
    return output.facts(
        [
            ("schedule", view.name),
            ("state", output.state(view.state)),
            ("why", view.reason),
            ("until", when(view.until)),
            ("when", in_words(view.said)),
            *(
                (name.replace("_", " "), value if isinstance(value, str) else json.dumps(value))
                for name, value in view.said.items()
                if name not in shown
            ),
            ("task", view.task),
            ("arguments", output.compact(view.payload, 2000)),
            ("queue", view.queue),
            ("priority", view.priority),
            ("tags", ", ".join(view.tags)),
            ("next fire", "late" if view.late else when(view.next_fire_at)),
            ("last fire", when(view.last_fire_at)),
            ("version", f"{view.version}, since {when(view.since)}"),
            ("created", when(view.created_at)),
            ("declared by", view.declared_by),
        ]
    )


@commands.command("versions")
def show_versions(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Everything a schedule has said, newest first, and from when to when."""
    found = run(context, lambda app: app.schedules.versions(name))
    if as_json:
        show_json({"versions": found})
        return
    made = output.table(
        *("version", "since", "until", "ended by", "state", "when", "task", "arguments"),
        right=("version",),
        shrinks=("when", "arguments"),
    )
    for each in found:
        output.row(made, *_version(each))
    show(made)


def _version(each: VersionView) -> tuple[Any, ...]:
    return (
        *(each.version, when(each.since), when(each.until), each.ended_by or ""),
        *(output.state(each.state), in_words(each.said), each.task, output.compact(each.payload)),
    )


@commands.command("add")
@takes(*EVERYTHING)
def add_schedule(
    context: typer.Context,
    name: Name,
    task: Annotated[str, typer.Option("--task", help="The task, as its code names it.")],
    said: dict[str, Any],
    arguments: Arguments = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="If there is one of this name, make it say this.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a schedule of any task that some worker knows."""
    payload = as_object(arguments or "{}")

    async def add(app: Sexton) -> ScheduleView:
        options = await resolved(app, said)
        verb = app.schedules.put if replace else app.schedules.add
        return await verb(name, task, payload, **options)

    _show(run(context, add), as_json)


@commands.command("update")
@takes(*EVERYTHING)
def update_schedule(
    context: typer.Context,
    name: Name,
    said: dict[str, Any],
    task: Annotated[str | None, typer.Option("--task", help="Another task.")] = None,
    arguments: Arguments = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="OPTION", help="Take an option back: jitter, ends-at."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Change some of what a schedule says; it holds from now on, and the old version is kept."""
    changes: dict[str, Any] = {option.replace("-", "_"): None for option in unset or ()}
    if "tag" in changes:
        changes["tags"] = changes.pop("tag")
    if task is not None:
        changes["task"] = task
    if arguments is not None:
        changes["arguments"] = as_object(arguments)
    if not said and not changes:
        raise InvalidSchedule("nothing to change: give the options that are to be different")

    async def update(app: Sexton) -> ScheduleView:
        return await app.schedules.update(name, **(changes | await resolved(app, said)))

    _show(run(context, update), as_json)


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

    async def pause(app: Sexton) -> ScheduleView:
        end = None
        if until is not None:
            end = until.resolved(await (await app.client()).store.history.clock())
        return await app.schedules.pause(name, reason, until=end)

    _show(run(context, pause), as_json)


@commands.command("resume")
def resume_schedule(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Go on after a pause or a quarantine; what was left out is made up for by a backfill only."""
    _show(run(context, lambda app: app.schedules.resume(name)), as_json)


@commands.command("rm", help="The same as cancel.")
@commands.command("cancel")
def cancel_schedule(
    context: typer.Context, name: Name, reason: Reason = None, as_json: Json = False
) -> None:
    """No more fires; jobs that live go on, history stays, and the name may be added again."""
    _show(run(context, lambda app: app.schedules.cancel(name, reason)), as_json)


@commands.command("trigger")
def trigger_schedule(
    context: typer.Context, name: Name, arguments: Arguments = None, as_json: Json = False
) -> None:
    """Make a job of it at once, recorded as triggered; also while it is paused."""
    payload = None if arguments is None else as_object(arguments)
    id = run(context, lambda app: app.schedules.trigger(name, arguments=payload))
    if as_json:
        show_json({"job": id})
    else:
        say(f"job {id} made by {name}")


def as_object(text: str) -> dict[str, Any]:
    """The arguments of a task, as they are typed."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidSchedule(
            f"the arguments are not JSON: {error}; write them like '{{\"a\": 1}}'"
        ) from None
    if not isinstance(value, dict):
        raise InvalidSchedule("the arguments must be a JSON object, by name, like '{\"a\": 1}'")
    return value
