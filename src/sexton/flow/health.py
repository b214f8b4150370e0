"""Whether a worker can do its work, as it knows itself."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Health:
    """What a worker knows of itself."""

    worker: int | None
    postgresql: bool
    lease_trusted: bool
    notifications: bool
    running: int
    unsettled: int
    stopping: bool

    @property
    def ready(self) -> bool:
        return self.postgresql and self.lease_trusted and not self.stopping
