"""Remote workers: claim, renew and settle over HTTP, with a lease and a fence in every call."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import httpx
import pytest

from sexton import Sexton
from sexton.api.remote import Remotely
from sexton.domain.job import NewJob
from sexton.flow import reap
from sexton.flow.claim import SLACK

from ..observe.processes import Scrape
from .served import Served, served
from .test_jobs import at_home, enqueue, hand, rows


class Away:
    """A remote worker whose every call the test makes itself."""

    def __init__(self, http: httpx.AsyncClient, joined: dict[str, Any]) -> None:
        self.http = http
        self.id: int = joined["id"]
        self.joined = joined

    async def call(self, verb: str, **said: Any) -> httpx.Response:
        return await self.http.post(f"/v1/workers/{self.id}/{verb}", json=said)

    async def claim(self, limit: int = 1, wait: float = 0) -> list[dict[str, Any]]:
        answer = await self.call("claim", limit=limit, wait=wait)
        assert answer.status_code == 200, answer.text
        jobs: list[dict[str, Any]] = answer.json()["jobs"]
        return jobs

    async def settle(self, job: dict[str, Any], outcome: str, **more: Any) -> dict[str, Any]:
        said = {"id": job["id"], "fence": job["fence"], "outcome": outcome, **more}
        answer = await self.call("settle", results=[said])
        assert answer.status_code == 200, answer.text
        [result] = answer.json()["results"]
        found: dict[str, Any] = result
        return found

    async def state(self, id: int) -> str:
        state: str = (await self.http.get(f"/v1/jobs/{id}")).json()["state"]
        return state


async def join(http: httpx.AsyncClient, *queues: str, lease: Any = 30) -> Away:
    said = {"name": "away", "queues": list(queues) or ["default"], "lease": lease}
    answer = await http.post("/v1/workers", json=said)
    assert answer.status_code == 201, answer.text
    return Away(http, answer.json())


@asynccontextmanager
async def away(
    api: Served, *queues: str, tenant: str = "acme", lease: Any = 30
) -> AsyncIterator[Away]:
    async with api.caller("admin", tenant) as http:
        yield await join(http, *queues, lease=lease)


async def expire(api: Served, worker: int) -> None:
    """Its lease runs out, and the reaper comes by."""
    await rows(
        api,
        "update sexton.worker set lease_until = now() - interval '1 s', "
        "lease_for = '1 microsecond' where id = $1",
        worker,
    )
    async with hand(api) as other:
        await reap.run_once(other.store)


# ── claiming ────────────────────────────────────────────────────────────────


async def test_a_claimed_job_has_what_its_worker_needs(api: Served) -> None:
    async with away(api) as worker:
        id = await enqueue(worker.http, "send", payload={"n": [1, {"é": None}]}, key="k")
        [job] = await worker.claim()
        assert (job["id"], job["task"], job["attempt"]) == (id, "send", 1)
        assert job["payload"] == {"n": [1, {"é": None}]}
        assert (job["key"], job["queue"], job["schedule"]) == ("k", "default", None)
        assert job["idempotency_key"].endswith(f"-job-{id}")
        assert job["fence"] > 0
        assert job["lease_until"] == worker.joined["lease_until"]
        assert await worker.claim() == []
        assert (await worker.settle(job, "succeeded", result={"ok": 1}))["status"] == "accepted"
        done = (await worker.http.get(f"/v1/jobs/{id}")).json()
        assert (done["state"], done["result"]) == ("succeeded", {"ok": 1})
        assert [each["worker"] for each in done["attempts"]] == ["away"]


async def test_the_idempotency_key_is_the_one_that_a_python_worker_would_see(
    api: Served,
) -> None:
    async with away(api, tenant="default") as worker, at_home(api) as app:
        await app.schedules.add("nightly", "t", every="1h")
        await app.schedules.trigger("nightly")
        [job] = await worker.claim()
        assert job["schedule"] == "nightly"
        assert job["fire_at"] is not None
        installation = await (await app.client()).store.workers.installation()
        assert job["idempotency_key"].startswith(f"sexton-{installation}-fire-")


async def test_two_claims_at_once_never_get_the_same_job(api: Served) -> None:
    async with away(api) as one, away(api) as two:
        lines = "\n".join('{"task": "t"}' for _ in range(500))
        await one.http.post(
            "/v1/jobs/bulk", content=lines, headers={"content-type": "application/x-ndjson"}
        )
        taken = await asyncio.gather(*(each.claim(60) for each in (one, two) for _ in range(5)))
        ids = [job["id"] for jobs in taken for job in jobs]
        assert len(ids) == len(set(ids)) == 500
        fences = [job["fence"] for jobs in taken for job in jobs]
        assert len(set(fences)) == 500


async def test_a_worker_gets_only_its_own_tenants_jobs_of_its_own_queues(api: Served) -> None:
    async with away(api, "a", "b") as acme, away(api, "a", tenant="other") as other:
        first = await enqueue(acme.http, queue="a")
        second = await enqueue(acme.http, queue="b")
        await enqueue(acme.http, queue="c")
        assert await other.claim(10) == []
        assert sorted(job["id"] for job in await acme.claim(10)) == [first, second]


async def test_another_tenants_worker_is_not_there(api: Served) -> None:
    async with away(api) as acme, away(api, tenant="other") as other:
        id = await enqueue(acme.http)
        [job] = await acme.claim()
        stranger = Away(other.http, acme.joined)
        for verb, said in (
            ("claim", {}),
            ("renew", {}),
            ("settle", {"results": [{"id": id, "fence": job["fence"], "outcome": "succeeded"}]}),
        ):
            assert (await stranger.call(verb, **said)).status_code == 404, verb
        assert (await other.http.delete(f"/v1/workers/{acme.id}")).status_code == 404
        assert (await other.settle(job, "succeeded"))["status"] == "stale"
        assert await acme.state(id) == "running"


async def test_nobody_claims_in_the_name_of_an_ordinary_worker(api: Served) -> None:
    async with hand(api) as python, api.caller("admin") as http:
        await enqueue(http)
        stranger = Away(http, {"id": python.worker})
        assert (await stranger.call("claim")).status_code == 404
        assert (await stranger.call("renew")).status_code == 404
        assert (await http.delete(f"/v1/workers/{python.worker}")).status_code == 404
        lines = (await http.get("/v1/workers")).json()["items"]
        assert [(each["id"], each["remote"]) for each in lines] == [(python.worker, False)]


async def test_nobody_is_the_holder_of_what_endpoints_have_accepted(api: Served) -> None:
    async with away(api) as worker:
        await enqueue(worker.http)
        [job] = await worker.claim()
        async with hand(api) as python:
            handed = await python.store.endpoints.hand_over([(job["id"], job["fence"], 60.0)])
        assert handed == {job["id"]}
        [row] = await rows(api, "select claimed_by from sexton.job")
        holder = Away(worker.http, {"id": row["claimed_by"]})
        assert (await holder.call("claim")).status_code == 404
        assert (await holder.call("renew")).status_code == 404
        assert (await worker.http.delete(f"/v1/workers/{holder.id}")).status_code == 404
        lines = (await worker.http.get("/v1/workers")).json()["items"]
        assert [each["id"] for each in lines] == [worker.id]
        assert (await worker.settle(job, "succeeded"))["status"] == "stale"  # not its own any more
        said = {"fence": job["fence"], "result": 1}
        answer = await worker.http.post(f"/v1/jobs/{job['id']}/succeed", json=said)
        assert answer.status_code == 200


async def test_jobs_beyond_their_maximum_age_are_not_handed_out(api: Served) -> None:
    async with away(api) as worker:
        old = await enqueue(worker.http, expires_in=60)
        await rows(api, "update sexton.job set expires_at = now() where id = $1", old)
        assert await worker.claim() == []
        dead = (await worker.http.get(f"/v1/dead/{old}")).json()
        assert dead["reason"] == "expired"


async def test_a_limit_holds_for_remote_workers_too(api: Served) -> None:
    await rows(
        api,
        "insert into sexton.task values ('heavy', 'default', 0, 3, 1, 2, 9, null, 2, null, now())",
    )
    async with away(api) as worker:
        for _ in range(4):
            await enqueue(worker.http, "heavy")
        running = await worker.claim(10)
        assert len(running) == 2
        assert await worker.claim(10) == []
        await worker.settle(running[0], "succeeded")
        assert len(await worker.claim(10)) == 1


async def test_a_claim_sent_again_with_its_key_gets_the_same_jobs(api: Served) -> None:
    async with away(api) as worker:
        for _ in range(4):
            await enqueue(worker.http)
        path, once = f"/v1/workers/{worker.id}/claim", {"Idempotency-Key": "c1"}
        first = await worker.http.post(path, json={"limit": 2}, headers=once)
        again = await worker.http.post(path, json={"limit": 2}, headers=once)
        assert first.json()["jobs"] == again.json()["jobs"]
        assert len(await worker.claim(10)) == 2


# ── waiting ─────────────────────────────────────────────────────────────────


async def asleep(api: Served, worker: int) -> None:
    """Until the database knows that it sleeps."""
    while not (await rows(api, "select idle from sexton.worker where id = $1", worker))[0]["idle"]:
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("how", ["plain", "keyed", "sql", "python"])
async def test_a_long_poll_is_woken_by_an_enqueue(
    api: Served, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever enqueues; looking again by itself would come too late."""
    monkeypatch.setattr("sexton.api.waiting.POLL", 60.0)
    async with (
        away(api) as worker,
        api.caller("operator", "acme") as http,
        at_home(api) as app,
    ):
        [row] = await rows(api, "select id from sexton.tenant where name = 'acme'")
        tenant = row["id"]
        for n in range(3):
            waiting = asyncio.create_task(worker.claim(1, wait=30))
            await asleep(api, worker.id)
            match how:
                case "sql":
                    await rows(api, "select sexton.enqueue('t', tenant_id => $1)", tenant)
                case "python":
                    await (await app.client()).enqueue(NewJob("t", "{}", "default", tenant=tenant))
                case "keyed":
                    await enqueue(http, key=f"k{n}")
                case _:
                    await enqueue(http)
            [job] = await waiting
            await worker.settle(job, "succeeded")


