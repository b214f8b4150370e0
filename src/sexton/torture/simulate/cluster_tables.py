"""The statements about nodes, their leader and their partitions, with the guards of their SQL."""

from collections.abc import Mapping, Sequence

from sexton.domain.job import instant
from sexton.domain.partition import PARTITIONS
from sexton.store.cluster import Beat, Entry, Ownership
from sexton.torture.simulate.tables import NEVER, LeaseRow, Tables


class ClusterTables(Tables):
    """Who lives, who leads, who owns what."""

    def register_node(self, lease: float) -> tuple[int, float]:
        """register_node.sql: a node joins, and whoever leads is told."""
        self.node_id += 1
        self.nodes[self.node_id] = LeaseRow(self.now + lease, lease)
        self.notices.append("cluster")
        return self.node_id, self.now

    def heartbeat(self, node: int) -> Beat | None:
        """heartbeat.sql: the lease begins anew, unless the node was declared lost."""
        row = self.nodes.get(node)
        if row is None:
            return None
        now = self.lease_now()
        row.lease_until = now + row.lease_for
        silent, living, next_end = 0, 1, NEVER
        for id, other in self.nodes.items():
            if id != node:
                living += 1
                if other.lease_until <= now:
                    silent += 1
                elif other.lease_until < next_end:
                    next_end = other.lease_until
        sizes = [len(each.partitions) for each in self.ownership.values()]
        leader = self.leader
        led_by = None if leader.node is None else self.nodes.get(leader.node)
        return Beat(
            instant(self.now),
            self.ownership.get(node),
            self.is_led_by(node),
            leader.term,
            0.0 if led_by is None else min(leader.lease_until, led_by.lease_until) - now,
            living != len(sizes)
            or silent > 0
            or sum(sizes) != PARTITIONS
            or max(sizes) - min(sizes) > 1,
            None if next_end == NEVER else next_end - now,
        )

    def elect(self, node: int) -> bool:
        """elect.sql: lead, if the lease of whoever does is over; the term grows."""
        if self.leader_lives() or not self.may_lead(node):
            return False
        leader = self.leader
        before, free = leader.node, leader.lease_until <= self.now or not self._holds(leader.node)
        leader.node, leader.term, leader.lease_until = node, self.next_term(), NEVER
        self.watch.elected(before, free, node, self._holds(node), leader.term)
        return True

    def roster(self) -> list[Entry]:
        """roster.sql: who takes part, and who owns what; nobody is silent for the server's sake."""
        entries = []
        for id in sorted(self.nodes.keys() | self.ownership.keys()):
            row, owned = self.nodes.get(id), self.ownership.get(id)
            entries.append(
                Entry(
                    id,
                    str(id),
                    row is not None,
                    row is None or self.is_silent(row),
                    None if owned is None else owned.epoch,
                    () if owned is None else owned.partitions,
                )
            )
        return entries

    def assign(
        self,
        node: int,
        term: int | None,
        seen: Sequence[Entry],
        shares: Mapping[int, Sequence[int]],
        lost: Sequence[int],
    ) -> bool:
        """assign.sql: all if the roster is as seen, by the leader of this term or a leaver."""
        if (
            not self.may_assign(node, term)
            or not all(self.is_over(id) for id in lost)
            or not all(id in self.nodes for id in shares)
            or not self.is_as_seen(seen)
        ):
            return False
        alive = [id for id in lost if self._holds(id)]
        before, self.ownership = self.ownership, {}
        for id in sorted(shares):
            self.epoch += 1
            owned, partitions = before.get(id), tuple(shares[id])
            if owned is None or owned.partitions != partitions:
                owned = Ownership(self.next_epoch(owned), self.leader.term, partitions)
            self.ownership[id] = owned
        self.watch.assigned(node, term, self.leader, before, self.ownership, alive)
        for id in lost:
            self.nodes.pop(id, None)
        if term is None:
            self.nodes.pop(node, None)
            if self.leader.node == node:
                self.leader.lease_until = self.now
        self.notices.append("cluster")
        return True

    def _holds(self, node: int | None) -> bool:
        row = self.nodes.get(node or 0)
        return row is not None and row.lease_until > self.now

    # ── guards ──────────────────────────────────────────────────────────────

    def lease_now(self) -> float:
        return self.now

    def leader_lives(self) -> bool:
        return self.leader.lease_until > self.now and self._holds(self.leader.node)

    def may_lead(self, node: int) -> bool:
        return self._holds(node)

    def is_led_by(self, node: int) -> bool:
        return self.leader.node == node and self.leader.lease_until > self.now

    def next_term(self) -> int:
        return self.leader.term + 1

    def next_epoch(self, before: Ownership | None) -> int:
        return self.epoch

    def is_silent(self, row: LeaseRow) -> bool:
        return row.lease_until <= self.now and self.started_at < self.now - row.lease_for

    def may_assign(self, node: int, term: int | None) -> bool:
        if term is None:
            return node in self.nodes
        return self._holds(node) and self.leader.node == node and self.leader.term == term

    def is_over(self, node: int) -> bool:
        return node in self.nodes and not self._holds(node)

    def is_as_seen(self, seen: Sequence[Entry]) -> bool:
        epochs = [(each.node, each.epoch) for each in seen if each.epoch is not None]
        return epochs == [(id, self.ownership[id].epoch) for id in sorted(self.ownership)]
