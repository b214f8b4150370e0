"""Noise that keeps its order, and that anyone can recompute."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.domain.when.jitter import jittered

from .instants import INSTANTS, utc

AT = utc("2026-01-01 06:00")
SEEDS = st.integers(-(2**63), 2**63 - 1)


@settings(deadline=None)
@given(SEEDS, INSTANTS, st.integers(1, 10**9), st.floats(0.000_001, 1e6))
def test_random_jitter_stays_before_the_following_instant(
    seed: int, at: datetime, gap: int, jitter: float
) -> None:
    following = at + timedelta(microseconds=gap)
    fire = jittered(seed, at, following, jitter, "random")
    assert at <= fire < min(following, at + timedelta(seconds=jitter, microseconds=1))


@settings(deadline=None)
@given(SEEDS, st.lists(INSTANTS, min_size=2, max_size=5, unique=True), st.floats(0, 1e6))
def test_fires_never_change_places_and_never_meet(
    seed: int, instants: list[datetime], jitter: float
) -> None:
    row = [*sorted(instants), None]
    fires = [jittered(seed, at, row[i + 1], jitter, "random") for i, at in enumerate(row) if at]
    assert fires == sorted(set(fires))


@settings(deadline=None)
@given(SEEDS, INSTANTS, INSTANTS, st.floats(0, 1e6))
def test_fixed_jitter_is_the_same_delay_every_time(
    seed: int, one: datetime, other: datetime, jitter: float
) -> None:
    delay = jittered(seed, one, None, jitter, "fixed") - one
    assert jittered(seed, other, None, jitter, "fixed") - other == delay
    assert timedelta() <= delay <= timedelta(seconds=jitter)


def test_it_is_the_same_on_every_node_and_for_ever() -> None:
    assert jittered(7, AT, None, 60, "random") == utc("2026-01-01 06:00:41.714371")
    assert jittered(8, AT, None, 60, "random") == utc("2026-01-01 06:00:27.968915")
    assert jittered(7, AT, None, 60, "fixed") == utc("2026-01-01 06:00:51.948453")


@pytest.mark.parametrize("kind", ["random", "fixed"])
def test_seeds_are_spread_evenly(kind: str) -> None:
    tenths = [0] * 10
    for seed in range(10_000):
        delay = jittered(seed, AT, None, 600, kind) - AT  # type: ignore[arg-type]
        tenths[int(delay / timedelta(seconds=60))] += 1
    assert all(900 < tenth < 1100 for tenth in tenths), tenths
