"""Numbers about the whole installation: right, bounded in cost and in names, seldom looked up."""

import time

import asyncpg
import pytest

from sexton.observe import gauges as observed
from sexton.observe.gauges import Gauges
from sexton.store import Line, Store
from sexton.store.connection import Address
from sexton.store.gauges import MOST_NAMES, MOST_ROWS

from ..support.hands import hands


async def execute(address: Address, *statements: str) -> None:
    connection = await asyncpg.connect(address.url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def value(gauges: Gauges, name: str, **labels: str) -> float | None:
    found = [
        sample.value
        for family in gauges.collect()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    return sum(found) if found else None


async def test_what_there_is_is_counted_by_queue_task_and_state(address: Address) -> None:
    async with hands(address) as hand:
        for _ in range(3):
            await hand.enqueue("a")
        await hand.enqueue("a", delay=3600.0)
        await hand.enqueue("http:7", queue="http")
        await hand.enqueue("l", queue="limits", limited=True)
        await hand.claim(1)
        await execute(
            address,
            "update sexton.job set due_at = now() - interval '90 s' where queue = 'limits'",
            "insert into sexton.dead select n, now(), now(), 1, 0, 0, 'permanent', 'd', 'q', '{}' "
            "from generate_series(1, 4) as n",
        )
        gauges = Gauges(hand.store, lambda known: True)
        await gauges.fresh()
        jobs = {
            (state, task): await value(gauges, "sexton_jobs", task=task, state=state)
            for state in ("ready", "waiting", "running")
            for task in ("a", "http", "l")
        }
        assert jobs["ready", "a"] == 2
        assert jobs["waiting", "a"] == jobs["running", "a"] == 1
        assert jobs["ready", "http"] == jobs["ready", "l"] == 1
        assert await value(gauges, "sexton_jobs_sampled") == 1
        age = await value(gauges, "sexton_queue_age_seconds", queue="limits")
        assert age is not None
        assert 90 <= age < 120
        assert await value(gauges, "sexton_dead", task="d") == 4
        assert await value(gauges, "sexton_workers", queue="default") == 1
        assert await value(gauges, "sexton_stuck") == 0
        await gauges.close()


async def test_a_queue_that_is_served_and_empty_is_not_behind(address: Address) -> None:
    """Without a number the autoscaler would leave as many workers as there were at the worst."""
    async with hands(address) as hand:
        gauges = Gauges(hand.store, lambda known: True)
        await gauges.fresh()
        assert await value(gauges, "sexton_queue_age_seconds", queue="default") == 0
        assert await value(gauges, "sexton_queue_age_seconds", queue="nobodys") is None
        await gauges.close()


async def test_a_silent_workers_jobs_are_stuck(address: Address) -> None:
    async with hands(address) as hand:
        await hand.enqueue("a")
        await hand.claim(1)
        await execute(address, "update sexton.worker set renewed_at = now() - interval '2 min'")
        gauges = Gauges(hand.store, lambda known: True)
        await gauges.fresh()
        assert await value(gauges, "sexton_stuck", task="a") == 1


async def test_names_that_tenants_invent_end_as_others(address: Address) -> None:
    await execute(
        address,
        "insert into sexton.job (task, queue) select 'big', 'q' from generate_series(1, 50)",
        "insert into sexton.job (task, queue, due_at) "
        "select 't' || n, 'q' || n, now() - interval '1 s' from generate_series(1, 3000) as n",
    )
    line = Line(address)
    gauges = Gauges(Store(line, "sexton"), lambda known: True)
    await gauges.fresh()
    families = {family.name: family for family in gauges.collect()}
    for name, most in (("sexton_jobs", MOST_NAMES + 1), ("sexton_queue_age_seconds", 101)):
        assert len(families[name].samples) <= most
    assert await value(gauges, "sexton_jobs") == 3050
    assert await value(gauges, "sexton_jobs", task="big") == 50
    await line.close()


async def test_many_live_jobs_are_estimated_in_a_time_that_does_not_grow(
    address: Address,
) -> None:
    many = 300_000
    await execute(
        address,
        "insert into sexton.job (task, queue, due_at) "
        "select 'even', 'q', now() + (n % 2) * interval '1 hour' "
        f"from generate_series(1, {many}) as n",
    )
    line = Line(address)
    store = Store(line, "sexton")
    assert await store.gauges.jobs() is None, "too many to be counted one by one"
    gauges = Gauges(store, lambda known: True)
    await gauges.fresh()
    part = await value(gauges, "sexton_jobs_sampled")
    assert part is not None
    assert part < 0.5
    for state in ("ready", "waiting"):
        estimated = await value(gauges, "sexton_jobs", state=state)
        assert estimated == pytest.approx(many / 2, rel=0.2)
    began = time.perf_counter()
    await store.gauges.jobs_sampled()
    await store.gauges.ages()
    assert time.perf_counter() - began < 5
    # When there are few again, they are counted again.
    await execute(address, "delete from sexton.job where id % 100 <> 0")
    gauges._looked_at = -observed.EVERY
    await gauges.fresh()
    gauges._looked_at = -observed.EVERY
    await gauges.fresh()
    assert await value(gauges, "sexton_jobs_sampled") == 1
    assert await value(gauges, "sexton_jobs") == many / 100 < MOST_ROWS
    await line.close()


async def test_ten_scrapes_are_one_look(address: Address) -> None:
    looks = 0

    def counted(_: object) -> bool:
        nonlocal looks
        looks += 1
        return True

    line = Line(address)
    gauges = Gauges(Store(line, "sexton"), counted)
    for _ in range(10):
        await gauges.fresh()
    assert looks == 1
    await line.close()


async def test_a_database_that_is_away_is_an_error_counted_and_nothing_else() -> None:
    line = Line(Address("postgresql://nobody@127.0.0.1:1/none", patience=1.0))
    gauges = Gauges(Store(line, "sexton"), lambda known: True)
    await gauges.fresh()
    assert await value(gauges, "sexton_database_errors_total") == 1
    assert await value(gauges, "sexton_jobs") is None
