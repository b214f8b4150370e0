"""Whose turn it is, whatever comes and goes: nobody twice, nobody left out, never too many."""

import random

import pytest

from sexton.flow.tenants import AT_ONCE, LATELY, VISITED, Turns


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_each_tenant_is_looked_at_soon_and_at_most_once_a_round(seed: int) -> None:
    lot = random.Random(seed)
    turns = Turns()
    known: set[int] = set()
    now = 0.0
    for _ in range(400):
        now += lot.choice((0.01, 0.1, LATELY))
        match lot.randrange(6):
            case 0:
                known = set(lot.sample(range(1, 200), lot.randrange(1, 150)))
                turns.know(known)
            case 1 if known:
                turns.stir(lot.choice(sorted(known)), now)
            case 2 if known:
                turns.expect(lot.choice(sorted(known)), now + lot.random() * 10)
            case 3:
                turns.expect_nothing(lot.sample(range(1, 200), 10))
            case 4 if lot.random() < 0.1:
                turns.stir_all(now)
        parties = list(turns.parties(now))
        looked = [tenant for party in parties for tenant in party]
        assert len(looked) == len(set(looked))
        assert set(looked) <= known
        assert max(map(len, parties)) <= AT_ONCE + VISITED
        if looked:
            got = {tenant: 1 for tenant in looked if lot.random() < 0.2}
            turns.served(got, now)
    # Whoever is known is looked at within a rotation.
    rotation = -(-len(known) // VISITED)
    seen = {tenant for _ in range(rotation) for party in turns.parties(now) for tenant in party}
    assert seen == known


def test_who_was_served_last_comes_last() -> None:
    turns = Turns([1, 2, 3])
    for round in range(9):
        [party] = turns.parties(0.0)
        turns.served({party[0]: 1}, 0.0)
        assert party[0] == round % 3 + 1


def test_an_odd_job_goes_to_who_got_fewest() -> None:
    turns = Turns([1, 2])
    turns.served({1: 3, 2: 2}, 0.0)
    [party] = turns.parties(0.0)
    assert party == [2, 1]


def test_who_is_expected_is_looked_at_when_the_time_has_come() -> None:
    turns = Turns()
    turns.know(range(1, 1001))
    turns.expect(777, 50.0)
    assert turns.soonest == 50.0
    for _ in range(100):
        list(turns.parties(49.0))
    assert 777 in next(turns.parties(50.0))
    assert 777 in next(turns.parties(50.0 + LATELY))
    assert turns.soonest > 1e9


def test_one_bound_to_its_tenants_hears_of_no_others() -> None:
    turns = Turns([7])
    assert turns.known
    assert not turns.stir(8, 0.0)
    assert list(turns.parties(0.0)) == [[7]]
