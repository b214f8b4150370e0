"""Who owns which partitions, and who leads."""

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Change
from sexton.torture.check.invariant import Invariant
from sexton.torture.check.silence import RECOVERS, UNTROUBLED, untroubled


class OneOwner(Invariant):
    """A partition has one owner, not two and not none; a cluster one leader; terms only grow."""

    name = "one-owner"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._owned: dict[int, list[int]] = {}
        self._epoch = 0
        self._term = 0
        self._tx = (0, 0)
        self._gone: dict[int, int] = {}  # nodes, by which transaction
        self._hole: tuple[int, list[int]] | None = None  # since when which are nobody's
        self._holes: list[tuple[int, list[int], int]] = []  # and until when

    def on_ownership(self, change: Change) -> None:
        if self._tx[0] != change.tx:
            self._look(change.tx)
        self._tx = (change.tx, change.at)
        if change.op == "D":
            self._owned.pop(change.id, None)
            return
        self.checked += 1
        now = change.now
        if now["epoch"] <= self._epoch:
            what = (
                f"node {change.id} got epoch {now['epoch']} after {self._epoch} had been given out"
            )
            self.violated(what, change.at)
        if now["term"] != change.was["term"]:
            what = f"node {change.id} got its share in term {now['term']}, not {change.was['term']}"
            self.violated(what, change.at)
        self._epoch = max(self._epoch, now["epoch"])
        self._owned[change.id] = now["partitions"]

    def on_node(self, change: Change) -> None:
        if change.op == "U" and change.now["gone"] is not None:
            self._gone.setdefault(change.id, change.tx)

    def _look(self, before: int = 0) -> None:
        """At the end of a transaction: within one, a partition may be given before it is taken."""
        owners: dict[int, int] = {}
        for node, partitions in self._owned.items():
            if partitions and self._gone.get(node, before) != before:
                what = f"partition {partitions[0]} and {len(partitions) - 1} others are owned by"
                self.violated(f"{what} node {node}, which is gone", self._tx[1])
            for each in partitions:
                if each in owners:
                    what = f"partition {each} is owned by nodes {owners[each]} and {node}"
                    self.violated(what, self._tx[1])
                owners[each] = node

        self._nobodys(self._tx[1], self.world.charge.owned_by_nobody())

    def _nobodys(self, at: int, partitions: list[int]) -> None:
        """A share that is taken is given, in one transaction: nobody has it if there is nobody."""
        if partitions and self._epoch:
            self._hole = self._hole or (at, partitions)
        elif self._hole is not None:
            self._holes.append((*self._hole, at))
            self._hole = None

    def on_leader(self, change: Change) -> None:
        was, now = change.was, change.now
        self.checked += 1
        if now["term"] < max(self._term, was["term"]):
            self.violated(f"the term went back to {now['term']}", change.at)
        self._term = max(self._term, now["term"])
        if now["node"] == was["node"] and now["term"] == was["term"]:
            return  # it resigns
        if now["term"] == was["term"]:
            self.violated(f"node {now['node']} leads in the term of another", change.at)
        over = was["node"] is None or was["node_gone"] is not None or was["node_lease"] is None
        ends = [each for each in (was["lease"], was["node_lease"]) if each is not None]
        if not over and min(ends) > change.at:
            what = f"node {now['node']} was elected while node {was['node']} led"
            self.violated(what, change.at)

    def finish(self) -> None:
        self._look()
        self._nobodys(self.evidence.stopped, [])
        for since, partitions, until in self._holes:
            until = min(until, self.evidence.stopped)
            leaders = self.world.charge.led(since - RECOVERS, until)
            alone = untroubled(self.evidence, since, until, leaders)
            if alone > UNTROUBLED:
                what = f"partition {partitions[0]} and {len(partitions) - 1} others were nobody's"
                lasted = f"for {(until - since) / SECOND:.1f} s, and for {alone / SECOND:.1f} s"
                self.violated(f"{what} {lasted} nothing had happened to the leader", since)
