"""What a node may believe of itself, and until when."""

from dataclasses import dataclass

from sexton.domain.lease import Lease
from sexton.store.cluster import Beat


@dataclass(frozen=True, slots=True)
class Owned:
    """What this node may fire: these partitions, with this epoch in every statement."""

    node: int
    epoch: int
    term: int  # in which it was assigned
    partitions: tuple[int, ...]
    leads: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """What the last heartbeat that was answered said; it counts for as long as its lease."""

    lease: Lease
    is_leader: bool
    term: int  # of the leader, whoever it is
    ownership: Owned | None

    @classmethod
    def of(cls, node: int, beat: Beat, lease: Lease) -> "Standing":
        ours = beat.ownership
        return cls(
            lease,
            beat.leads,
            beat.term,
            None
            if ours is None
            else Owned(node, ours.epoch, ours.term, ours.partitions, beat.leads),
        )

    def leads(self, now: float) -> bool:
        return self.is_leader and self.lease.trusted(now)

    def owned(self, now: float) -> Owned | None:
        """None once the lease cannot be trusted: the database may have given it all to others."""
        return self.ownership if self.lease.trusted(now) else None
