"""History's daily buckets under a clock that is far from today."""

import asyncio
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from sexton import Job
from sexton.testing import Harness

from . import shop
from .shop import app


@pytest.mark.parametrize("year", [2000, 2020, 2037, 2100])
def test_a_job_of_any_year_is_in_history(harness: Harness, year: int) -> None:
    async def main() -> None:
        harness.clock.move_to(datetime(year, 2, 28, 23, 59, 50, tzinfo=UTC))
        job = await shop.flaky.enqueue(fails=1)
        writes = await shop.writes.enqueue(n=1)
        await harness.exhaust()
        view = await app.job(job.id)
        assert [each.outcome for each in view.attempts] == ["failed", "succeeded"]
        assert view.finished_at == datetime(year, 2, 28, 23, 59, 50, tzinfo=UTC) + timedelta(0, 60)
        assert (await app.job(writes.id)).finished_at == datetime(
            year, 2, 28, 23, 59, 50, tzinfo=UTC
        )

    asyncio.run(main())


def test_exhausting_months_of_retries_and_transactions(harness: Harness) -> None:
    async def main() -> None:
        start = harness.clock.now
        for days in range(0, 120, 3):
            await shop.writes.enqueue(n=days, delay=timedelta(days=days))
        ran = await harness.exhaust()
        assert {each.outcome for each in ran} == {"succeeded"}
        assert harness.clock.now == start + timedelta(days=117)
        assert (await app.job(ran[0].job_id)).finished_at == start

    asyncio.run(main())


def test_cancelling_on_a_day_without_a_bucket(harness: Harness) -> None:
    async def main() -> None:
        job = await shop.note.enqueue(word="no", delay="400d")
        harness.clock.advance("300d")
        assert await app.cancel(job.id) == {job.id: True}
        assert (await app.job(job.id)).finished_at == harness.clock.now

    asyncio.run(main())


def test_a_settlement_in_a_foreign_transaction_goes_by_the_manual_clock(
    harness: Harness, sexton_database: str
) -> None:
    def settles(job: Job) -> None:
        with psycopg.connect(sexton_database) as connection:
            job.settle_in(connection, result="done")

    task = app.task(settles)
    try:
        harness.clock.move_to(datetime(2031, 5, 1, tzinfo=UTC))
        assert harness.sync.run_inline(task.call()) == "done"
        [ran] = harness.ran
        assert harness.sync.job(ran.job_id).finished_at == datetime(2031, 5, 1, tzinfo=UTC)
    finally:
        del app.tasks["settles"]
