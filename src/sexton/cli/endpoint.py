"""sexton endpoint put|ls|show|update|test|rm"""

from pathlib import Path
from typing import Annotated, Any

import typer

from sexton.cli import output
from sexton.cli.complete import endpoints
from sexton.cli.output import dated, say, say_more, shortly, show, show_json, when
from sexton.cli.parameters import Cursor, Json, Limit, as_seconds, reads
from sexton.cli.session import run
from sexton.cli.site import Site, gathered
from sexton.errors import ConfigurationError
from sexton.remote.admin import Endpoint
from sexton.remote.views import Page

commands = typer.Typer(no_args_is_help=True, help="Endpoints: where jobs are delivered by HTTP.")
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The endpoint's name.", autocompletion=endpoints)
]


def _header(text: str) -> str:
    name, colon, _ = text.partition(":")
    if not colon or not name.strip():
        raise ValueError(f"{text!r} is not like X-Team: bells")
    return text


# A header may be a secret, and everybody on the host sees the line: so there is a file as well.
Header = Annotated[
    list[str] | None,
    typer.Option(
        "--header",
        metavar="NAME:VALUE",
        parser=reads(_header),
        help="Sent along; more than once. Secret ones: --headers-file.",
    ),
]
HeadersFile = Annotated[
    Path | None,
    typer.Option("--headers-file", metavar="FILE", help="Of such lines: NAME: VALUE."),
]
SecretFile = Annotated[
    Path | None,
    typer.Option("--secret-file", metavar="FILE", help="Has the secret that signs: whsec_…"),
]
Generate = Annotated[
    bool, typer.Option("--generate", help="Make a secret that signs, and show it this once.")
]
Length = Annotated[
    float | None,
    typer.Option("--timeout", metavar="DURATION", parser=as_seconds, help="For an answer; 30s."),
]
AcceptedFor = Annotated[
    float | None,
    typer.Option(
        "--accepted-for",
        metavar="DURATION",
        parser=as_seconds,
        help="Who answers 202 has so long to settle; 1h.",
    ),
]
MaxAttempts = Annotated[
    int | None, typer.Option("--max-attempts", min=1, max=1000, help="Attempts in all; 12.")
]


def _read(file: Path) -> str:
    try:
        return file.expanduser().read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read {file}: {error}") from None


def _headers(given: list[str] | None, file: Path | None) -> dict[str, str]:
    lines = [*(given or ())]
    if file is not None:
        lines += [line for line in _read(file).splitlines() if line.strip()]
    pairs = [line.partition(":") for line in lines]
    return {name.strip(): value.strip() for name, _, value in pairs}


def _common(
    headers: dict[str, str],
    generate: bool,
    timeout: float | None,
    accepted_for: float | None,
    max_attempts: int | None,
) -> dict[str, Any]:
    said: dict[str, Any] = {
        "headers": headers or None,
        "generate": generate or None,
        "timeout": timeout,
        "accepted_for": accepted_for,
        "retry": None if max_attempts is None else {"max_attempts": max_attempts},
    }
    return {name: value for name, value in said.items() if value is not None}


@commands.command("put")
def put_endpoint(
    context: typer.Context,
    name: Name,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where jobs are sent, as a POST.")],
    header: Header = None,
    headers_file: HeadersFile = None,
    secret_file: SecretFile = None,
    generate: Generate = False,
    timeout: Length = None,
    accepted_for: AcceptedFor = None,
    max_attempts: MaxAttempts = None,
    as_json: Json = False,
) -> None:
    """Make an endpoint, or make it so; headers and secrets that are not given stay."""
    headers = _headers(header, headers_file)
    said = _common(headers, generate, timeout, accepted_for, max_attempts)
    if secret_file is not None:
        said["secrets"] = _read(secret_file).split()

    async def put(site: Site) -> Endpoint:
        return await site.endpoints.put(name, url, **said)

    _say_made(run(context, put), as_json)


