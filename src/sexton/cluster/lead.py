"""Changing who owns what: look at the roster, plan in pure code, let the database check and do it.

Between the look and the change nothing is locked, so a node that stops in between holds up nobody;
if anything has changed meanwhile, the database refuses and one looks again.
"""

import logging
from collections.abc import Iterable, Sequence

from sexton.domain.partition import EVERY, spread
from sexton.store.cluster import Cluster, Entry

log = logging.getLogger("sexton.cluster")

TRIES = 5
Shares = dict[int, tuple[int, ...]]


async def balance(cluster: Cluster, node: int, term: int, *, judge: bool) -> bool:
    """As the leader, give each node an even share; true if anything was changed.

    The silent are declared lost if we may `judge`; if not, they keep what they have.
    """
    for _ in range(TRIES):
        roster = await cluster.roster()
        silent = [each for each in roster if each.lives and each.silent and each.node != node]
        shares = _shares(roster, {each.node for each in silent}, judge=judge)
        lost = silent if judge else []
        if not lost and shares == _owned(roster):
            return False
        if await cluster.assign(node, term, roster, shares, [each.node for each in lost]):
            for each in lost:
                log.warning(
                    "node %d (%s) did not renew its lease: it is lost", each.node, each.name
                )
            log.info("%d partitions moved, among %d nodes", _moved(roster, shares), len(shares))
            return True
    return False


async def hand_over(cluster: Cluster, node: int) -> bool:
    """Leave: what this node owns goes to the others in the same transaction; false if it is gone.

    Each refusal means that another's change went through, so this ends.
    """
    while True:
        roster = await cluster.roster()
        if not any(each.node == node and each.lives for each in roster):
            return False
        others = [each for each in roster if each.node != node]
        silent = {each.node for each in others if each.lives and each.silent}
        shares = _shares(others, silent, judge=False)
        if await cluster.assign(node, None, roster, shares):
            return True


def _shares(roster: Sequence[Entry], silent: set[int], *, judge: bool) -> Shares:
    fresh = [each.node for each in roster if each.lives and each.node not in silent]
    kept = {} if judge else {each.node: each.partitions for each in roster if each.node in silent}
    owned = {each.node: each.partitions for each in roster}
    return spread(owned, fresh, set(EVERY).difference(*kept.values())) | kept


def _owned(roster: Iterable[Entry]) -> Shares:
    return {each.node: each.partitions for each in roster if each.epoch is not None}


def _moved(roster: Iterable[Entry], shares: Shares) -> int:
    before = _owned(roster)
    return sum(len(set(share).difference(before.get(node, ()))) for node, share in shares.items())
