"""What a node may believe of itself, and until when."""

from dataclasses import dataclass, replace

from sexton.domain.lease import MARGIN, Lease
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
    """What the last heartbeat that was answered said, and how long that counts."""

    lease: Lease
    leads_until: float
    term: int  # of the leader, whoever it is
    ownership: Owned | None

    @classmethod
    def of(cls, node: int, beat: Beat, lease: Lease) -> "Standing":
        leads = beat.leader == node and beat.leader_for > 0
        leads_for = beat.leader_for - MARGIN * lease.length if leads else 0.0
        ours = beat.ownership
        return cls(
            lease,
            lease.asked_at + leads_for,
            beat.term,
            None if ours is None else Owned(node, ours.epoch, ours.term, ours.partitions, leads),
        )

    def leads(self, now: float) -> bool:
        return now < self.leads_until

    def owned(self, now: float) -> Owned | None:
        """None once the lease cannot be trusted: the database may have given it all to others."""
        if self.ownership is None or not self.lease.trusted(now):
            return None
        if self.ownership.leads and not self.leads(now):
            return replace(self.ownership, leads=False)
        return self.ownership
