"""sexton schedule plan|sync: what code declares"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from sexton import Sexton
from sexton.cli import output
from sexton.cli.database.logged import Change, changed
from sexton.cli.locate import locate
from sexton.cli.output import ExitCode, say, show, show_json, when
from sexton.cli.parameters import Json
from sexton.cli.session import options, run_loop
from sexton.domain.plan import Plan, Step

commands = typer.Typer()
FIRST_TENANT = 1
_MARKS = {
    "add": ("+", "green"),
    "restore": ("+", "green"),
    "change": ("~", "yellow"),
    "retire": ("-", "red"),
    "keep": (" ", "dim"),
    "refuse": ("!", "bold red"),
}

App = Annotated[str, typer.Argument(metavar="APP", help="The application: module:attribute.")]
Adopt = Annotated[
    bool, typer.Option("--adopt", help="Take over schedules of the same names from others.")
]


@commands.command("plan")
def plan_schedules(
    context: typer.Context,
    app_name: App,
    adopt: Adopt = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit code 1 if there is anything to do.")
    ] = False,
    as_json: Json = False,
) -> None:
    """What a sync would change, with the next fires before and after; changes nothing."""
    plan = _with(context, app_name, lambda app: app.schedules.plan(adopt=adopt))
    _show(plan, as_json)
    if plan.of("refuse") or (check and plan.changes):
        raise typer.Exit(ExitCode.FINDING)


@commands.command("sync")
def sync_schedules(
    context: typer.Context, app_name: App, adopt: Adopt = False, as_json: Json = False
) -> None:
    """Make the database say what APP declares with @app.schedule: at every deploy."""

    async def sync(app: Sexton) -> Plan:
        async def sync(change: Change) -> Plan:
            schedules = change.schedules
            schedules.declared = app.schedules.declared
            plan = await schedules.sync(adopt=adopt)
            if plan.changes:
                done = {step.name: step.kind for step in plan.changes}
                change.log("schedule.sync", plan.application, after=done)
            return plan

        return await changed(app, FIRST_TENANT, sync)

    _show(_with(context, app_name, sync), as_json)


def _with(context: typer.Context, app_name: str, work: Callable[[Sexton], Awaitable[Plan]]) -> Plan:
    app = options(context).applied(locate(app_name))

    async def main() -> Plan:
        async with app:
            (await app.schema_state()).demand_current()
            return await work(app)

    return run_loop(main())


def _show(plan: Plan, as_json: bool) -> None:
    if as_json:
        show_json(plan)
        return
    for step in plan.steps:
        if step.kind != "keep" or step.note:
            show(*_described(step))
    words = [
        f"{len(plan.of(*kinds))} {word}"
        for word, kinds in (
            ("added", ("add", "restore")),
            ("changed", ("change",)),
            ("retired", ("retire",)),
            ("kept", ("keep",)),
            ("refused", ("refuse",)),
        )
        if plan.of(*kinds)
    ]
    say(f"{plan.application}: " + (", ".join(words) or "it declares no schedules"))


def _described(step: Step) -> list[RenderableType]:
    mark, style = _MARKS[step.kind]
    head = Text(f"{mark} {step.kind:8}{output.clean(step.name)}", style=style)
    if step.note:
        head.append(f"  ({output.clean(step.note)})", style="dim")
    shown: list[RenderableType] = [head]
    pairs = [
        (each.field, f"{output.compact(each.before)} → {output.compact(each.after)}")
        for each in step.differences
    ]
    if step.kind != "keep":
        pairs += [("fires now", _fires(step.fires_before)), ("then", _fires(step.fires_after))]
    shown += [
        Text(f"      {name:12}{value}", no_wrap=True, overflow="ellipsis")
        for name, value in pairs
        if value
    ]
    return shown


def _fires(fires: tuple[datetime, ...]) -> str:
    return ", ".join(map(when, fires))
