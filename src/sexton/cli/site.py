"""Where a command does its work: a database, or a service that has one.

Both have the same verbs, under the same names and with the same values: those of the API. A command
knows nothing else of them.
"""

import builtins
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from sexton.remote.views import Page

if TYPE_CHECKING:
    from sexton.cli.database import Database
    from sexton.remote import Server

T = TypeVar("T")
Site: TypeAlias = "Database | Server"

# What a service gives at most at a time.
AT_ONCE = 500


async def gathered(
    list: Callable[..., Awaitable[Page[T]]],
    *given: Any,
    limit: int,
    cursor: str | None = None,
    **filters: Any,
) -> Page[T]:
    """So many of a list, however many pages that takes: with filters some may be short."""
    found: builtins.list[T] = []
    while True:
        some = min(AT_ONCE, limit - len(found))
        page = await list(*given, limit=some, cursor=cursor, **filters)
        found += page.items
        cursor = page.next
        if cursor is None or len(found) >= limit:
            return Page(found, cursor)


def as_target(text: str) -> dict[str, Any]:
    """A task by its name; http:NAME is an endpoint, and a URL one that is written out."""
    if text.startswith(("http://", "https://")):
        return {"http": {"url": text}}
    if text.startswith("http:"):
        return {"http": {"endpoint": text.removeprefix("http:")}}
    return {"task": text}


def in_words(target: dict[str, Any]) -> str:
    """The same, the other way."""
    if "task" in target:
        return str(target["task"])
    said = target.get("http") or {}
    return str(said.get("url") or f"http:{said.get('endpoint') or '?'}")
