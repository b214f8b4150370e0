"""Lines of the audit log."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field


class LogLineOut(BaseModel):
    """A change that was made through the service."""

    id: int = Field(description="Grows with each line.")
    at: datetime = Field(description="When.")
    actor: str = Field(description="Who: a key's name and how it begins; `local` without keys.")
    key_id: int | None = Field(description="The id of the key.")
    address: str = Field(description="From where.")
    request_id: str = Field(description="In which request.")
    action: str = Field(description="What was done.", examples=["schedule.pause"])
    subject: str = Field(description="To what.", examples=["nightly-report"])
    before: Any = Field(description="What it was; null if there was none.")
    after: Any = Field(description="What it is; null if there is none.")
