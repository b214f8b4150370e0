"""From the global options to an application that is open, and back to nothing."""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import typer

from sexton import Sexton
from sexton.cli.database import Database
from sexton.cli.output import clean
from sexton.cli.site import Site
from sexton.embedded import EmbeddedServer, default_folder
from sexton.errors import ConfigurationError
from sexton.settings import Settings
from sexton.store.schedules import DEFAULT_TENANT

T = TypeVar("T")
URL = "SEXTON_SERVER"


@dataclass(frozen=True, slots=True)
class Options:
    """What was given before the command; it rules over the environment and the code."""

    database_url: str | None = None
    schema: str | None = None
    data_folder: Path | None = None
    server: str | None = None
    key_file: Path | None = None
    tenant: str | None = None

    @property
    def service(self) -> str | None:
        """The URL of the service that is meant; None: a database is."""
        at_database = (self.database_url, self.data_folder, self.schema) != (None, None, None)
        if self.server is not None and at_database:
            raise ConfigurationError(
                "--server is a service, which has a database of its own: give it alone"
            )
        if at_database:
            return None
        return self.server or os.environ.get(URL) or None

    def application(self) -> Sexton:
        """One without tasks, to look and to operate with."""
        return self.applied(Sexton(self.database_url, schema=self.schema))

    def applied(self, app: Sexton) -> Sexton:
        """The same application, where the options say; refused if that is a service."""
        has_database = app.settings.database_url is not None
        if self.service is not None and (self.server is not None or not has_database):
            raise ConfigurationError(
                "this command works at the database itself, not through a service: run it where "
                f"the database is, without --server or {URL}"
            )
        return self._placed(app)

    def bare(self) -> Sexton:
        """One without tasks, for what needs no database."""
        return self._placed(Sexton(self.database_url, schema=self.schema))

    def _placed(self, app: Sexton) -> Sexton:
        if self.database_url is not None and self.data_folder is not None:
            raise ConfigurationError(
                "--database-url is a PostgreSQL of yours, --data-folder is for the embedded one: "
                "give one of them"
            )
        changes: dict[str, Any] = {}
        if self.schema is not None:
            changes["schema"] = self.schema
        if self.database_url is not None:
            changes["database_url"] = self.database_url
        if self.data_folder is not None:
            changes |= {"data_folder": self.data_folder.expanduser(), "database_url": None}
        app.settings = app.settings.but(**changes)
        return app


def options(context: typer.Context) -> Options:
    """The global options of this command."""
    found = context.find_object(Options)
    assert found is not None, "the callback before every command sets them"
    return found


def run_loop(work: Coroutine[Any, Any, T]) -> T:
    """On uvloop where there is one."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


def run(
    context: typer.Context, work: Callable[[Site], Awaitable[T]], *, of_tenant: bool = False
) -> T:
    """Let `work` have the site that is meant, and close it again before anything is printed.

    `of_tenant`: the command says itself what --tenant is to a service.
    """
    chosen = options(context)
    url = chosen.service
    if url is None:
        tenant = chosen.tenant or DEFAULT_TENANT
        return at_database(context, lambda app: work(Database(app, tenant)))
    if chosen.tenant is not None and not of_tenant:
        raise ConfigurationError(
            "--tenant is for the database; to a service the key says whose it is: give its key"
        )

    from sexton.cli.server import at, read_key

    async def main() -> T:
        async with at(url, read_key(chosen.key_file)) as server:
            return await work(server)

    return run_loop(main())


def at_database(context: typer.Context, work: Callable[[Sexton], Awaitable[T]]) -> T:
    """Open an application, let `work` have it, and close it again."""

    async def main() -> T:
        application = options(context).application()
        if not is_somewhere(application.settings):
            raise ConfigurationError(
                f"there is no Sexton in {_folder(application.settings)}: go to its folder, set "
                f"SEXTON_DATABASE_URL or {URL}, or make one here with `sexton migrate` or "
                "`sexton dev`"
            )
        async with application as app:
            if app.settings.database_url is not None:
                (await app.schema_state()).demand_current()
            return await work(app)

    return run_loop(main())


def is_somewhere(settings: Settings) -> bool:
    """To look for jobs is no reason to make a database."""
    return settings.database_url is not None or _folder(settings).exists()


def _folder(settings: Settings) -> Path:
    return settings.data_folder or default_folder(Path.cwd())


@contextlib.asynccontextmanager
async def embedded(settings: Settings) -> AsyncIterator[EmbeddedServer | None]:
    """The embedded server for as long as it is needed; None if there is one of the user's."""
    if settings.database_url is not None:
        yield None
        return
    folder = _folder(settings)
    server = await asyncio.to_thread(EmbeddedServer.open, folder)
    try:
        yield server
    finally:
        await asyncio.to_thread(server.close)


class OneLine(logging.Formatter):
    """A record on one line, its traceback on more; other people's text cannot move the cursor."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return clean(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return clean(super().formatException(ei), lines=True)


def called(name: str | None) -> str:
    """What a worker or a node is called, given a name or not."""
    return name or f"{socket.gethostname()}:{os.getpid()}"


def log_to(handler: logging.Handler, level: str, form: str | None = None, **always: str) -> None:
    """Sexton's own records from `level`, the warnings of everybody else; as text or as JSON."""
    if (form or Settings.load().log_format) == "json":
        from sexton.observe.logs import JsonLines

        handler.setFormatter(JsonLines(**always))
    else:
        handler.setFormatter(OneLine())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.getLogger("sexton").setLevel(level.upper())
