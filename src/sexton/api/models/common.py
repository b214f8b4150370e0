"""What the models have in common: names, lengths of time and instants as HTTP says them."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import Path
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    WithJsonSchema,
)

from sexton.api.paths import name_in
from sexton.domain.spec import LONGEST_NAME, checked_instant, checked_name
from sexton.errors import InvalidSchedule

_UNREACHABLE = (".", "..")


class Body(BaseModel):
    """What a request may say: nothing but the fields that there are."""

    model_config = ConfigDict(extra="forbid")


def reachable(given: Any) -> str:
    """A name that a URL can hold, too."""
    if given in _UNREACHABLE:
        raise InvalidSchedule(f"name: {given!r} is none: no URL could hold it")
    return checked_name(given)


def _segment(given: str) -> str:
    return _name(name_in(given))


def _name(given: str) -> str:
    try:
        return reachable(given)
    except InvalidSchedule as error:
        raise ValueError(_said(error)) from None


def _plain(given: str) -> str:
    try:
        return checked_name(given)
    except InvalidSchedule as error:
        raise ValueError(_said(error)) from None


def _instant(given: Any) -> datetime:
    try:
        return checked_instant(given, "")
    except InvalidSchedule as error:
        raise ValueError(_said(error)) from None


def _said(error: InvalidSchedule) -> str:
    """Without the field, which the problem names."""
    return str(error).partition(": ")[2]


_NAME_SCHEMA = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}

# The name of something, as a segment of the path.
Name = Annotated[
    str,
    Path(description="Its name; percent-encoded if it holds a slash or the like."),
    AfterValidator(_segment),
    WithJsonSchema(_NAME_SCHEMA),
]
# The same in a body, and other texts that PostgreSQL is to keep and index.
BodyName = Annotated[StrictStr, AfterValidator(_name), WithJsonSchema(_NAME_SCHEMA)]
Word = Annotated[StrictStr, AfterValidator(_plain), WithJsonSchema(_NAME_SCHEMA)]

# Checked by the domain, which knows what each may be.
Duration = Annotated[
    StrictInt | StrictFloat | StrictStr,
    Field(examples=["90s", "1h30m", 90]),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0},
                {"type": "string", "minLength": 1, "maxLength": 40},
            ]
        }
    ),
]
DURATION = 'Seconds, or a text such as "90s", "5m" or "1h30m".'

# An instant that everybody understands alike.
Instant = Annotated[
    datetime,
    BeforeValidator(_instant),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
