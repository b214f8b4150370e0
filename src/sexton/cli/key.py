"""sexton key create|ls|show|rotate|revoke"""

from typing import Annotated

import typer

from sexton.cli import output
from sexton.cli.output import dated, lasted, say, say_more, show, show_json, when
from sexton.cli.parameters import Cursor, Json, Limit, as_seconds, reads
from sexton.cli.session import options, run
from sexton.cli.site import Site, gathered
from sexton.domain.given import MOST
from sexton.errors import did_you_mean
from sexton.remote.admin import Key, MadeKey
from sexton.remote.views import Page

ROLES = ("viewer", "operator", "worker", "admin")

commands = typer.Typer(
    no_args_is_help=True, help="Keys of the REST API; the first one is made here."
)


def _role(text: str) -> str:
    if text not in ROLES:
        raise ValueError(f"{text!r} is none of {', '.join(ROLES)}{did_you_mean(text, ROLES)}")
    return text


Id = Annotated[int, typer.Argument(metavar="ID", min=1, max=MOST, help="The key's id.")]
ExpiresIn = Annotated[
    float | None,
    typer.Option(
        "--expires-in", metavar="DURATION", parser=as_seconds, help="It opens nothing afterwards."
    ),
]


@commands.command("create")
def create_key(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="For people and the audit log.")],
    role: Annotated[
        str,
        typer.Option(
            "--role",
            metavar="|".join(ROLES),
            parser=reads(_role),
            help="viewer reads; operator also changes; worker claims and settles; admin: all.",
        ),
    ],
    expires_in: ExpiresIn = None,
    as_json: Json = False,
) -> None:
    """Make a key. It is printed this once; only its hash is kept."""
    tenant = options(context).tenant

    async def create(site: Site) -> MadeKey:
        return await site.keys.create(name, role, expires_in=expires_in, tenant=tenant)

    _say_made(run(context, create, of_tenant=True), as_json)


@commands.command("ls")
def list_keys(
    context: typer.Context, cursor: Cursor = None, limit: Limit = 1000, as_json: Json = False
) -> None:
    """A tenant's keys, by age; never the keys themselves."""
    tenant = options(context).tenant

    async def look(site: Site) -> Page[Key]:
        return await gathered(site.keys.list, tenant=tenant, limit=limit, cursor=cursor)

    found = run(context, look, of_tenant=True)
    if as_json:
        show_json({"keys": found.items, "next": found.next})
        return
    if not found.items:
        say("no keys; make one with `sexton key create --role ROLE NAME`")
        return
    made = output.table(
        *("id", "name", "role", "begins", "state", "created", "by", "expires", "last used"),
        right=("id",),
        shrinks=("name", "by"),
    )
    for each in found:
        output.row(
            made,
            *(each.id, each.name, each.role, f"{each.shown}…", output.state(each.state)),
            *(when(each.created_at), each.created_by, when(each.expires_at)),
            when(each.last_used_at),
        )
    show(made)
    say_more(found.next)


@commands.command("show")
def show_key(context: typer.Context, id: Id, as_json: Json = False) -> None:
    """One key, but for the key itself."""
    tenant = options(context).tenant

    async def look(site: Site) -> Key:
        return await site.keys.get(id, tenant=tenant)

    view = run(context, look, of_tenant=True)
    if as_json:
        show_json(view)
        return
    show(
        output.facts(
            [
                *(("key", view.id), ("name", view.name), ("tenant", view.tenant)),
                *(("role", view.role), ("begins", f"{view.shown}…")),
                ("state", output.state(view.state)),
                ("created", f"{dated(view.created_at)} by {view.created_by}"),
                ("expires", dated(view.expires_at)),
                ("revoked", dated(view.revoked_at)),
                ("last used", dated(view.last_used_at)),
                ("replaced by", "" if view.replaced_by is None else f"key {view.replaced_by}"),
            ]
        )
    )


@commands.command("rotate")
def rotate_key(
    context: typer.Context,
    id: Id,
    overlap: Annotated[
        float,
        typer.Option(
            "--overlap", metavar="DURATION", parser=as_seconds, help="The old one still opens."
        ),
    ] = 3600.0,
    expires_in: ExpiresIn = None,
    as_json: Json = False,
) -> None:
    """Make another key in the place of one, which still opens until the overlap is over."""
    tenant = options(context).tenant

    async def rotate(site: Site) -> MadeKey:
        return await site.keys.rotate(id, overlap=overlap, expires_in=expires_in, tenant=tenant)

    _say_made(run(context, rotate, of_tenant=True), as_json)
    if not as_json:
        say(f"key {id} opens for another {lasted(overlap)}")


@commands.command("revoke")
def revoke_key(context: typer.Context, id: Id, as_json: Json = False) -> None:
    """From now on it opens nothing, everywhere within seconds."""
    tenant = options(context).tenant

    async def revoke(site: Site) -> Key:
        await site.keys.revoke(id, tenant=tenant)
        return await site.keys.get(id, tenant=tenant)

    view = run(context, revoke, of_tenant=True)
    if as_json:
        show_json({"key": view})
    else:
        say(f"key {id} ({view.name}) is revoked")


def _say_made(made: MadeKey, as_json: bool) -> None:
    if as_json:
        view = {name: getattr(made, name) for name in Key.__struct_fields__}
        show_json({"key": made.key, "made": view})
        return
    say(made.key or "")
    output.complain(f"key {made.id} ({made.name}, {made.role} of {made.tenant}), shown this once")
