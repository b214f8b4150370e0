"""What the rig gives to an adapter. Runs in the peer's environment: standard library only."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from torture.peers.effects import Effects
from torture.peers.workload import Schedule, schedules


@dataclass(frozen=True)
class Given:
    """Where the database is, which schedules there are, and where effects are noted."""

    url: str
    schedules: list[Schedule]
    effects: Effects

    @classmethod
    def read(cls) -> Given:
        return cls(
            url=os.environ["PEERS_URL"],
            schedules=schedules(tuple(os.environ["PEERS_GROUPS"].split(","))),
            effects=Effects(Path(os.environ["PEERS_EFFECTS"])),
        )
