"""Words that a shell may complete with: names, quickly asked for, and nothing at all on trouble."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from sexton import Sexton
    from sexton.cli.site import Site

# Somebody has pressed a key, and waits.
PATIENCE = 0.3
MOST = 100

Look = Callable[["Site", str], Awaitable[Iterable[str]]]


def _completes(look: Look) -> Callable[[typer.Context, str], list[str]]:
    def names(context: typer.Context, incomplete: str) -> list[str]:
        try:
            opened = _site(context)  # which takes its time only to import what it needs
            found = asyncio.run(_looked(opened, look, incomplete))
        except Exception:  # whatever it is: a shell must not be disturbed
            return []
        return sorted({each for each in found if each.startswith(incomplete)})

    return names


async def _looked(
    opened: "AbstractAsyncContextManager[Site] | None", look: Look, incomplete: str
) -> Iterable[str]:
    if opened is None:
        return []
    async with asyncio.timeout(PATIENCE):
        async with opened as site:
            return await look(site, incomplete)


def _site(context: typer.Context) -> "AbstractAsyncContextManager[Site] | None":
    """The one that the line means, as far as it is typed; None: nothing to ask."""
    from sexton.cli.session import Options

    given = context.find_root().params
    names = ("database_url", "schema", "data_folder", "server", "key_file", "tenant_name")
    options = Options(*(given.get(name) for name in names))
    if (url := options.service) is not None:
        from sexton.cli.server import at, read_key

        return at(url, read_key(options.key_file))
    app = options.bare()
    if app.settings.database_url is None:
        return None  # nobody starts a PostgreSQL to complete a word
    return _opened(app, options.tenant)


@asynccontextmanager
async def _opened(app: "Sexton", tenant: str | None) -> AsyncIterator["Site"]:
    from sexton.cli.database import Database
    from sexton.store.schedules import DEFAULT_TENANT

    async with app:
        yield Database(app, tenant or DEFAULT_TENANT)


async def _schedules(site: "Site", incomplete: str) -> Iterable[str]:
    page = await site.schedules.list(text=incomplete or None, limit=MOST)
    return [each.name for each in page]


async def _calendars(site: "Site", incomplete: str) -> Iterable[str]:
    return [each.name for each in await site.calendars.list(limit=MOST)]


async def _endpoints(site: "Site", incomplete: str) -> Iterable[str]:
    return [each.name for each in await site.endpoints.list(limit=MOST)]


async def _queues(site: "Site", incomplete: str) -> Iterable[str]:
    return [each.queue for each in await site.queues()]


async def _tasks(site: "Site", incomplete: str) -> Iterable[str]:
    """Those that there are schedules or jobs of: what workers know, only workers know."""
    scheduled = await site.schedules.list(limit=MOST)
    found = [each.target["task"] for each in scheduled if "task" in each.target]
    return found + [each.task for each in await site.jobs(limit=MOST)]


schedules = _completes(_schedules)
calendars = _completes(_calendars)
endpoints = _completes(_endpoints)
queues = _completes(_queues)
tasks = _completes(_tasks)
