"""Schedules that deliver over HTTP, and an endpoint that says it is gone."""

import asyncio
from datetime import UTC, datetime
from urllib.parse import unquote

import pytest

from .post import post, working
from .sink import listening, reply


async def test_a_schedules_delivery_says_whose_it_is_and_a_410_pauses_it(
    database_url: str,
) -> None:
    said = [reply(200), reply(410, b"no more")]
    async with (
        post(database_url) as office,
        listening(lambda _: said.pop(0)) as sink,
        working(office),
    ):
        endpoint = await office.endpoint(sink.url)
        schedules = office.app.schedules
        name = "näch/t 1\u2028"
        await schedules.add(name, f"http:{endpoint.id}", {"n": 1}, every="1d")
        first = await schedules.trigger(name)
        assert (await office.ended(first)).state == "succeeded"
        [heard] = sink.heard
        assert unquote(heard.headers["sexton-schedule"]) == name
        assert heard.headers["sexton-schedule"].isascii()
        fire_at = datetime.fromisoformat(heard.headers["sexton-fire-at"])
        assert abs((fire_at - datetime.now(UTC)).total_seconds()) < 60
        assert "-fire-" in heard.headers["webhook-id"]
        second = await schedules.trigger(name)
        job = await office.ended(second)
        assert (job.state, job.error) == ("dead", "HTTP 410 Gone: no more")
        schedule = await schedules.get(name)
        assert (schedule.state, schedule.reason) == (
            "paused", "endpoint 'hook' answered 410: it is gone"
        )  # fmt: skip


@pytest.mark.parametrize("before", ["paused", "cancelled"])
async def test_a_410_for_a_schedule_that_is_over_only_ends_the_job(
    database_url: str, before: str
) -> None:
    async with post(database_url) as office, listening(lambda _: reply(410)) as sink:
        endpoint = await office.endpoint(sink.url)
        schedules = office.app.schedules
        await schedules.add("nightly", f"http:{endpoint.id}", {}, every="1d")
        id = await schedules.trigger("nightly")
        if before == "paused":
            await schedules.pause("nightly", "for a reason of its own")
        else:
            await schedules.cancel("nightly")
        async with working(office):
            assert (await office.ended(id)).state == "dead"
        assert (await schedules.get("nightly")).state == before


async def test_a_410_from_where_a_schedule_delivered_before_leaves_it_alone(
    database_url: str,
) -> None:
    async with post(database_url) as office, listening(lambda _: reply(410)) as sink:
        old = await office.endpoint(sink.url, "old")
        new = await office.endpoint("http://127.0.0.1:1/", "new")
        schedules = office.app.schedules
        await schedules.add("nightly", f"http:{old.id}", {}, every="1d")
        id = await schedules.trigger("nightly")
        await schedules.update("nightly", task=f"http:{new.id}")
        async with working(office):
            assert (await office.ended(id)).state == "dead"
        assert (await schedules.get("nightly")).state == "active"


async def test_a_410_for_a_job_of_no_schedule_only_ends_the_job(database_url: str) -> None:
    async with (
        post(database_url) as office,
        listening(lambda _: reply(410)) as sink,
        working(office),
    ):
        [id] = await office.enqueue(await office.endpoint(sink.url))
        assert (await office.ended(id)).state == "dead"


async def test_a_fire_of_a_node_is_delivered(database_url: str) -> None:
    """From the rule to the endpoint: the queue is known although no code declares the task."""
    async with post(database_url) as office, listening() as sink, working(office):
        endpoint = await office.endpoint(sink.url)
        await office.app.schedules.add("beat", f"http:{endpoint.id}", {"n": 1}, every="1s")
        node = await office.app.scheduler()
        running = asyncio.create_task(node.run())
        await sink.until_heard(2, 30)
        node.stop()
        await running
    assert {heard.headers["sexton-schedule"] for heard in sink.heard} == {"beat"}
    assert len({heard.headers["webhook-id"] for heard in sink.heard}) == len(sink.heard)
