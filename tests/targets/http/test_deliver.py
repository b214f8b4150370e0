"""A job on its way to an endpoint and back."""

import asyncio
import base64
import hmac
import time

import pytest

from sexton.domain.retry import Retry
from sexton.targets.http.sign import fresh_secret, secret_bytes

from .post import post, working
from .sink import Heard, Reply, listening, reply, reply_json


async def test_a_delivery_says_what_it_is_and_is_signed(database_url: str) -> None:
    secret = fresh_secret()
    async with post(database_url) as office, listening(lambda _: reply_json({"ok": 1})) as sink:
        endpoint = await office.endpoint(
            sink.url + "?q=1",
            headers={"Authorization": "Bearer abc", "X-Own": "7"},
            secrets=(secret,),
        )
        async with working(office):
            [id] = await office.enqueue(endpoint, greeting="héllo")
            job = await office.ended(id)
    [heard] = sink.heard
    assert (heard.method, heard.path, heard.json) == ("POST", "/hook?q=1", {"greeting": "héllo"})
    assert len(heard.names) == len(set(heard.names))
    headers = heard.headers
    assert headers["host"] == f"127.0.0.1:{sink.port}"
    assert headers["content-type"] == "application/json"
    assert headers["accept-encoding"] == "identity"
    assert (headers["authorization"], headers["x-own"]) == ("Bearer abc", "7")
    assert headers["idempotency-key"] == headers["webhook-id"]
    assert headers["webhook-id"].endswith(f"-job-{id}")
    assert headers["sexton-job"] == str(id)
    assert headers["sexton-fence"] == str(job.attempts[0].fence)
    assert headers["sexton-attempt"] == "1"
    assert "sexton-schedule" not in headers
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
    said = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + heard.body
    expected = base64.b64encode(hmac.digest(secret_bytes(secret), said, "sha256")).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert (job.state, job.result) == ("succeeded", {"ok": 1})


async def test_a_failing_endpoint_is_tried_again_with_the_same_key_and_a_larger_fence(
    database_url: str,
) -> None:
    def answer(heard: Heard) -> Reply:
        return reply(503 if heard.headers["sexton-attempt"] < "3" else 204)

    async with post(database_url) as office, listening(answer) as sink, working(office):
        [id] = await office.enqueue(await office.endpoint(sink.url))
        job = await office.ended(id)
    assert job.state == "succeeded"
    assert [each.outcome for each in job.attempts] == ["failed", "failed", "succeeded"]
    assert job.attempts[0].error == "HTTP 503 Service Unavailable"
    assert len({heard.headers["webhook-id"] for heard in sink.heard}) == 1
    fences = [int(heard.headers["sexton-fence"]) for heard in sink.heard]
    assert fences == sorted(set(fences))


async def test_each_endpoint_has_its_own_budget_of_attempts(database_url: str) -> None:
    async with (
        post(database_url) as office,
        listening(lambda _: reply(500, b"<b>no\x00</b>")) as sink,
        working(office),
    ):
        retry = Retry(max_attempts=2, base=0.01, cap=0.01)
        [id] = await office.enqueue(await office.endpoint(sink.url, retry=retry))
        job = await office.ended(id)
        declared = await office.rows("select * from sexton.task where name like 'http:%'")
    assert (job.state, len(job.attempts)) == ("dead", 2)
    assert job.error == "HTTP 500 Internal Server Error: <b>no\N{SYMBOL FOR NULL}</b>"
    assert [(each["queue"], each["max_attempts"]) for each in declared] == [("http", 2)]


async def test_retry_after_is_when_it_comes_back(database_url: str) -> None:
    said = [reply(503, Retry_After="2"), reply(200)]
    async with (
        post(database_url) as office,
        listening(lambda _: said.pop(0)) as sink,
        working(office),
    ):
        [id] = await office.enqueue(await office.endpoint(sink.url))
        await sink.until_heard(1)
        waiting = await office.when(id, lambda job: job.state == "waiting")
        [failed] = waiting.attempts
        assert waiting.due_at is not None
        assert abs((waiting.due_at - failed.finished_at).total_seconds() - 2) < 0.01
        assert (await office.ended(id)).state == "succeeded"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_never_followed(database_url: str, status: int) -> None:
    async with (
        post(database_url) as office,
        listening() as inside,
        listening(lambda _: reply(status, Location=inside.url)) as sink,
        working(office),
    ):
        [id] = await office.enqueue(await office.endpoint(sink.url))
        job = await office.ended(id)
    assert job.state == "dead"
    assert "redirects are not followed" in (job.error or "")
    assert inside.connections == 0


