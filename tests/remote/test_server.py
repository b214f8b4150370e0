"""The client library, method by method, against the service."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sexton.errors import (
    ConfigurationError,
    InvalidJob,
    InvalidSchedule,
    LeaseLost,
    Unavailable,
    UnknownJob,
    UnknownSchedule,
)
from sexton.remote import Busy, Conflict, Denied, Refused, Server, Stale
from sexton.remote.server import job

from ..api.served import Served
from ..api.test_dead import bury
from ..api.test_jobs import finish, hand, rows
from .way import Way


async def server(api: Served, role: str = "admin", tenant: str = "acme") -> Server:
    await api.tenant(tenant)
    return Server(api.url, await api.key(role, tenant))


async def test_jobs_are_enqueued_looked_at_and_stopped(api: Served) -> None:
    async with await server(api) as acme:
        made = await acme.enqueue(
            "send",
            {"n": 1, "wait": timedelta(seconds=2)},
            delay=timedelta(minutes=5),
            tags={"x"},
            key="k",
        )
        again = await acme.enqueue({"task": "send"}, key="k")
        assert (again.id, again.duplicate) == (made.id, True)
        found = await acme.job(made.id)
        assert (found.state, found.payload) == ("waiting", {"n": 1, "wait": 2.0})
        assert found.due_at is not None
        assert found.due_at - found.created_at == timedelta(minutes=5)
        assert [each.id for each in await acme.jobs(tag="x")] == [made.id]
        assert (await acme.progress(made.id)).progress is None
        assert (await acme.retry(made.id)).state == "ready"
        assert [(each.queue, each.ready) for each in await acme.queues()] == [("default", 1)]
        assert (await acme.cancel(made.id)).state == "cancelled"
        assert (await acme.retry(made.id)).retried == made.id
        assert list(await acme.workers()) == []


async def test_a_list_is_gone_through_page_by_page(api: Served) -> None:
    async with await server(api) as acme:
        lines = [line async for line in acme.enqueue_many(job("t", {"n": n}) for n in range(250))]
        assert [line.status for line in lines] == ["created"] * 250
        ids = [each.id async for each in acme.each(acme.jobs, limit=100)]
        assert ids == [line.id for line in reversed(lines)]


async def test_many_are_answered_while_they_are_sent(api: Served) -> None:
    """More than the service would keep unread."""
    async with await server(api, tenant="default") as default:
        count = 0
        async for line in default.enqueue_many(job("t", delay=3600) for _ in range(20_000)):
            count += line.status == "created"
        assert count == 20_000


async def test_dead_jobs_are_redriven_and_purged(api: Served) -> None:
    async with await server(api) as acme, api.caller("operator", "acme") as http:
        ids = await bury(api, http, 3)
        assert [each.id for each in await acme.dead()] == ids[::-1]
        assert (await acme.dead_job(ids[0])).reason == "permanent"
        assert (await acme.redrive(error="bank", dry_run=True)).chosen == 3
        assert (await acme.redrive(ids[0])).redriven == 1
        since = datetime.now(UTC) - timedelta(hours=1)
        assert (await acme.purge(task="t", since=since)).purged == 2
        with pytest.raises(InvalidJob, match="which ones"):
            await acme.purge()


async def test_schedules_and_calendars_have_the_verbs_of_the_python_api(api: Served) -> None:
    async with await server(api) as acme:
        schedules, calendars = acme.schedules, acme.calendars
        await calendars.put("holidays", dates=["2030-12-25"], timezone="UTC")
        made = await schedules.add(
            "a/b c", "t", {"n": 1}, cron="0 6 * * *", exclude=["holidays"], tags=["x"]
        )
        assert (made.state, made.version, made.target) == ("active", 1, {"task": "t"})
        with pytest.raises(Conflict):
            await schedules.add("a/b c", "t", every="1h")
        assert (await schedules.get("a/b c")).id == made.id
        assert [each.name for each in await schedules.list(text="b", tag="x")] == ["a/b c"]
        assert len(await schedules.preview("a/b c", count=3)) == 3
        assert len(await schedules.preview(every=timedelta(hours=1), count=2)) == 2
        plan = await schedules.plan("a/b c", cron="0 7 * * *")
        assert plan.new
        assert plan.gone
        changed = await schedules.update("a/b c", cron="0 7 * * *", if_version=1)
        assert (changed.version, changed.cron) == (2, "0 7 * * *")
        with pytest.raises(Conflict):
            await schedules.update("a/b c", tags=None, if_version=1)
        put = await schedules.put("a/b c", "t", every=timedelta(hours=2))
        assert put.every == 7200
        assert (await schedules.pause("a/b c", "why")).state == "paused"
        assert (await schedules.resume("a/b c")).state == "active"
        id = await schedules.trigger("a/b c", arguments={"n": 2})
        assert (await acme.job(id)).schedule == "a/b c"
        [fire] = await schedules.fires("a/b c", decision="fired")
        assert fire.job == id
        assert (await schedules.explain("a/b c", fire.fire_at)).job == id
        assert [each.version for each in await schedules.versions("a/b c")][-1] == 1
        await schedules.cancel("a/b c", "done")
        assert list(await calendars.users("holidays")) == []
        assert [each.name for each in await calendars.list()] == ["holidays"]
        await calendars.remove("holidays")
        with pytest.raises(UnknownSchedule):
            await schedules.get("none")
        many = schedules.add_many(
            {"name": f"s{n}", "target": {"task": "t"}, "every": "1h"} for n in range(10)
        )
        assert [line.status async for line in many] == ["created"] * 10


async def test_backfills_are_asked_for_and_ended(api: Served) -> None:
    async with await server(api) as acme:
        await acme.schedules.add("s", "t", every="1h")
        now = datetime.now(UTC)
        id = await acme.schedules.backfill("s", now - timedelta(hours=5), now)
        [found] = await acme.schedules.backfills("s")
        assert (found.id, found.cancelled) == (id, False)
        await acme.schedules.cancel_backfill("s", id)
        [found] = await acme.schedules.backfills("s")
        assert found.cancelled


async def test_errors_are_those_of_the_python_api(api: Served) -> None:
    async with await server(api) as acme:
        with pytest.raises(UnknownJob):
            await acme.job(1)
        with pytest.raises(InvalidJob) as invalid:
            await acme.enqueue("t", priority=9)
        assert isinstance(invalid.value, Refused)
        assert invalid.value.problem.field == "priority"
        with pytest.raises(InvalidSchedule):
            await acme.schedules.add("x", "t", cron="nonsense")
        await acme.enqueue("t")
        async with hand(api) as worker:
            [row] = await rows(api, "select id from sexton.job")
            claim = await worker.store.jobs.claim_one(row["id"], worker.worker)
            with pytest.raises(LeaseLost) as stale:
                await acme.succeed(claim.id, claim.fence + 1)
            assert isinstance(stale.value, Stale)
            await acme.succeed(claim.id, claim.fence, {"ok": True})
            assert (await acme.job(claim.id)).result == {"ok": True}
    async with Server(api.url, "sxn_wrong") as nobody:
        with pytest.raises(Denied):
            await nobody.jobs()
    async with Server("http://127.0.0.1:1", tries=1) as nowhere:
        with pytest.raises(Unavailable):
            await nowhere.jobs()
    with pytest.raises(ConfigurationError):
        Server("127.0.0.1:8000")


async def test_too_many_requests_are_a_reason_to_come_back(api: Served) -> None:
    await api.tenant("slow", requests_per_second=1.0)
    async with Server(api.url, await api.key("viewer", "slow"), tries=1) as slow:
        with pytest.raises(Busy) as busy:
            for _ in range(5):
                await slow.jobs()
        assert busy.value.retry_after is not None
        assert isinstance(busy.value, Unavailable)


async def test_a_change_whose_answer_was_lost_is_made_once(api: Served) -> None:
    """The connection breaks after the service has done it: sent again, it is answered as before."""
    key = await (await _tenant(api)).key("operator", "acme")
    async with Way(api.url) as way, Server(way.url, key) as through:
        way.swallow = 1
        made = await through.enqueue("t")
        assert way.swallowed == 1
        assert [each.id for each in await through.jobs()] == [made.id]


async def _tenant(api: Served) -> Served:
    await api.tenant("acme")
    return api


async def test_a_key_is_nowhere_to_be_seen(api: Served) -> None:
    async with await server(api) as acme:
        key = acme._wire._headers["Authorization"].removeprefix("Bearer ")
        assert key not in repr(acme) + repr(acme._wire)


def test_without_an_event_loop(api: Served) -> None:
    async def prepare() -> Server:
        return await server(api)

    acme = asyncio.run(prepare())
    try:
        made = acme.enqueue_sync("t", {"n": 1})
        assert acme.run_sync(acme.job(made.id)).state == "ready"

        async def inside() -> Any:
            with pytest.raises(RuntimeError, match="await"):
                acme.run_sync(acme.job(made.id))
            return (await acme.job(made.id)).id

        for _ in range(3):  # a loop of its own each time
            assert asyncio.run(inside()) == made.id
    finally:
        acme.close_sync()


async def test_finished_jobs_are_listed_too(api: Served) -> None:
    async with await server(api, tenant="default") as default, hand(api) as worker:
        made = await default.enqueue("t")
        await finish(worker)
        [line] = await default.jobs(state="succeeded")
        assert line.id == made.id
