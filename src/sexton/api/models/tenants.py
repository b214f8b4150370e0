"""Tenants and their quotas."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import Path
from pydantic import BaseModel, BeforeValidator, Field, StrictFloat, StrictInt, WithJsonSchema

from sexton.api.models.common import DURATION, Body, Duration

TENANT_NAME = r"^[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?$"
TenantName = Annotated[
    str,
    Path(
        description="Small letters and digits, with dots, dashes and underscores between them.",
        pattern=TENANT_NAME,
        examples=["acme"],
    ),
]
_LARGEST = 2**31 - 1
_FASTEST = 1_000_000


def _whole(given: Any) -> Any:
    """To JSON 7 and 7.0 are the same number."""
    return int(given) if isinstance(given, float) and given.is_integer() else given


Whole = Annotated[StrictInt, BeforeValidator(_whole)]
Rate = Annotated[
    StrictInt | StrictFloat,
    Field(gt=0, le=_FASTEST),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": _FASTEST}),
]
_NULL = "null: as much as it likes."


class TenantIn(Body):
    """A tenant's quotas; what is left out has its usual value."""

    max_schedules: Whole | None = Field(
        default=100_000, ge=0, le=_LARGEST, description=f"Schedules that are not cancelled; {_NULL}"
    )
    max_live_jobs: Whole | None = Field(
        default=1_000_000, ge=0, le=_LARGEST, description=f"Jobs that are not finished; {_NULL}"
    )
    max_payload_bytes: Whole | None = Field(
        default=262_144, ge=0, le=200_000_000, description=f"Bytes of a payload; {_NULL}"
    )
    min_interval: Duration | None = Field(
        default=1,
        description=f"The shortest time between fires of a schedule; null: any. {DURATION}",
    )
    requests_per_second: Rate | None = Field(
        default=200,
        gt=0,
        le=1_000_000,
        description=f"Requests of all its keys to one process; {_NULL}",
    )


class TenantOut(BaseModel):
    """A tenant."""

    name: str = Field(description="What it is called in URLs and keys.")
    created_at: datetime = Field(description="Since when there is one.")
    max_schedules: int | None = Field(description="Schedules that are not cancelled.")
    max_live_jobs: int | None = Field(description="Jobs that are not finished.")
    max_payload_bytes: int | None = Field(description="Bytes of a payload.")
    min_interval: float | None = Field(description="Seconds between fires of a schedule.")
    requests_per_second: float | None = Field(description="Requests to one process.")
    over_quota: bool = Field(
        description="It has as many live jobs as it may: its fires are recorded, and make none."
    )
