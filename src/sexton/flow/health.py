"""Whether a worker can do its work, as it knows itself."""

from collections.abc import Mapping
from dataclasses import dataclass

from sexton.flow.fetch import Fetcher
from sexton.flow.meters import Histograms
from sexton.flow.renew import LeaseKeeper
from sexton.flow.settle import Settler


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


@dataclass(frozen=True, slots=True)
class Meters:
    """Those who count, in a worker."""

    fetchers: Mapping[str, Fetcher]
    settler: Settler
    ran: Histograms
    keeper: LeaseKeeper
