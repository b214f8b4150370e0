"""A word to whoever names a task that no worker has declared; it is made all the same."""

import contextlib
from typing import Any

import asyncpg

from sexton.cli.database import Database
from sexton.cli.output import complain
from sexton.cli.site import Site
from sexton.errors import SextonError, did_you_mean


async def doubts(site: Site, target: dict[str, Any], queue: str | None) -> str | None:
    """What to say of it. A service does not tell its tenants the names of what others run."""
    task = target.get("task")
    if not isinstance(site, Database) or task is None:
        return None
    # Too late to fail: what was asked for is done.
    with contextlib.suppress(SextonError, asyncpg.PostgresError):
        if declared := await site.declared_without(task, queue):
            meant = did_you_mean(task, declared)
            said = f"no worker has declared a task {task!r}"
            return said + (meant or " yet: its jobs wait until one does")
    return None


def note(doubt: str | None) -> None:
    """On stderr, for people; no error, so the exit code does not change."""
    if doubt is not None:
        complain(doubt)
