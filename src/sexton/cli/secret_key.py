"""sexton secret-key"""

from typing import Annotated

import typer

from sexton.app import Sexton
from sexton.cli.output import ExitCode, complain, say
from sexton.cli.session import at_database
from sexton.errors import ConfigurationError


def secret_key(
    context: typer.Context,
    reseal: Annotated[
        bool,
        typer.Option(
            "--reseal",
            help="Encrypt every secret in the database with the first key of SEXTON_SECRET_KEY; "
            "after that the others can be taken away.",
        ),
    ] = False,
) -> None:
    """Print a new key for SEXTON_SECRET_KEY, which secrets are encrypted with at rest."""
    # Here, because of the library that comes along.
    from sexton.targets.http.reseal import Resealed
    from sexton.targets.http.reseal import reseal as reseal_all
    from sexton.targets.http.seal import Seal, fresh_key

    if not reseal:
        say(fresh_key())
        return

    async def work(app: Sexton) -> Resealed:
        if not app.settings.secret_keys:
            raise ConfigurationError("set SEXTON_SECRET_KEY: the new key first, then the old one")
        return await reseal_all((await app.client()).store, Seal(app.settings.secret_keys))

    done = at_database(context, work)
    say(f"the secrets of {done.done} endpoints were encrypted with the first key")
    for tenant, name in done.closed:
        complain(f"endpoint {name!r} of tenant {tenant} needs a key that is not there")
    if done.closed:
        raise typer.Exit(ExitCode.FINDING)
