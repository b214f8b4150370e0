"""Assertions about live jobs, and what they say when they fail."""

import asyncio
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from sexton.testing import Harness, HarnessError

from . import shop
from .shop import app


def test_a_job_is_found_by_any_part_of_it(harness: Harness) -> None:
    async def main() -> None:
        await shop.plain.enqueue(n=1, key="one", tags=["a", "b"], priority=2)
        await shop.plain.enqueue(n=2, queue="other", delay="1h")
        [found] = await harness.assert_enqueued(
            shop.plain, arguments={"n": 1}, key="one", tags=["b"], priority=2, queue="default"
        )
        assert found.payload == {"n": 1}
        due_at = harness.clock.now + timedelta(hours=1)
        await harness.assert_enqueued("plain", queue="other", state="waiting", due_at=due_at)
        await harness.assert_enqueued(shop.plain, times=2)
        await harness.assert_not_enqueued(shop.plain, arguments={"n": 3})
        await harness.assert_not_enqueued(shop.note)

    asyncio.run(main())


def test_arguments_are_compared_as_the_json_they_became(harness: Harness) -> None:
    async def main() -> None:
        day = datetime(2026, 3, 1, tzinfo=UTC)
        await shop.dated.enqueue(day=day)
        await harness.assert_enqueued(shop.dated, arguments={"day": day})

    asyncio.run(main())


def test_a_failure_shows_the_live_jobs_of_the_task(harness: Harness) -> None:
    async def main() -> None:
        await shop.plain.enqueue(n=1, key="one")
        with pytest.raises(AssertionError) as caught:
            await harness.assert_enqueued(shop.plain, arguments={"n": 2})
        assert str(caught.value) == (
            "no live job like this: plain arguments={'n': 2}\n"
            "live jobs of plain:\n"
            "  job 1 ready plain arguments={'n': 1} queue=default key='one'"
        )

    asyncio.run(main())


def test_a_failure_shows_other_jobs_or_says_that_there_are_none(harness: Harness) -> None:
    async def main() -> None:
        with pytest.raises(AssertionError, match="no live jobs at all"):
            await harness.assert_enqueued(shop.plain)
        await shop.note.enqueue(word="x", delay=60)
        with pytest.raises(AssertionError, match=r"none of plain; live are:\n.*job 1 waiting note"):
            await harness.assert_enqueued(shop.plain)
        with pytest.raises(AssertionError, match="1 live job like this, not 2: note"):
            await harness.assert_enqueued(shop.note, times=2)
        with pytest.raises(AssertionError, match="1 live job like this, not none: note"):
            await harness.assert_not_enqueued(shop.note)
        with pytest.raises(HarnessError, match="did you mean 'arguments'"):
            await harness.assert_enqueued(shop.note, argument={})

    asyncio.run(main())


def test_more_jobs_than_a_page_are_all_seen(harness: Harness) -> None:
    async def main() -> None:
        await app.enqueue_many([shop.plain.call(n=n) for n in range(1200)])
        assert [job.payload["n"] for job in await harness.jobs(shop.plain)] == list(range(1200))

    asyncio.run(main())


def test_an_enqueue_in_the_caller_s_transaction_goes_by_the_manual_clock_too(
    harness: Harness, sexton_database: str
) -> None:
    with psycopg.connect(sexton_database) as connection:
        shop.note.enqueue_sync(word="theirs", connection=connection)
        harness.sync.assert_not_enqueued(shop.note)
    harness.sync.assert_enqueued(shop.note, state="ready", due_at=harness.clock.now)
    assert len(harness.sync.drain()) == 1
