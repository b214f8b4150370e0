"""Who was in charge: of each partition, and of the cluster, from when on."""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from sexton.torture.check.folder import Change

PARTITIONS = 256
Holder = tuple[int, int | None]  # since when, which node
_NEVER = 1 << 62


class Held(NamedTuple):
    """Who was in charge, from when until when; None: nobody was."""

    node: int | None
    since: int
    until: int


class Charge:
    """Fed with the changes of shares and leaders; tells who was responsible in some time."""

    def __init__(self) -> None:
        self._shares: dict[int, list[int]] = {}  # of nodes
        self._owners: dict[int, list[Holder]] = {each: [(0, None)] for each in range(PARTITIONS)}
        self._leaders: list[Holder] = [(0, None)]

    def share(self, change: Change) -> None:
        """A node has other partitions than before, or none."""
        now = [] if change.op == "D" else change.now["partitions"]
        for each in {*self._shares.get(change.id, ())} - {*now}:
            if self._owners[each][-1][1] == change.id:
                self._owners[each].append((change.at, None))
        for each in now:
            if self._owners[each][-1][1] != change.id:
                self._owners[each].append((change.at, change.id))
        self._shares[change.id] = now

    def leads(self, change: Change) -> None:
        self._leaders.append((change.at, change.now["node"]))

    def owned_by_nobody(self) -> list[int]:
        """Partitions that are nobody's at this point of the changes."""
        return [each for each, holders in self._owners.items() if holders[-1][1] is None]

    def of(self, schedule: int, first: int, last: int) -> Iterator[Held]:
        """Who had the partition of a schedule, and who led, at some time in between."""
        yield from _held(self._owners[schedule % PARTITIONS], first, last)
        yield from self.led(first, last)

    def led(self, first: int, last: int) -> Iterator[Held]:
        """Who led at some time in between."""
        return _held(self._leaders, first, last)

    def leaders(self, first: int, last: int) -> set[int | None]:
        return {each.node for each in self.led(first, last)}


def _held(holders: list[Holder], first: int, last: int) -> Iterator[Held]:
    nth = bisect_right(holders, first, key=lambda each: each[0]) - 1
    for (since, node), (until, _) in pairwise([*holders[max(nth, 0) :], (_NEVER, None)]):
        if since > last:
            return
        yield Held(node, since, until)
