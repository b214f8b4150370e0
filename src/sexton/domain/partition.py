"""Who is to own which partitions: evenly, and with as few moves as that takes."""

from collections.abc import Collection, Iterable, Mapping

PARTITIONS = 256
EVERY = range(PARTITIONS)


def spread(
    owned: Mapping[int, Collection[int]],
    nodes: Iterable[int],
    partitions: Iterable[int] = EVERY,
) -> dict[int, tuple[int, ...]]:
    """Each node's share of the partitions; sizes differ by one at most.

    What a node owns it keeps up to its share, and the larger shares go to those who own the most:
    no other even division moves less. The same question has the same answer on every node.
    """
    left = set(partitions)
    kept: dict[int, list[int]] = {}
    for node in sorted(set(nodes)):
        kept[node] = sorted(left.intersection(owned.get(node, ())))
        left.difference_update(kept[node])
    if not kept:
        return {}
    share, larger = divmod(len(left) + sum(map(len, kept.values())), len(kept))
    by_size = sorted(kept, key=lambda node: (-len(kept[node]), node))
    room = {node: share + (rank < larger) for rank, node in enumerate(by_size)}
    for node, keeps in kept.items():
        left.update(keeps[room[node] :])
        del keeps[room[node] :]
    free = iter(sorted(left))
    for node, keeps in kept.items():
        keeps += [next(free) for _ in range(room[node] - len(keeps))]
    return {node: tuple(sorted(keeps)) for node, keeps in kept.items()}
