"""Lists, page by page: an opaque cursor says where the next one begins."""

import base64
import binascii
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from fastapi import Query
from pydantic import BaseModel, Field

from sexton.api.problems import Problem

T = TypeVar("T")
Item = TypeVar("Item")
MOST = 500
# A filter may fit no row for a long time: after so many the page ends, short as it is.
LOOKED_AT = 2000

Limit = Annotated[int, Query(ge=1, le=MOST, description="How many at most.")]
Cursor = Annotated[
    str | None,
    Query(max_length=2000, description="Where to go on: the `next` of the page before."),
]
_FIRST_YEAR, _LAST_YEAR = 1970, 8999
_LARGEST = 2**63 - 1


class Page(BaseModel, Generic[Item]):
    """One page of a list. It may be short although there are more: only `next` says so."""

    items: list[Item] = Field(description="In the order of the list.")
    next: str | None = Field(description="The cursor of the next page; null: this was the last.")


def page(items: Sequence[Any], following: str | None) -> dict[str, Any]:
    """The body of an answer."""
    return {"items": items, "next": following}


def cursor(*place: Any) -> str:
    """The place of a row in its order, for the client to give back."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def place(given: str | None, kind: type[T]) -> T | None:
    """What `cursor` made; `kind` is a tuple's type. Anybody may have written something else."""
    if given is None:
        return None
    try:
        raw = base64.b64decode(given + "=" * (-len(given) % 4), b"-_", validate=True)
        found = msgspec.json.decode(raw, type=kind)
        if isinstance(found, tuple) and all(map(_usable, found)):
            return found
    except (msgspec.MsgspecError, binascii.Error, ValueError, RecursionError):
        pass
    raise Problem(422, "invalid", "cursor: is not one that a page had as `next`", field="cursor")


def _usable(part: Any) -> bool:
    """Whether PostgreSQL would take it as a parameter."""
    match part:
        case str():
            return "\x00" not in part
        case int():
            return abs(part) <= _LARGEST
        case datetime():
            return part.tzinfo is not None and _FIRST_YEAR <= part.year <= _LAST_YEAR
    return part is None
