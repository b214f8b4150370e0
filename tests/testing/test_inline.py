"""One call, enqueued and run at once."""

import asyncio
import os

import psycopg
import pytest

from sexton import JobCancelled, JobTimeout, PermanentFailure, Snooze
from sexton.testing import Harness, HarnessError, TaskFailed

from . import shop
from .shop import app


def test_it_returns_the_result_and_runs_nothing_else(harness: Harness) -> None:
    async def main() -> None:
        await shop.note.enqueue(word="other", priority=5)
        assert await harness.run_inline(shop.note.call(word="mine")) == "MINE"
        assert shop.log == ["mine"]
        assert len(await harness.jobs()) == 1

    asyncio.run(main())


def test_it_does_not_wait_for_a_delay(harness: Harness) -> None:
    async def main() -> None:
        call = shop.note.call(word="now").options(delay="1h")
        assert await harness.run_inline(call) == "NOW"

    asyncio.run(main())


def test_it_raises_what_the_task_raised_and_says_what_became_of_the_job(harness: Harness) -> None:
    async def main() -> None:
        with pytest.raises(shop.Busy, match="attempt 1") as caught:
            await harness.run_inline(shop.flaky.call(fails=1))
        [note] = caught.value.__notes__
        assert "job 1 (flaky), attempt 1: failed, now waiting: Busy" in note
        await harness.assert_enqueued(shop.flaky, queue="mail", state="waiting")
        assert (await harness.exhaust())[0].result == 2

    asyncio.run(main())


def test_a_permanent_failure_leaves_a_dead_job(harness: Harness) -> None:
    async def main() -> None:
        with pytest.raises(PermanentFailure, match="no such customer"):
            await harness.run_inline(shop.hopeless.call())
        assert [dead.reason for dead in await app.dead()] == ["permanent"]

    asyncio.run(main())


def test_a_snooze_is_raised_too(harness: Harness) -> None:
    async def main() -> None:
        with pytest.raises(Snooze, match="not there yet"):
            await harness.run_inline(shop.sleepy.call(until=9))

    asyncio.run(main())


def test_a_timeout_and_a_cancellation_do_not_cancel_the_test(harness: Harness) -> None:
    async def main() -> None:
        with pytest.raises(JobTimeout, match=r"longer than 0\.05 s"):
            await harness.run_inline(shop.slow.call())
        with pytest.raises(JobCancelled):
            await harness.run_inline(shop.suicidal.call())

    asyncio.run(main())


def test_a_payload_that_does_not_fit_fails_with_the_reason(harness: Harness) -> None:
    async def main() -> None:
        with pytest.raises(TaskFailed, match="argument word: expected str"):
            await harness.run_inline(shop.note.call_json('{"word": 1}'))

    asyncio.run(main())


def test_a_key_that_is_held_is_said_to_be(harness: Harness) -> None:
    async def main() -> None:
        held = await shop.note.enqueue(word="a", key="k")
        with pytest.raises(HarnessError, match=f"job {held.id} holds the key 'k'"):
            await harness.run_inline(shop.note.call(word="b").options(key="k"))

    asyncio.run(main())


def test_a_plain_function_and_a_process_of_its_own(harness: Harness) -> None:
    async def main() -> None:
        assert await harness.run_inline(shop.plain.call(n=1)) == 2
        with pytest.raises(ValueError, match="negative"):
            await harness.run_inline(shop.plain.call(n=-1))
        result = await harness.run_inline(shop.elsewhere.call(n=3))
        assert result["n"] == 3
        assert result["pid"] != os.getpid()
        with pytest.raises(TaskFailed, match="ValueError: negative, elsewhere"):
            await harness.run_inline(shop.elsewhere.call(n=-1))

    asyncio.run(main())


def test_a_task_s_transaction_commits_with_its_success(
    harness: Harness, sexton_database: str
) -> None:
    async def main() -> None:
        assert await harness.run_inline(shop.writes.call(n=7)) == {"n": 7}
        with pytest.raises(shop.Busy):
            await harness.run_inline(shop.writes.call(n=8, fails=True))

    asyncio.run(main())
    with psycopg.connect(sexton_database) as connection:
        assert connection.execute("select n from effect").fetchall() == [(7,)]