async def test_a_long_poll_finds_what_becomes_due_while_it_waits(api: Served) -> None:
    async with away(api) as worker:
        await enqueue(worker.http, delay=0.4)
        [job] = await worker.claim(1, wait=10)
        await worker.settle(job, "failed", error="x", retry_after=0.3)
        [again] = await worker.claim(1, wait=10)
        assert (again["id"], again["attempt"]) == (job["id"], 2)


async def test_a_job_whose_transaction_was_overtaken_is_found_by_the_worker_that_has_gone_past_it(
    api: Served,
) -> None:
    [row] = await rows(api, "select id from sexton.tenant where name = 'default'")
    connection = await asyncpg.connect(api.database_url)
    async with away(api, tenant="default") as worker, asyncio.timeout(60):
        async with connection.transaction():
            late = await connection.fetchval(
                "select id from sexton.enqueue('late', tenant_id => $1)", row["id"]
            )
            passed = time.monotonic() + 4 * SLACK
            while time.monotonic() < passed:
                id = await enqueue(worker.http)
                assert [job["id"] for job in await worker.claim(1, wait=10)] == [id]
        assert [job["id"] for job in await worker.claim(1, wait=20)] == [late]
    await connection.close()


async def test_a_long_poll_ends_empty_when_its_time_is_over(api: Served) -> None:
    async with away(api) as worker:
        began = time.monotonic()
        assert await worker.claim(1, wait=0.3) == []
        assert time.monotonic() - began >= 0.3