@commands.command("update")
def update_endpoint(
    context: typer.Context,
    name: Name,
    url: Annotated[str | None, typer.Option("--url", metavar="URL", help="Another.")] = None,
    header: Header = None,
    headers_file: HeadersFile = None,
    without: Annotated[
        list[str] | None,
        typer.Option("--no-header", metavar="NAME", help="Not sent any more; more than once."),
    ] = None,
    secret_file: SecretFile = None,
    generate: Generate = False,
    keep_secrets: Annotated[
        int | None,
        typer.Option("--keep-secrets", min=0, max=5, help="So many stay, the newest."),
    ] = None,
    timeout: Length = None,
    accepted_for: AcceptedFor = None,
    max_attempts: MaxAttempts = None,
    as_json: Json = False,
) -> None:
    """Change some of it. Another secret: --generate, and later --keep-secrets 1."""
    headers: dict[str, Any] = _headers(header, headers_file) | dict.fromkeys(without or ())
    changes = _common(headers, generate, timeout, accepted_for, max_attempts)
    given = {"url": url, "keep_secrets": keep_secrets}
    changes |= {field: value for field, value in given.items() if value is not None}
    if secret_file is not None:
        changes["add_secret"] = _read(secret_file)
    if not changes:
        raise ConfigurationError("nothing to change: give the options that are to be different")

    async def update(site: Site) -> Endpoint:
        return await site.endpoints.update(name, **changes)

    _say_made(run(context, update), as_json)


@commands.command("ls")
def list_endpoints(
    context: typer.Context,
    written_out: Annotated[
        bool, typer.Option("--written-out", help="Also those that were given as a URL.")
    ] = False,
    cursor: Cursor = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """Endpoints, by name; never their secrets."""

    async def look(site: Site) -> Page[Endpoint]:
        return await gathered(
            site.endpoints.list, written_out=written_out, limit=limit, cursor=cursor
        )

    found = run(context, look)
    if as_json:
        show_json({"endpoints": found.items, "next": found.next})
        return
    if not found.items:
        say("no endpoints; make one with `sexton endpoint put NAME URL`")
        return
    made = output.table(
        *("name", "url", "secrets", "timeout", "attempts", "changed"),
        right=("secrets", "timeout", "attempts"),
        shrinks=("name", "url"),
    )
    for each in found:
        output.row(
            made,
            *(each.name, each.url, each.secrets["count"], shortly(each.timeout)),
            *(each.retry["max_attempts"], when(each.changed_at)),
        )
    show(made)
    say_more(found.next)


@commands.command("show")
def show_endpoint(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """One endpoint, but for its secrets."""

    async def look(site: Site) -> Endpoint:
        return await site.endpoints.get(name)

    view = run(context, look)
    if as_json:
        show_json(view)
        return
    names = view.headers["names"]
    retry = view.retry
    show(
        output.facts(
            [
                ("endpoint", view.name),
                ("url", view.url),
                ("headers", "sealed" if names is None else ", ".join(names)),
                ("secrets", view.secrets["count"]),
                ("timeout", shortly(view.timeout)),
                ("accepted for", shortly(view.accepted_for)),
                ("attempts", retry["max_attempts"]),
                ("retries", f"after {shortly(retry['base'])} to {shortly(retry['cap'])}"),
                ("task", view.task),
                ("version", f"{view.version}, since {dated(view.changed_at)}"),
            ]
        )
    )


@commands.command("test")
def deliver_test(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Have a worker deliver a test event, signed like any other."""

    async def deliver(site: Site) -> int:
        return await site.endpoints.test(name)

    job = run(context, deliver)
    if as_json:
        show_json({"job": job})
    else:
        say(f"job {job} delivers it; see `sexton job show {job}`")


@commands.command("rm")
def remove_endpoint(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Remove an endpoint; refused while schedules deliver to it."""

    async def remove(site: Site) -> None:
        await site.endpoints.remove(name)

    run(context, remove)
    if as_json:
        show_json({"removed": name})
    else:
        say(f"endpoint {name} is removed")


def _say_made(view: Endpoint, as_json: bool) -> None:
    if as_json:
        show_json(view)
        return
    if view.secret is not None:
        say(view.secret)
        output.complain(f"the secret of endpoint {view.name}, shown this once")
    else:
        say(f"endpoint {view.name}, version {view.version}")
