"""The harness in tests that do not await."""

import asyncio

import pytest

from sexton.testing import Harness

from . import shop


def test_everything_works_without_await(harness: Harness) -> None:
    shop.note.enqueue_sync(word="a")
    job = shop.flaky.enqueue_sync(fails=1)
    harness.sync.assert_enqueued(shop.flaky, queue="mail")
    assert len(harness.sync.run_once()) == 2
    assert [each.id for each in harness.sync.jobs(state="waiting")] == [job.id]
    assert harness.sync.drain() == []
    [ran] = harness.sync.exhaust()
    assert ran.result == 2
    assert harness.sync.job(job.id).state == "succeeded"
    assert harness.sync.run_inline(shop.plain.call(n=1)) == 2
    with pytest.raises(ValueError, match="negative"):
        harness.sync.run_inline(shop.plain.call(n=-1))
    assert [each.outcome for each in harness.sync.advance("1h")] == ["failed", "failed"]
    assert harness.sync.reap() == 0
    harness.sync.assert_not_enqueued(shop.note)
    assert len(harness.ran) == 7


def test_one_test_may_do_both(harness: Harness) -> None:
    shop.note.enqueue_sync(word="a")

    async def main() -> None:
        await shop.note.enqueue(word="b")
        await harness.drain()

    asyncio.run(main())
    shop.note.enqueue_sync(word="c")
    harness.sync.drain()
    assert shop.log == ["a", "b", "c"]


def test_it_refuses_to_block_a_running_loop(harness: Harness) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="await"):
            harness.sync.drain()

    asyncio.run(main())
