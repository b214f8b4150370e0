"""Keys as they are made, and as they are looked at afterwards."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import Path, Query
from pydantic import BaseModel, Field

from sexton.api.models.common import DURATION, Body, Duration, Word
from sexton.api.principal import Role

KeyId = Annotated[int, Path(ge=1, le=2**31 - 1, description="The key's id.")]
OfTenant = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=63,
        description="Another tenant's keys, for admins of the tenant `default`.",
    ),
]


class KeyIn(Body):
    """A key to be made."""

    name: Word = Field(description="For people, and for the audit log.", examples=["deploy"])
    role: Role = Field(
        description="viewer reads; operator also changes; worker claims and settles jobs; "
        "admin does everything, keys included."
    )
    expires_in: Duration | None = Field(
        default=None,
        description=f"It opens nothing after so long; null: it does for ever. {DURATION}",
    )


class RotateIn(Body):
    """How one key follows another."""

    overlap: Duration = Field(
        default="1h", description=f"The old one still opens for so long. {DURATION}"
    )
    expires_in: Duration | None = Field(
        default=None,
        description=f"The new one's; null: as long as the old one was made for. {DURATION}",
    )


class KeyOut(BaseModel):
    """A key, but for the key itself."""

    id: int = Field(description="Its id.")
    tenant: str = Field(description="Whose it is.")
    name: str = Field(description="What it is called.")
    role: Role = Field(description="What it may do.")
    shown: str = Field(description="How it begins, to tell it from others.")
    state: Literal["active", "expired", "revoked"] = Field(description="Whether it opens.")
    created_at: datetime = Field(description="When it was made.")
    created_by: str = Field(description="Who made it.")
    expires_at: datetime | None = Field(description="From when it opens nothing.")
    revoked_at: datetime | None = Field(description="Since when it opens nothing.")
    last_used_at: datetime | None = Field(description="When it was last used, to the minute.")
    replaced_by: int | None = Field(description="The key that was made in its place, by its id.")


class KeyMade(KeyOut):
    """A new key."""

    key: str | None = Field(
        description="The key. It is shown this once: null when a request is sent again with its "
        "Idempotency-Key."
    )
