"""Partitions are divided evenly, completely, and with the fewest moves."""

import itertools
from collections import Counter
from collections.abc import Collection, Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.domain.partition import EVERY, PARTITIONS, spread

ids = st.integers(1, 10_000)
node_sets = st.sets(ids, min_size=1, max_size=300)


@st.composite
def ownerships(draw: st.DrawFn) -> dict[int, list[int]]:
    """Any division among any nodes, however lopsided; some partitions belong to nobody."""
    nodes = sorted(draw(st.sets(ids, min_size=1, max_size=20)))
    weights = draw(st.lists(st.integers(0, 50), min_size=len(nodes), max_size=len(nodes)))
    nobody = draw(st.integers(0, 20))
    wheel = [node for node, weight in zip(nodes, weights, strict=True) for _ in range(weight)]
    wheel += [0] * (nobody + 1)
    seed = draw(st.randoms(use_true_random=False))
    owned: dict[int, list[int]] = {node: [] for node in nodes}
    for partition in EVERY:
        if (node := seed.choice(wheel)) != 0:
            owned[node].append(partition)
    return owned


def moves(before: Mapping[int, Collection[int]], after: Mapping[int, Collection[int]]) -> int:
    """How many partitions somebody gets who did not have them."""
    return sum(len(set(after[node]) - set(before.get(node, ()))) for node in after)


def fewest_moves(before: Mapping[int, Collection[int]], nodes: Collection[int]) -> int:
    """Whatever the division, who has more than a share loses it; the large shares are a choice."""
    share, larger = divmod(PARTITIONS, len(nodes))
    counts = [len(before.get(node, ())) for node in nodes]
    kept = sum(min(count, share) for count in counts)
    return PARTITIONS - kept - min(larger, sum(count > share for count in counts))


@given(ownerships(), node_sets)
@settings(max_examples=150, deadline=None)
def test_a_division_is_even_complete_disjoint_and_moves_the_least(
    before: dict[int, list[int]], nodes: set[int]
) -> None:
    after = spread(before, nodes)
    assert list(after) == sorted(nodes)
    assert Counter(itertools.chain(*after.values())) == Counter(EVERY)
    sizes = [len(each) for each in after.values()]
    assert max(sizes) - min(sizes) <= 1
    assert moves(before, after) == fewest_moves(before, nodes)
    assert all(list(each) == sorted(each) for each in after.values())


@given(ownerships(), node_sets)
@settings(max_examples=50, deadline=None)
def test_a_division_that_is_even_stays_as_it_is(
    before: dict[int, list[int]], nodes: set[int]
) -> None:
    once = spread(before, nodes)
    assert spread(once, nodes) == once


@given(ownerships(), st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_the_order_in_which_nodes_are_named_does_not_matter(
    before: dict[int, list[int]], random: object
) -> None:
    nodes = [*before, 20_000, 20_001]
    forwards = spread(before, nodes)
    backwards = spread(dict(reversed(before.items())), reversed(nodes))
    assert forwards == backwards


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 99)), max_size=40))
@settings(max_examples=50, deadline=None)
def test_nodes_that_come_and_go_move_only_what_they_must(steps: list[tuple[bool, int]]) -> None:
    nodes, owned, number = {0}, spread({}, [0]), 0
    for joins, which in steps:
        before = owned
        if joins or len(nodes) == 1:
            number += 1
            nodes.add(number)
            owned = spread(before, nodes)
            assert moves(before, owned) == len(owned[number]), "only the newcomer gets any"
        else:
            gone = sorted(nodes)[which % len(nodes)]
            nodes.remove(gone)
            owned = spread(before, nodes)
            assert moves(before, owned) == len(before[gone]), "only what was the leaver's moves"


def test_five_nodes_get_a_fifth_each() -> None:
    assert sorted(map(len, spread({}, range(1, 6)).values())) == [51, 51, 51, 51, 52]


def test_more_nodes_than_partitions_leave_some_without() -> None:
    assert sorted(map(len, spread({}, range(300)).values())) == [0] * 44 + [1] * 256


def test_nobody_gets_nothing() -> None:
    assert spread({1: [0, 1]}, []) == {}


def test_what_others_keep_is_not_divided() -> None:
    kept = range(0, 100)
    after = spread({1: range(100, 256)}, [1, 2], set(EVERY) - set(kept))
    assert sorted(itertools.chain(*after.values())) == list(range(100, 256))
    assert sorted(map(len, after.values())) == [78, 78]


def test_of_a_partition_that_two_seem_to_own_one_keeps_it() -> None:
    after = spread({1: EVERY, 2: EVERY}, [1, 2])
    assert Counter(itertools.chain(*after.values())) == Counter(EVERY)