async def test_one_job_wakes_one_of_many_and_ten_wake_ten(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sexton.api.waiting.POLL", 60.0)
    async with away(api) as first, api.caller("operator", "acme") as http:
        workers = [first] + [await join(first.http) for _ in range(9)]
        polls = [asyncio.create_task(each.claim(1, wait=30)) for each in workers]
        await asyncio.gather(*(asleep(api, each.id) for each in workers))
        lines = "\n".join('{"task": "t"}' for _ in range(10))
        await http.post(
            "/v1/jobs/bulk", content=lines, headers={"content-type": "application/x-ndjson"}
        )
        got = await asyncio.gather(*polls)
        assert all(len(jobs) == 1 for jobs in got)


async def test_a_client_that_hangs_up_leaves_no_claim_behind(api: Served) -> None:
    async with away(api) as worker, away(api) as other:
        waiting = asyncio.create_task(worker.claim(1, wait=30))
        await asleep(api, worker.id)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        id = await enqueue(other.http)
        [job] = await other.claim(1, wait=10)
        assert job["id"] == id


async def test_a_claim_with_a_key_waits_for_the_client_that_hung_up(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent again it has the same jobs, so meanwhile nobody else may have them."""
    watched: list[asyncio.Future[None]] = []
    look = Remotely.look

    @asynccontextmanager
    async def watch(request: Any) -> AsyncIterator[asyncio.Future[None]]:
        watched.append(asyncio.get_running_loop().create_future())
        yield watched[-1]

    async def hang_up(self: Remotely, *args: Any) -> Any:
        turn = await look(self, *args)
        watched[-1].set_result(None)
        return turn

    async with away(api) as worker, away(api) as other:
        path, once = f"/v1/workers/{worker.id}/claim", {"Idempotency-Key": "c1"}
        for headers, theirs in (({}, 1), (once, 0)):
            id = await enqueue(worker.http)
            with monkeypatch.context() as patched:
                patched.setattr("sexton.api.claiming.client_gone", watch)
                patched.setattr(Remotely, "look", hang_up)
                await worker.http.post(path, json={}, headers=headers)
            got = await other.claim(1)
            assert len(got) == theirs
            for job in got:
                await other.settle(job, "succeeded")
        [job] = (await worker.http.post(path, json={}, headers=once)).json()["jobs"]
        assert job["id"] == id
        assert (await worker.settle(job, "succeeded"))["status"] == "accepted"


async def test_a_server_that_stops_sends_those_home_who_wait(app: Sexton) -> None:
    with served(app) as api:
        async with away(api) as worker:
            waiting = asyncio.create_task(worker.claim(1, wait=50))
            await asleep(api, worker.id)
            began = time.monotonic()
            await asyncio.to_thread(api.stop)
            assert await waiting == []
            assert time.monotonic() - began < 25


async def test_after_a_restart_another_process_goes_on_with_the_same_worker(app: Sexton) -> None:
    with served(app) as api:
        key = await api.key("admin")
        async with api.client(key) as http:
            worker = await join(http)
            id = await enqueue(http)
            [job] = await worker.claim()
    assert app.settings.database_url is not None
    with served(Sexton(app.settings.database_url)) as api:
        async with api.client(key) as http:
            worker = Away(http, worker.joined)
            assert (await worker.call("renew")).status_code == 200
            second = await enqueue(http)
            assert [each["id"] for each in await worker.claim(5)] == [second]
            assert (await worker.settle(job, "succeeded"))["status"] == "accepted"
            assert await worker.state(id) == "succeeded"


# ── settling ────────────────────────────────────────────────────────────────


async def test_every_outcome_goes_where_a_python_workers_would(api: Served) -> None:
    async with away(api) as worker:
        for _ in range(6):
            await enqueue(worker.http)
        jobs = await worker.claim(6)
        outcomes: list[dict[str, Any]] = [
            {"outcome": "succeeded"},
            {"outcome": "failed", "error": "boom"},
            {"outcome": "failed", "error": "never", "permanent": True},
            {"outcome": "snoozed", "retry_after": "1h", "error": "closed"},
            {"outcome": "released"},
            {"outcome": "cancelled"},
        ]
        said = [
            {"id": job["id"], "fence": job["fence"], **each}
            for job, each in zip(jobs, outcomes, strict=True)
        ]
        answer = await worker.call("settle", results=said)
        assert [each["status"] for each in answer.json()["results"]] == ["accepted"] * 6
        views = [(await worker.http.get(f"/v1/jobs/{job['id']}")).json() for job in jobs]
        assert views[0]["state"] == "succeeded"
        assert views[1]["state"] in ("waiting", "ready")
        assert views[2]["state"] == "dead"
        assert (views[3]["state"], views[3]["attempt"]) == ("waiting", 0)
        assert (views[4]["state"], views[4]["attempt"]) == ("ready", 0)
        assert views[5]["state"] == "cancelled"
        outcomes_kept = [view["attempts"][-1]["outcome"] for view in views]
        assert outcomes_kept == [each["outcome"] for each in outcomes]


async def test_retries_follow_the_policy_that_the_task_was_declared_with(api: Served) -> None:
    await rows(
        api,
        "insert into sexton.task values ('t', 'default', 0, 2, 0, 1, 0, null, null, null, now())",
    )
    async with away(api) as worker:
        id = await enqueue(worker.http)
        for attempt in (1, 2):
            [job] = await worker.claim(1, wait=5)
            assert job["attempt"] == attempt
            await worker.settle(job, "failed", error="again")
        assert (await worker.http.get(f"/v1/dead/{id}")).json()["reason"] == "exhausted"


async def test_settling_twice_is_stale_the_second_time(api: Served) -> None:
    async with away(api) as worker:
        id = await enqueue(worker.http)
        [job] = await worker.claim()
        twice = [
            {"id": id, "fence": job["fence"], "outcome": "succeeded", "result": n} for n in (1, 2)
        ]
        answer = await worker.call("settle", results=twice)
        assert [each["status"] for each in answer.json()["results"]] == ["accepted", "stale"]
        assert (await worker.settle(job, "failed"))["status"] == "stale"
        single = await worker.http.post(f"/v1/jobs/{id}/fail", json={"fence": job["fence"]})
        assert (single.status_code, single.json()["type"]) == (409, "/problems/stale_fence")
        assert (await worker.http.get(f"/v1/jobs/{id}")).json()["result"] == 1


async def test_a_stale_fence_changes_nothing(api: Served) -> None:
    async with away(api) as lost, away(api) as heir:
        id = await enqueue(lost.http)
        [before] = await lost.claim()
        await expire(api, lost.id)
        [after] = await heir.claim(1, wait=5)
        assert after["fence"] > before["fence"]
        assert (await lost.settle(before, "succeeded"))["status"] == "stale"
        for verb, more in (
            ("succeed", {}),
            ("fail", {"error": "x"}),
            ("snooze", {"delay": 1}),
            ("progress", {"value": 1}),
        ):
            said = {"fence": before["fence"], **more}
            answer = await lost.http.post(f"/v1/jobs/{id}/{verb}", json=said)
            assert (answer.status_code, answer.json()["type"]) == (409, "/problems/stale_fence")
        job = (await heir.http.get(f"/v1/jobs/{id}")).json()
        assert (job["state"], job["progress"]) == ("running", None)
        assert (await heir.settle(after, "succeeded"))["status"] == "accepted"


async def test_one_worker_cannot_settle_what_another_of_its_tenant_claimed(api: Served) -> None:
    async with away(api) as one, away(api) as two:
        id = await enqueue(one.http)
        [job] = await one.claim()
        assert (await two.settle(job, "succeeded"))["status"] == "stale"
        assert await one.state(id) == "running"


async def test_whoever_has_the_fence_settles_a_single_job(api: Served) -> None:
    """What a target does that answered 202."""
    async with away(api) as worker, api.caller("worker", "acme") as target:
        ids = [await enqueue(worker.http) for _ in range(3)]
        jobs = await worker.claim(3)
        verbs: list[tuple[str, dict[str, Any]]] = [
            ("succeed", {"result": [1]}),
            ("fail", {"error": "no", "permanent": True}),
            ("snooze", {"delay": "10m", "reason": "later"}),
        ]
        for job, (verb, more) in zip(jobs, verbs, strict=True):
            said = {"fence": job["fence"], **more}
            answer = await target.post(f"/v1/jobs/{job['id']}/{verb}", json=said)
            assert (answer.status_code, answer.json()["status"]) == (200, "accepted")
        states = [await worker.state(id) for id in ids]
        assert states == ["succeeded", "dead", "waiting"]


async def test_a_result_that_is_too_large_is_left_out_and_said_so(api: Served) -> None:
    async with away(api) as worker:
        id = await enqueue(worker.http)
        [job] = await worker.claim()
        result = await worker.settle(job, "succeeded", result="x" * 900_000)
        assert result["status"] == "accepted"
        assert "not kept" in result["note"]
        done = (await worker.http.get(f"/v1/jobs/{id}")).json()
        assert (done["state"], done["result"]) == ("succeeded", None)
        assert "bytes of JSON" in done["error"]


async def test_a_body_beyond_the_limit_is_refused_and_the_job_still_runs(api: Served) -> None:
    async with away(api) as worker:
        id = await enqueue(worker.http)
        [job] = await worker.claim()
        said = {"id": id, "fence": job["fence"], "outcome": "succeeded", "result": "x" * 2_000_000}
        assert (await worker.call("settle", results=[said])).status_code == 413
        assert await worker.state(id) == "running"
        assert (await worker.settle(job, "succeeded"))["status"] == "accepted"


async def test_an_error_is_kept_whatever_is_in_it(api: Served) -> None:
    async with away(api) as worker:
        for text in ("a\x00b", "\x00", "é" * 50_000, "\ufffe\U0001f600", ""):
            id = await enqueue(worker.http)
            [job] = await worker.claim()
            result = await worker.settle(job, "failed", error=text, permanent=True)
            assert result["status"] == "accepted"
            error = (await worker.http.get(f"/v1/dead/{id}")).json()["error"]
            assert "\x00" not in error
            assert error
            assert len(error.encode()) <= 8192


async def test_a_result_with_a_nul_is_left_out(api: Served) -> None:
    async with away(api) as worker:
        await enqueue(worker.http)
        [job] = await worker.claim()
        result = await worker.settle(job, "succeeded", result={"x": "\x00"})
        assert result["status"] == "accepted"
        assert "NUL" in result["note"]


WRONG: list[dict[str, Any]] = [
    {"fence": 0},
    {"fence": "1"},
    {"fence": 2**63},
    {"outcome": "lost"},
    {"outcome": "snoozed"},
    {"retry_after": -1},
    {"retry_after": "x"},
    {"id": 0},
    {"permanent": 1},
    {"more": 1},
]


async def test_one_wrong_result_refuses_the_call_and_settles_nothing(api: Served) -> None:
    async with away(api) as worker:
        for _ in range(2):
            await enqueue(worker.http)
        jobs = await worker.claim(2)
        for wrong in WRONG:
            said = [
                {"id": job["id"], "fence": job["fence"], "outcome": "succeeded"} | more
                for job, more in zip(jobs, ({}, wrong), strict=True)
            ]
            answer = await worker.call("settle", results=said)
            assert answer.status_code == 422, answer.text
            assert answer.json()["field"].startswith("results.1."), wrong
        assert [await worker.state(job["id"]) for job in jobs] == ["running", "running"]


async def test_progress_is_read_while_the_job_runs(api: Served) -> None:
    async with away(api) as worker, api.caller("viewer", "acme") as viewer:
        id = await enqueue(worker.http)
        [job] = await worker.claim()
        said = {"fence": job["fence"], "value": {"done": 3, "of": 10}}
        answer = await worker.http.post(f"/v1/jobs/{id}/progress", json=said)
        assert answer.status_code == 200
        seen = (await viewer.get(f"/v1/jobs/{id}/progress")).json()
        assert seen == {"id": id, "state": "running", "attempt": 1, "progress": said["value"]}


# ── the lease ───────────────────────────────────────────────────────────────


async def test_the_jobs_of_a_worker_that_dies_run_elsewhere_after_its_lease(api: Served) -> None:
    async with away(api) as dead, away(api) as heir:
        id = await enqueue(dead.http)
        await dead.claim()
        await expire(api, dead.id)
        [job] = await heir.claim(1, wait=5)
        assert (job["id"], job["attempt"]) == (id, 2)
        await heir.settle(job, "succeeded")
        attempts = (await heir.http.get(f"/v1/jobs/{id}")).json()["attempts"]
        assert [each["outcome"] for each in attempts] == ["lost", "succeeded"]


async def test_a_service_without_other_workers_reaps_by_itself(database_url: str) -> None:
    app = Sexton(database_url, lease=1, poll=0.2)
    with served(app) as api:
        async with away(api, lease=5) as worker:
            id = await enqueue(worker.http)
            await worker.claim()
            await rows(api, "update sexton.worker set lease_until = now(), lease_for = '1 s'")
            while await worker.state(id) == "running":
                await asyncio.sleep(0.05)
            assert (await worker.call("renew")).json()["type"] == "/problems/worker_gone"
            await rows(api, "delete from sexton.job")
            worker = await join(worker.http, lease=5)
            last = await enqueue(worker.http)
            await worker.claim()
            await rows(api, "update sexton.job set attempt = 1000, attempts_before = 0")
            await rows(api, "update sexton.worker set lease_until = now(), lease_for = '1 s'")
            while await worker.state(last) == "running":
                await asyncio.sleep(0.05)
            async with api.caller("viewer") as viewer:
                scrape = Scrape((await viewer.get("/metrics")).text)
            assert scrape.value("sexton_attempts_total", task="remote", outcome="lost") == 2
            assert scrape.value("sexton_deaths_total", task="remote", reason="exhausted") == 1


async def test_what_the_service_reaps_is_counted_by_whose_it_was(database_url: str) -> None:
    """Ordinary workers lose jobs too, and so do endpoints that answered 202."""
    whose = {"remote": 1, "http": 2, "other": 3}
    app = Sexton(database_url, lease=1, poll=0.2)
    with served(app) as api:
        async with away(api, lease=5) as worker, hand(api) as ordinary:
            await enqueue(worker.http)
            await worker.claim()
            for task in ("plain", "plain", "http:7", "http:7", "httpd"):
                await ordinary.enqueue(task)
            claims = await ordinary.claim(5)
            accepted = next(each for each in claims if each.task == "http:7")
            held = (accepted.id, accepted.fence, 60.0)
            assert await ordinary.store.endpoints.hand_over([held]) == {accepted.id}
            await rows(api, "update sexton.job set attempt = 1000, attempts_before = 0")
            await rows(api, "update sexton.worker set lease_until = now(), lease_for = '1 s'")
            async with api.caller("viewer") as viewer:
                while await rows(api, "select from sexton.job"):
                    await asyncio.sleep(0.05)
                scrape = Scrape((await viewer.get("/metrics")).text)
                while (scrape.value("sexton_attempts_total", outcome="lost") or 0) < 6:
                    await asyncio.sleep(0.05)  # counted right after
                    scrape = Scrape((await viewer.get("/metrics")).text)
            for task, many in whose.items():
                assert scrape.value("sexton_attempts_total", task=task, outcome="lost") == many
                died = scrape.value("sexton_deaths_total", task=task, reason="exhausted")
                assert (task, died) == (task, many)


async def test_a_renewal_after_the_lease_ran_out_is_refused_and_so_is_a_claim(api: Served) -> None:
    async with away(api) as worker:
        await enqueue(worker.http)
        await worker.claim()
        await expire(api, worker.id)
        for verb in ("renew", "claim"):
            answer = await worker.call(verb)
            assert (answer.status_code, answer.json()["type"]) == (409, "/problems/worker_gone")
        again = await join(worker.http)
        assert len(await again.claim(1, wait=5)) == 1


async def test_a_renewal_extends_the_lease_and_names_jobs_to_cancel(api: Served) -> None:
    async with away(api) as worker:
        id = await enqueue(worker.http)
        [job] = await worker.claim()
        assert (await worker.http.post(f"/v1/jobs/{id}/cancel")).status_code == 202
        answer = (await worker.call("renew")).json()
        assert answer["lease_until"] > worker.joined["lease_until"]
        assert answer["cancel"] == [{"id": id, "fence": job["fence"]}]
        assert (await worker.settle(job, "cancelled"))["status"] == "accepted"
        assert (await worker.call("renew")).json()["cancel"] == []
        assert await worker.state(id) == "cancelled"


async def test_a_worker_that_waits_hears_of_a_cancel_at_once(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sexton.api.waiting.POLL", 60.0)
    async with away(api) as worker, api.caller("operator", "acme") as http:
        id = await enqueue(worker.http)
        [job] = await worker.claim()
        waiting = asyncio.create_task(worker.call("claim", limit=1, wait=30))
        await asleep(api, worker.id)
        await http.post(f"/v1/jobs/{id}/cancel")
        answer = (await waiting).json()
        assert answer["jobs"] == []
        assert answer["cancel"] == [{"id": id, "fence": job["fence"]}]


async def test_claims_that_were_never_heard_of_are_put_back(api: Served) -> None:
    async with away(api) as worker:
        ids = [await enqueue(worker.http) for _ in range(3)]
        jobs = await worker.claim(3)
        held = [jobs[0]["fence"]]
        assert (await worker.call("renew", held=held)).json()["put_back"] == []  # too fresh
        await rows(api, "update sexton.job set claimed_at = now() - interval '1 minute'")
        assert (await worker.call("renew")).json()["put_back"] == []  # it does not say
        assert (await worker.call("renew", held=held)).json()["put_back"] == ids[1:]
        again = await worker.claim(5)
        assert [(job["id"], job["attempt"]) for job in again] == [(id, 1) for id in ids[1:]]


async def test_a_claim_after_a_lost_answer_gets_what_was_lost(api: Served) -> None:
    async with away(api) as worker:
        ids = [await enqueue(worker.http) for _ in range(3)]
        [known] = await worker.claim(1)
        await worker.claim(2)  # nobody hears the answer
        answer = await worker.call("claim", limit=5, held=[known["fence"]])
        again = answer.json()["jobs"]
        assert [(job["id"], job["attempt"]) for job in again] == [(id, 1) for id in ids[1:]]


async def test_who_leaves_gives_back_what_it_holds_untried(api: Served) -> None:
    async with away(api) as worker, away(api) as other:
        ids = [await enqueue(worker.http) for _ in range(3)]
        jobs = await worker.claim(3)
        answer = await worker.http.delete(f"/v1/workers/{worker.id}")
        assert (answer.status_code, answer.json()) == (200, {"released": 3})
        assert (await worker.http.delete(f"/v1/workers/{worker.id}")).status_code == 409
        again = await other.claim(5)
        assert [(job["id"], job["attempt"]) for job in again] == [(id, 1) for id in ids]
        assert (await worker.settle(jobs[0], "succeeded"))["status"] == "stale"
        assert (await worker.call("claim")).status_code == 409


async def test_claiming_keeps_the_lease_of_who_claims(api: Served) -> None:
    async with away(api) as worker:
        await rows(api, "update sexton.worker set lease_until = now() + interval '2 s'", *())
        await worker.claim()
        [row] = await rows(api, "select lease_until > now() + interval '20 s' as long from "
                                "sexton.worker where id = $1", worker.id)  # fmt: skip
        assert row["long"]


CANNOT_JOIN: list[tuple[dict[str, Any], str]] = [
    ({"name": "", "queues": ["a"]}, "name"),
    ({"name": "x", "queues": []}, "queues"),
    ({"name": "x", "queues": [""]}, "queues.0"),
    ({"name": "x", "queues": ["a"], "lease": 1}, "lease"),
    ({"name": "x", "queues": ["a"], "lease": "2h"}, "lease"),
    ({"name": "x"}, "queues"),
]


async def test_a_worker_that_cannot_be_right_is_not_registered(api: Served) -> None:
    async with api.caller("worker", "acme") as http:
        for said, field in CANNOT_JOIN:
            answer = await http.post("/v1/workers", json=said)
            assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert await rows(api, "select from sexton.worker") == []


async def test_a_tenant_that_registers_workers_without_end_is_stopped(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every enqueue of every tenant looks through them."""
    monkeypatch.setattr("sexton.api.limits.MOST_WORKERS", 3)
    async with api.caller("worker", "acme") as http:
        said = {"name": "away", "queues": ["q"]}
        joined = [await http.post("/v1/workers", json=said) for _ in range(4)]
        assert [each.status_code for each in joined] == [201, 201, 201, 429]
        assert joined[-1].json()["type"] == "/problems/quota_exceeded"
        assert joined[-1].headers["retry-after"]
        assert (await http.delete(f"/v1/workers/{joined[0].json()['id']}")).status_code == 200
        assert (await http.post("/v1/workers", json=said)).status_code == 201
    async with api.caller("worker") as http:
        for _ in range(4):
            assert (await http.post("/v1/workers", json=said)).status_code == 201


async def test_an_id_that_nobody_has_is_refused(api: Served) -> None:
    async with api.caller("worker", "acme") as http:
        for id in ("0", "-1", "2147483648", "x", "1.5", "9" * 19, "9" * 6000):
            claim = await http.post(f"/v1/workers/{id}/claim", json={})
            job = await http.get(f"/v1/jobs/{id}")
            assert claim.status_code in (404, 422)
            assert job.status_code in (404, 422)
