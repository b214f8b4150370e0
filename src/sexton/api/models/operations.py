"""What probes are told."""

from pydantic import BaseModel, Field


class AliveOut(BaseModel):
    """This process lives."""

    alive: bool = Field(description="Always true: whoever can say so lives.")


class ReadyOut(BaseModel):
    """Whether this process can serve."""

    ready: bool = Field(description="Whether requests should be sent here.")
    reasons: list[str] = Field(description="Why not; empty if it is ready.")
