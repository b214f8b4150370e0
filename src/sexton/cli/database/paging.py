"""Cursors at the database: where a list goes on, as text that anybody may have typed otherwise."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from sexton.cli.database.ground import refused


def as_all(found: Iterable[Any], kind: type[Any]) -> list[Any]:
    """Rows of the store as the service tells them."""
    return [msgspec.convert(each, kind, from_attributes=True) for each in found]


def cursor_of(place: tuple[Any, ...] | None) -> str | None:
    if place is None:
        return None
    return "_".join(each.isoformat() if isinstance(each, datetime) else str(each) for each in place)


def read_cursor(cursor: str, kind: Any) -> Any:
    """What `cursor_of` made."""
    parts: list[str] = cursor.split("_")
    try:
        whole = msgspec.convert(parts, tuple[str, str]) if len(parts) == 2 else parts[0]
        return msgspec.convert(whole, kind, strict=False)
    except msgspec.ValidationError:
        raise refused(422, "cursor: is not one that a page ended with") from None
