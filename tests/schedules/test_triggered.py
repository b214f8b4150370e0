"""A trigger makes a job beside the others: overlap is judged by all of them all the same."""

import pytest

from sexton.domain.job import Claim
from sexton.store.connection import Address

from .desk import Desk, desk


async def two_run(d: Desk, overlap: str) -> tuple[Claim, Claim]:
    """One that was fired, and one that somebody triggered beside it."""
    await d.add(every=60, overlap=overlap)
    d.clock.advance(60)
    await d.hands.fire()
    [fired] = await d.hands.claim()
    await d.schedules.trigger("beat")
    [triggered] = await d.hands.claim()
    d.clock.advance(60)
    await d.hands.fire()
    return fired, triggered


async def test_skip_remembers_the_job_before_a_triggered_one(address: Address) -> None:
    async with desk(address) as d:
        fired, triggered = await two_run(d, "skip")
        await d.hands.end(triggered)
        d.clock.advance(60)
        await d.hands.fire()
        decisions = [decision for _, decision, kind in await d.ledger() if kind == "due"]
        assert decisions == ["fired", "overlap", "overlap"]
        await d.hands.end(fired)
        d.clock.advance(60)
        assert (await d.hands.fire()).jobs == 1


@pytest.mark.parametrize("first", ["the fired one", "the triggered one"])
async def test_what_waits_in_line_waits_for_every_job_before_it(
    address: Address, first: str
) -> None:
    async with desk(address) as d:
        ends = list(await two_run(d, "queue_all"))
        if first == "the triggered one":
            ends.reverse()
        await d.hands.end(ends[0])
        assert await d.hands.claim() == []
        await d.hands.end(ends[1])
        assert len(await d.hands.claim()) == 1


async def test_what_waits_goes_on_waiting_if_the_one_it_waits_for_was_cancelled(
    address: Address,
) -> None:
    async with desk(address) as d:
        await two_run(d, "queue_all")
        d.clock.advance(60)
        await d.hands.fire()
        *_, third, fourth = [row["id"] for row in await d.jobs()]
        await d.app.cancel(third)
        [last] = [row for row in await d.jobs() if row["id"] == fourth]
        assert last["after_job"] is not None
        assert last["after_job"] != third
