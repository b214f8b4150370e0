"""The cluster as it is looked at."""

from datetime import datetime

from pydantic import BaseModel, Field


class NodeOut(BaseModel):
    """A node that lives: a process that fires schedules."""

    id: int = Field(description="Its id, never given again.")
    pid: int = Field(description="Its process, on its host.")
    name: str = Field(description="What it is called.")
    host: str = Field(description="Where it runs.")
    leader: bool = Field(description="Whether it leads.")
    partitions: int = Field(description="How many of the 256 slices of the schedules it fires.")
    version: str = Field(description="Its version of Sexton.")
    started_at: datetime = Field(description="Since when.")
    renewed_at: datetime = Field(description="When it was last heard of.")
    lease_until: datetime = Field(description="Silent until then, it is lost.")
    lease_left: float = Field(description="That in seconds from now.")
    epoch: int | None = Field(description="Of what it owns; null: nothing yet.")
    skew: float | None = Field(description="By how many seconds its clock differs.")
    fired: int = Field(description="How many fires it has decided.")
    last_fire_at: datetime | None = Field(description="The instant of the last of them.")
    zones: str | None = Field(description="The edition of the time zones it computes with.")


class ClusterOut(BaseModel):
    """Who fires schedules."""

    term: int = Field(description="Grows with each election.")
    leader: int | None = Field(description="The node that leads; null: nobody at this moment.")
    elected_at: datetime | None = Field(description="Since when it does.")
    partitions: int = Field(description="How many slices of the schedules there are.")
    owned: int = Field(description="How many of them living nodes own.")
    nodes: list[NodeOut] = Field(description="Those that live.")
