"""sexton tenant put|ls|show|rm"""

from typing import Annotated, Any

import typer

from sexton.cli import output
from sexton.cli.output import dated, lasted, say, say_more, show, show_json, when
from sexton.cli.parameters import Cursor, Json, Limit, reads
from sexton.cli.session import run
from sexton.cli.site import Site, gathered
from sexton.domain.duration import seconds
from sexton.domain.given import MOST
from sexton.remote.admin import Tenant
from sexton.remote.errors import NotFound
from sexton.remote.views import Page

commands = typer.Typer(no_args_is_help=True, help="Tenants of the REST API, and their quotas.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="The tenant's name.")]
NONE = "none"


def _whole(text: str) -> int | str:
    if text == NONE:
        return NONE
    if not text.isascii() or not text.isdecimal() or int(text) > MOST:
        raise ValueError(f"{text!r} is not a whole number, or none")
    return int(text)


def _length(text: str) -> float | str:
    return NONE if text == NONE else seconds(text)


def _rate(text: str) -> float | str:
    rate = NONE if text == NONE else float(text)
    if isinstance(rate, float) and not 0 < rate <= 1_000_000:
        raise ValueError(f"{text!r} is not a number of requests a second, or none")
    return rate


def _quota(option: str, read: Any, help: str) -> Any:
    return typer.Option(option, metavar="N|none", parser=reads(read), help=help)


Whole = str | None  # typer wants a type that it knows; the parsers make of it what it is


@commands.command("put")
def put_tenant(
    context: typer.Context,
    name: Name,
    max_schedules: Annotated[
        Whole, _quota("--max-schedules", _whole, "Schedules that are not cancelled.")
    ] = None,
    max_live_jobs: Annotated[
        Whole, _quota("--max-live-jobs", _whole, "Jobs that are not finished.")
    ] = None,
    max_payload_bytes: Annotated[
        Whole, _quota("--max-payload-bytes", _whole, "Bytes of a payload.")
    ] = None,
    min_interval: Annotated[
        Whole, _quota("--min-interval", _length, "Between two fires of a schedule.")
    ] = None,
    requests_per_second: Annotated[
        Whole, _quota("--requests-per-second", _rate, "To one API process.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a tenant, or change quotas of one; what is not given stays, or is as usual."""
    given: dict[str, Any] = {
        "max_schedules": max_schedules,
        "max_live_jobs": max_live_jobs,
        "max_payload_bytes": max_payload_bytes,
        "min_interval": min_interval,
        "requests_per_second": requests_per_second,
    }
    changed = {
        quota: None if value == NONE else value
        for quota, value in given.items()
        if value is not None
    }

    async def put(site: Site) -> tuple[Tenant, bool]:
        try:
            before = await site.tenants.get(name)
        except NotFound:
            return await site.tenants.put(name, **changed), True
        kept = {quota: getattr(before, quota) for quota in given}
        return await site.tenants.put(name, **(kept | changed)), False

    view, made = run(context, put)
    if as_json:
        show_json({"tenant": view, "made": made})
    else:
        say(f"tenant {name} is {'made' if made else 'as you say'}")


@commands.command("ls")
def list_tenants(
    context: typer.Context, cursor: Cursor = None, limit: Limit = 1000, as_json: Json = False
) -> None:
    """Tenants and their quotas, by name."""

    async def look(site: Site) -> Page[Tenant]:
        return await gathered(site.tenants.list, limit=limit, cursor=cursor)

    found = run(context, look)
    if as_json:
        show_json({"tenants": found.items, "next": found.next})
        return
    numbers = ("schedules", "live jobs", "payload bytes", "requests/s")
    made = output.table(
        *("name", "created", *numbers, "interval", ""), right=numbers, shrinks=("name",)
    )
    for each in found:
        output.row(
            made,
            *(each.name, when(each.created_at), _said(each.max_schedules)),
            *(_said(each.max_live_jobs), _said(each.max_payload_bytes)),
            *(_said(each.requests_per_second), _interval(each)),
            "over quota" if each.over_quota else "",
        )
    show(made)
    say_more(found.next)


@commands.command("show")
def show_tenant(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """One tenant and its quotas."""

    async def look(site: Site) -> Tenant:
        return await site.tenants.get(name)

    view = run(context, look)
    if as_json:
        show_json(view)
        return
    show(
        output.facts(
            [
                ("tenant", view.name),
                ("created", dated(view.created_at)),
                ("schedules", _said(view.max_schedules)),
                ("live jobs", _said(view.max_live_jobs)),
                ("payload bytes", _said(view.max_payload_bytes)),
                ("interval", _interval(view)),
                ("requests/s", _said(view.requests_per_second)),
                ("over quota", "yes" if view.over_quota else "no"),
            ]
        )
    )


@commands.command("rm")
def remove_tenant(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Remove a tenant, with its keys; refused while it has schedules or jobs."""

    async def remove(site: Site) -> None:
        await site.tenants.remove(name)

    run(context, remove)
    if as_json:
        show_json({"removed": name})
    else:
        say(f"tenant {name} is removed")


def _said(quota: float | None) -> str:
    return "any" if quota is None else f"{quota:,g}" if isinstance(quota, float) else f"{quota:,}"


def _interval(view: Tenant) -> str:
    return "any" if view.min_interval is None else lasted(view.min_interval)
