"""What the harness runs, in which order, and when it stops."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from sexton import Sexton
from sexton.domain.outcome import Succeeded
from sexton.testing import Endless, Harness, HarnessError, ManualClock
from sexton.testing.factories import make_claim, make_worker, settle_claim

from . import shop
from .shop import app, log


def test_run_once_runs_what_is_ready_but_not_what_that_enqueues(harness: Harness) -> None:
    async def main() -> None:
        await shop.first.enqueue(n=2)
        [ran] = await harness.run_once()
        assert (ran.task, ran.outcome, ran.state) == ("first", "succeeded", "succeeded")
        assert log == []
        await harness.assert_enqueued(shop.second, times=2)
        assert [each.arguments for each in await harness.run_once()] == [{"i": 0}, {"i": 1}]
        assert log == [0, 1]
        assert await harness.run_once() == []

    asyncio.run(main())


def test_drain_runs_what_jobs_enqueue_too_and_leaves_the_clock_alone(harness: Harness) -> None:
    async def main() -> None:
        before = harness.clock.now
        await shop.first.enqueue(n=3)
        await shop.note.enqueue(word="later", delay="1m")
        assert len(await harness.drain()) == 4
        assert harness.clock.now == before
        assert [job.state for job in await harness.jobs()] == ["waiting"]

    asyncio.run(main())


def test_a_higher_priority_runs_first(harness: Harness) -> None:
    async def main() -> None:
        await shop.note.enqueue(word="low", priority=-1)
        await shop.note.enqueue(word="high", priority=5)
        await harness.drain()
        assert log == ["high", "low"]

    asyncio.run(main())


def test_exhaust_goes_through_retries_at_the_instants_of_the_policy(harness: Harness) -> None:
    async def main() -> None:
        start = harness.clock.now
        job = await shop.flaky.enqueue(fails=2)
        ran = await harness.exhaust()
        assert [each.outcome for each in ran] == ["failed", "failed", "succeeded"]
        assert [each.state for each in ran] == ["waiting", "waiting", "succeeded"]
        assert isinstance(ran[0].exception, shop.Busy)
        assert ran[2].result == 3
        view = await app.job(job.id)
        passed = [attempt.finished_at - start for attempt in view.attempts]
        assert passed == [timedelta(0), timedelta(seconds=60), timedelta(seconds=180)]
        assert harness.clock.now == start + timedelta(seconds=180)

    asyncio.run(main())


def test_exhaust_ends_with_the_dead(harness: Harness) -> None:
    async def main() -> None:
        await shop.flaky.enqueue(fails=9)
        await shop.hopeless.enqueue()
        ran = await harness.exhaust()
        assert [each.state for each in ran if each.task == "flaky"] == [
            "waiting",
            "waiting",
            "dead",
        ]
        reasons = {dead.task: dead.reason for dead in await app.dead()}
        assert reasons == {"flaky": "exhausted", "hopeless": "permanent"}

    asyncio.run(main())


def test_a_random_part_of_the_backoff_can_be_had_back(harness: Harness) -> None:
    with pytest.raises(HarnessError, match="noise"):
        Harness(app, noise=2)


def test_snooze_and_retry_after_wait_as_long_as_they_say(harness: Harness) -> None:
    async def main() -> None:
        start = harness.clock.now
        job = await shop.sleepy.enqueue(until=3)
        ran = await harness.exhaust()
        assert [each.outcome for each in ran] == ["snoozed", "snoozed", "succeeded"]
        assert ran[0].error == "not there yet"
        assert (await app.job(job.id)).attempt == 1
        assert harness.clock.now == start + timedelta(hours=2)
        await shop.told_when.enqueue()
        assert [each.result for each in await harness.exhaust()] == [None, "later"]
        assert harness.clock.now == start + timedelta(hours=2, seconds=90)

    asyncio.run(main())


def test_advance_lets_each_job_run_at_its_own_instant(harness: Harness) -> None:
    async def main() -> None:
        start = harness.clock.now
        await shop.daily.enqueue()
        await harness.advance("3d12h")
        assert log == [start + timedelta(days=n) for n in range(4)]
        assert harness.clock.now == start + timedelta(days=3, hours=12)

    asyncio.run(main())


@pytest.mark.parametrize("task", [shop.forever, shop.daily])
def test_a_task_that_enqueues_itself_is_found_out(harness: Harness, task: object) -> None:
    async def main() -> None:
        await task.enqueue()  # type: ignore[attr-defined]
        with pytest.raises(Endless, match=r"20 attempts ran.*(forever|daily) \(20 times\)"):
            await harness.exhaust(limit=20)

    asyncio.run(main())


def test_a_limit_that_is_just_enough_is_enough(harness: Harness) -> None:
    async def main() -> None:
        await shop.first.enqueue(n=4)
        assert len(await harness.drain(limit=5)) == 5
        await shop.first.enqueue(n=4)
        with pytest.raises(Endless, match="second"):
            await harness.drain(limit=4)

    asyncio.run(main())


def test_strict_raises_the_first_failure_and_puts_the_others_back(harness: Harness) -> None:
    async def main() -> None:
        await shop.plain.enqueue(n=-1)
        kept = await shop.note.enqueue(word="kept")
        with pytest.raises(ValueError, match="negative"):
            await harness.drain(strict=True)
        view = await app.job(kept.id)
        assert (view.state, view.attempt) == ("ready", 0)
        await harness.drain()
        assert log == ["kept"]

    asyncio.run(main())


def test_max_running_does_not_keep_a_drain_from_ending(harness: Harness) -> None:
    async def main() -> None:
        await app.enqueue_many([shop.alone.call(n=n) for n in range(3)])
        assert len(await harness.run_once()) == 1
        assert len(await harness.drain()) == 2
        assert log == [0, 1, 2]

    asyncio.run(main())


def test_progress_is_kept_with_the_attempt(harness: Harness) -> None:
    async def main() -> None:
        await shop.plain.enqueue(n=4)
        [ran] = await harness.drain()
        assert (ran.result, ran.progress) == (5, ({"done": 4},))

    asyncio.run(main())


def test_a_job_that_another_job_cancels_never_starts(harness: Harness) -> None:
    async def main() -> None:
        victim = await shop.note.enqueue(word="no", priority=-5)
        await shop.murderer.enqueue(victim=victim.id)
        outcomes = {each.task: each.outcome for each in await harness.drain()}
        assert outcomes == {"murderer": "succeeded", "note": "cancelled"}
        assert log == []
        assert (await app.job(victim.id)).state == "cancelled"

    asyncio.run(main())


def test_a_job_is_cancelled_while_it_runs(harness: Harness) -> None:
    async def main() -> None:
        await shop.suicidal.enqueue()
        [ran] = await harness.drain()
        assert (ran.outcome, ran.state) == ("cancelled", "cancelled")

    asyncio.run(main())


def test_a_test_that_is_cancelled_puts_its_job_back(harness: Harness) -> None:
    async def main() -> None:
        job = await shop.waits.enqueue()
        draining = asyncio.create_task(harness.drain())
        while not log:
            await asyncio.sleep(0.001)
        draining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await draining
        view = await app.job(job.id)
        assert (view.state, view.attempt) == ("ready", 0)

    asyncio.run(main())


def test_a_job_in_the_hands_of_a_lost_worker_is_reaped_and_its_settlement_refused(
    harness: Harness,
) -> None:
    async def main() -> None:
        job = await shop.note.enqueue(word="twice")
        worker = await make_worker(app, lease="10s")
        stale = await make_claim(app, job.id, worker)
        with pytest.raises(HarnessError, match=r"running note .*worker='by hand'"):
            await harness.exhaust()
        harness.clock.advance("11s")
        assert await harness.reap() == 1
        [ran] = await harness.drain()
        assert (ran.attempt, ran.outcome) == (2, "succeeded")
        assert not await settle_claim(app, stale, Succeeded())

    asyncio.run(main())


def test_the_harness_outlives_its_own_lease(harness: Harness) -> None:
    async def main() -> None:
        await shop.note.enqueue(word="a")
        await harness.drain()
        harness.clock.advance("30d")
        await harness.reap()
        await shop.note.enqueue(word="b")
        await harness.drain()
        assert log == ["a", "b"]

    asyncio.run(main())


def test_a_task_that_nobody_declared_is_put_back_as_by_any_worker(harness: Harness) -> None:
    async def main() -> None:
        await app.enqueue("unheard_of", {"a": 1})
        [ran] = await harness.drain()
        assert (ran.outcome, ran.state) == ("snoozed", "waiting")
        assert "unheard_of" in (ran.error or "")

    asyncio.run(main())


def test_without_a_manual_clock_what_is_ready_runs_and_time_cannot_be_moved(
    sexton_database: str,
) -> None:
    async def main() -> None:
        plain = Sexton(sexton_database)

        @plain.task
        async def double(n: int) -> int:
            return 2 * n

        async with Harness(plain) as harness:
            await double.enqueue(n=4)
            assert [each.result for each in await harness.drain()] == [8]
            with pytest.raises(HarnessError, match="ManualClock"):
                await harness.exhaust()

    asyncio.run(main())


def test_an_application_of_the_test_s_own_needs_no_fixture_but_a_database(
    sexton_database: str,
) -> None:
    async def main() -> None:
        clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
        own = Sexton(sexton_database, clock=clock)

        @own.task
        async def double(n: int) -> int:
            return 2 * n

        async with Harness(own) as harness:
            await double.enqueue(n=4, delay="1h")
            assert [each.result for each in await harness.exhaust()] == [8]
            assert clock.now == datetime(2026, 3, 1, 1, tzinfo=UTC)
            assert [each.name for each in await own.workers()] == ["testing harness"]

    asyncio.run(main())
