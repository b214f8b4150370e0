"""202: the endpoint has taken the job over, and settles it through the API, or nobody does."""

import asyncio
from typing import Any

import asyncpg

from sexton.domain.retry import Retry
from sexton.domain.transitions import Settlement
from sexton.flow import reap

from ...engine.test_blocked import somebody_waits
from .post import Post, post, working
from .sink import Heard, Reply, listening, reply


async def held_by(office: Post, id: int) -> Any:
    rows = await office.rows(
        "select worker.*, job.fence from sexton.job "
        "join sexton.worker on worker.id = job.claimed_by where job.id = $1",
        id,
    )
    return rows[0] if rows else None


async def accepted(office: Post, id: int) -> Any:
    """The holder, once the worker has handed the job over."""
    async with asyncio.timeout(20):
        while (holder := await held_by(office, id)) is None or holder["name"] != "202 accepted":
            await asyncio.sleep(0.02)
    return holder


async def settle(office: Post, id: int, fence: int, outcome: str = "succeeded") -> bool:
    store = (await office.app.client()).store
    said = Settlement(outcome, outcome, result='{"by": "its endpoint"}')  # type: ignore[arg-type]
    return id in await store.jobs.settle([(id, fence, said)])


async def test_a_job_that_was_accepted_runs_on_without_its_worker(database_url: str) -> None:
    async with post(database_url) as office, listening(lambda _: reply(202)) as sink:
        endpoint = await office.endpoint(sink.url, accepted_for=600)
        async with working(office) as worker:
            [id] = await office.enqueue(endpoint)
            holder = await accepted(office, id)
            async with asyncio.timeout(10):
                while worker.health.running:
                    await asyncio.sleep(0.01)
        assert (await office.app.job(id)).state == "running", "although its worker has left"
        assert holder["tenant_id"] == 1
        held_for = (holder["lease_until"] - holder["started_at"]).total_seconds()
        assert 600 <= held_for <= 661
        fence = int(sink.heard[0].headers["sexton-fence"])
        assert fence == holder["fence"]
        assert not await settle(office, id, fence - 1), "an older fence settles nothing"
        assert await settle(office, id, fence)
        job = await office.app.job(id)
        assert (job.state, job.result) == ("succeeded", {"by": "its endpoint"})
        assert [each.worker for each in job.attempts] == ["202 accepted"]
        assert not await settle(office, id, fence), "once is enough"


async def test_what_nobody_settles_in_time_is_lost_and_tried_again(database_url: str) -> None:
    async with post(database_url) as office, listening(lambda _: reply(202)) as sink:
        retry = Retry(max_attempts=2, base=0.01, cap=0.01)
        endpoint = await office.endpoint(sink.url, accepted_for=0.5, retry=retry)
        store = (await office.app.client()).store
        async with working(office):
            [id] = await office.enqueue(endpoint)
            for attempt in (1, 2):
                await accepted(office, id)
                assert len(sink.heard) == attempt
                async with asyncio.timeout(20):
                    while not (await office.app.job(id)).attempts[attempt - 1 :]:
                        await reap.run_once(store)
                        await asyncio.sleep(0.05)
            job = await office.ended(id)
    assert job.state == "dead"
    assert [each.outcome for each in job.attempts] == ["lost", "lost"]
    assert job.error == "its endpoint answered 202, and nobody settled it in time"
    first, second = (int(heard.headers["sexton-fence"]) for heard in sink.heard)
    assert first < second


async def test_an_endpoint_that_settles_before_it_answers_is_believed(database_url: str) -> None:
    async with post(database_url) as office:

        async def answer(heard: Heard) -> Reply:
            id, fence = (int(heard.headers[f"sexton-{each}"]) for each in ("job", "fence"))
            assert await settle(office, id, fence)
            return reply(202)

        async with listening(answer) as sink, working(office) as worker:
            [id] = await office.enqueue(await office.endpoint(sink.url))
            assert (await office.ended(id)).state == "succeeded"
            async with asyncio.timeout(10):
                while worker.health.running:
                    await asyncio.sleep(0.01)
        assert len(await office.rows("select from sexton.attempt")) == 1


async def test_one_holder_serves_many_and_each_length_has_its_own(database_url: str) -> None:
    async with post(database_url) as office, listening(lambda _: reply(202)) as sink:
        short = await office.endpoint(sink.url, "short", accepted_for=60)
        long = await office.endpoint(sink.url, "long", accepted_for=3600)
        async with working(office):
            for endpoint in (short, long):
                await office.enqueue(endpoint, 100)
            async with asyncio.timeout(30):
                while await office.value(
                    "select count(*) from sexton.job join sexton.worker on worker.id = claimed_by "
                    "where worker.name = '202 accepted'"
                ) < 200:  # fmt: skip
                    await asyncio.sleep(0.05)
        holders = await office.rows(
            "select lease_for, count(*) over () from sexton.worker where name = '202 accepted'"
        )
        assert 2 <= len(holders) <= 4
        stuck = (await office.app.client()).store.history
        assert not await stuck.stuck(0.0), "they are where they should be"


async def test_a_stale_delivery_cannot_hand_over_a_job_that_was_claimed_again(
    database_url: str,
) -> None:
    async with post(database_url) as office:
        store = (await office.app.client()).store
        [id] = await office.enqueue(await office.endpoint("http://127.0.0.1:9/"))
        first = await store.workers.register("first", ["http"], "test", 30)
        second = await store.workers.register("second", ["http"], "test", 30)
        old = await store.jobs.claim_one(id, first)
        assert old is not None
        await store.jobs.settle([(id, old.fence, Settlement("released", "waiting", delay=0.0))])
        new = await store.jobs.claim_one(id, second)
        assert new is not None
        assert await store.endpoints.hand_over([(id, old.fence, 60.0)]) == set()
        assert (await held_by(office, id))["name"] == "second"
        assert await store.endpoints.hand_over([(id, new.fence, 60.0)]) == {id}
        assert (await held_by(office, id))["name"] == "202 accepted"


async def test_progress_committed_while_a_job_is_handed_over_does_not_keep_it_from_that(
    database_url: str,
) -> None:
    """An endpoint that has accepted may say at once how far it has come."""
    async with post(database_url) as office:
        store = (await office.app.client()).store
        [id] = await office.enqueue(await office.endpoint("http://127.0.0.1:9/"))
        worker = await store.workers.register("worker", ["http"], "test", 30)
        claim = await store.jobs.claim_one(id, worker)
        assert claim is not None
        endpoint = await asyncpg.connect(database_url)
        async with endpoint.transaction():
            await endpoint.execute("update sexton.job set progress = '{}' where id = $1", id)
            handing = asyncio.create_task(store.endpoints.hand_over([(id, claim.fence, 60.0)]))
            await somebody_waits(database_url)
        assert await handing == {id}
        assert (await held_by(office, id))["name"] == "202 accepted"
        await endpoint.close()