async def test_proxies_and_credentials_of_the_environment_are_ignored(
    database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    netrc = f"{tmp_path}/netrc"
    with open(netrc, "w") as file:
        file.write("machine 127.0.0.1 login user password canary\n")
    async with post(database_url) as office, listening() as proxy, listening() as sink:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NETRC", netrc)
        async with working(office):
            [id] = await office.enqueue(await office.endpoint(sink.url))
            assert (await office.ended(id)).state == "succeeded"
    assert proxy.connections == 0
    assert "authorization" not in sink.heard[0].headers


async def test_cookies_are_not_kept(database_url: str) -> None:
    async with (
        post(database_url) as office,
        listening(lambda _: reply(200, Set_Cookie="a=b; Path=/")) as sink,
        working(office),
    ):
        endpoint = await office.endpoint(sink.url)
        for _ in range(2):
            [id] = await office.enqueue(endpoint)
            await office.ended(id)
    assert not any("cookie" in heard.headers for heard in sink.heard)


async def test_deliveries_share_connections(database_url: str) -> None:
    async with post(database_url) as office, listening() as sink, working(office):
        endpoint = await office.endpoint(sink.url)
        await office.enqueue(endpoint, 300)
        await sink.until_heard(300)
    assert sink.connections <= 25


async def test_a_connection_that_was_closed_meanwhile_does_not_cost_an_attempt(
    database_url: str,
) -> None:
    seen: set[int] = set()

    def answer(heard: Heard) -> Reply:
        """The second request of a connection comes as it is being closed."""
        if heard.connection in seen:
            return None
        seen.add(heard.connection)
        return reply()

    async with post(database_url) as office, listening(answer) as sink, working(office):
        endpoint = await office.endpoint(sink.url)
        for _ in range(3):
            [id] = await office.enqueue(endpoint)
            job = await office.ended(id)
            assert (job.state, len(job.attempts)) == ("succeeded", 1)


async def test_a_deleted_endpoint_ends_its_jobs_with_a_reason(database_url: str) -> None:
    async with post(database_url) as office, listening() as sink, working(office):
        endpoint = await office.endpoint(sink.url)
        await office.rows("delete from sexton.endpoint")
        for task in (endpoint.id, 999):
            [id] = await office.enqueue(task)
            job = await office.ended(id)
            assert (job.state, job.error) == ("dead", "its endpoint was deleted")
        assert await office.value("select count(*) from sexton.task where name like 'http:%'") == 0


async def test_a_job_of_one_tenant_never_goes_to_the_endpoint_of_another(database_url: str) -> None:
    async with post(database_url) as office, listening() as sink, working(office):
        other = await office.value("insert into sexton.tenant (name) values ('other') returning id")
        [id] = await office.enqueue(await office.endpoint(sink.url, tenant=other))
        job = await office.ended(id)
    assert (job.state, job.error) == ("dead", "its endpoint is another tenant's")
    assert not sink.heard


async def test_a_worker_without_the_key_waits_for_it_and_burns_no_attempt(
    database_url: str,
) -> None:
    async with listening() as sink:
        async with post(database_url) as office:
            endpoint = await office.endpoint(sink.url, secrets=(fresh_secret(),))
            [id] = await office.enqueue(endpoint)
        async with post(database_url, secret_key=None) as keyless, working(keyless):
            job = await keyless.when(id, lambda job: job.attempts and job.state == "waiting")
            assert job.attempts[0].outcome == "snoozed"
            assert "SEXTON_SECRET_KEY is not set" in (job.attempts[0].error or "")
            assert job.attempt == 0
        assert not sink.heard
        async with post(database_url) as office, working(office):
            await office.rows("update sexton.job set due_at = now()")
            assert (await office.ended(id)).state == "succeeded"


async def test_a_change_of_an_endpoint_is_heeded_within_seconds(database_url: str) -> None:
    async with (
        post(database_url) as office,
        listening() as old,
        listening() as new,
        working(office),
    ):
        endpoint = await office.endpoint(old.url)
        [id] = await office.enqueue(endpoint)
        await office.ended(id)
        await office.rows("update sexton.endpoint set url = $1, version = version + 1", new.url)
        async with asyncio.timeout(10):
            while not new.heard:
                [id] = await office.enqueue(endpoint)
                await office.ended(id)


async def test_a_worker_that_stops_lets_deliveries_finish(database_url: str) -> None:
    go = asyncio.Event()

    async def answer(heard: Heard) -> Reply:
        await go.wait()
        return reply()

    async with post(database_url) as office, listening(answer) as sink:
        worker = await office.app.worker({"http": 10})
        running = asyncio.create_task(worker.run())
        [id] = await office.enqueue(await office.endpoint(sink.url))
        async with asyncio.timeout(20):
            while sink.connections < 1:
                await asyncio.sleep(0.01)
        worker.stop()
        go.set()
        await running
        assert (await office.app.job(id)).state == "succeeded"


async def test_a_delivery_is_given_up_when_its_job_is_cancelled(database_url: str) -> None:
    async def answer(heard: Heard) -> Reply:
        await asyncio.sleep(3600)
        return reply()

    async with post(database_url) as office, listening(answer) as sink, working(office):
        [id] = await office.enqueue(await office.endpoint(sink.url, timeout=60))
        await office.when(id, lambda job: job.state == "running")
        await office.app.cancel(id)
        assert (await office.ended(id)).state == "cancelled"
