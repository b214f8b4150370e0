"""Who owns which partitions, and who leads."""

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import Change
from sexton.torture.check.invariant import Invariant


class OneOwner(Invariant):
    """A partition has one owner at a time, the cluster one leader; epochs and terms only grow."""

    name = "one-owner"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._owned: dict[int, list[int]] = {}
        self._epoch = 0
        self._term = 0
        self._tx = (0, 0)

    def on_ownership(self, change: Change) -> None:
        if self._tx[0] != change.tx:
            self._look()
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

    def _look(self) -> None:
        """At the end of a transaction: within one, a partition may be given before it is taken."""
        owners: dict[int, int] = {}
        for node, partitions in self._owned.items():
            for each in partitions:
                if each in owners:
                    what = f"partition {each} is owned by nodes {owners[each]} and {node}"
                    self.violated(what, self._tx[1])
                owners[each] = node

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
