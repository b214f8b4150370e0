"""Probes and metrics of the REST service."""

import asyncio
import signal
from collections.abc import Iterator

import asyncpg
import httpx
import pytest

from sexton import Sexton
from sexton.api.measured import RequestMeters
from sexton.api.service import Service
from sexton.api.watch import Watch

from ..api.served import Served, served
from ..support.postgres import Postgres
from .processes import Scrape, observed


@pytest.fixture
def api(app: Sexton) -> Iterator[Served]:
    with served(app) as service:
        yield service


async def test_probes_are_open_and_metrics_are_for_the_operator(api: Served) -> None:
    async with (
        api.caller("viewer") as viewer,
        api.caller("worker") as worker,
        api.caller("admin", "acme") as stranger,
        api.client() as nobody,
    ):
        assert (await nobody.get("/healthz")).json() == {"alive": True}
        ready = await nobody.get("/readyz")
        assert (ready.status_code, ready.json()) == (200, {"ready": True, "reasons": []})
        for path in ("/healthz", "/readyz"):  # as some balancers ask
            asked = await nobody.head(path)
            assert (asked.status_code, asked.content) == (200, b"")
        assert (await nobody.get("/metrics")).status_code == 401
        assert (await stranger.get("/metrics")).status_code == 403
        assert (await worker.get("/metrics")).status_code == 403
        answer = await viewer.get("/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert Scrape(answer.text).value("sexton_info", kind="api") == 1


async def test_requests_are_counted_by_route_and_not_by_what_was_sent(api: Served) -> None:
    async with api.caller("admin") as admin:
        for n in range(5):
            await admin.get(f"/v1/keys/{n}/../../secret-{n}")
            await admin.get(f"/nowhere/{n}")
            await admin.request("PURGE", "/healthz")
        for _ in range(3):
            await admin.get("/healthz")
        await admin.get("/v1/tenants/acme")
        text = (await admin.get("/metrics")).text
    scrape = Scrape(text)

    def requests(**labels: str) -> float | None:
        return scrape.value("sexton_http_requests_total", **labels)

    assert requests(method="GET", route="/healthz", status="200") == 3
    assert requests(route="none", status="404") is not None
    assert requests(method="OTHER") == 5
    assert scrape.value("sexton_http_seconds_count", method="GET", route="/healthz") == 3
    routes = {sample.labels.get("route") for sample in scrape.samples}
    assert any(route is not None and route.startswith("/v1/tenants/{") for route in routes), routes
    for hostile in ("secret-", "nowhere", "PURGE", "acme"):
        assert hostile not in text
    assert scrape.value("sexton_pool_size", pool="tenants") == 10
    assert scrape.value("sexton_http_in_flight") == 1


async def test_what_remote_workers_settle_is_counted_by_outcome_and_deaths_by_reason(
    api: Served,
) -> None:
    async with api.caller("admin") as admin:
        deaths = Scrape((await admin.get("/metrics")).text)
        for task in ("remote", "http", "other"):
            for reason in ("permanent", "exhausted", "expired"):
                assert deaths.value("sexton_deaths_total", task=task, reason=reason) == 0
        for _ in range(4):
            made = await admin.post("/v1/jobs", json={"task": "afar", "queue": "q"})
            assert made.status_code == 201, made.text
        worker = await admin.post("/v1/workers", json={"name": "w", "queues": ["q"], "lease": 30})
        url = f"/v1/workers/{worker.json()['id']}"
        claimed = (await admin.post(f"{url}/claim", json={"limit": 4, "wait": 5})).json()["jobs"]
        outcomes = ["succeeded", "succeeded", "failed", "failed"]
        results = [
            {"id": job["id"], "fence": job["fence"], "outcome": outcome}
            for job, outcome in zip(claimed, outcomes, strict=True)
        ]
        results[3]["permanent"] = True
        stale = {**results[0], "fence": 1}
        for said in ([*results, stale], results):  # the second time all of them are stale
            await admin.post(f"{url}/settle", json={"results": said})
        scrape = Scrape((await admin.get("/metrics")).text)
    assert scrape.value("sexton_attempts_total", task="remote", outcome="succeeded") == 2
    assert scrape.value("sexton_attempts_total", task="remote", outcome="failed") == 2
    assert scrape.value("sexton_deaths_total", task="remote", reason="permanent") == 1
    assert scrape.value("sexton_deaths_total", task="remote", reason="exhausted") == 0


async def test_a_service_whose_schema_is_behind_is_not_ready(
    api: Served, database_url: str
) -> None:
    """One that is ahead is that of a rolling deploy: whoever runs goes on until it is replaced."""
    connection = await asyncpg.connect(database_url)
    await connection.execute("delete from sexton.migration where version > 1")
    async with api.client() as client:
        while (answer := await client.get("/readyz")).status_code == 200:
            await asyncio.sleep(0.05)
        assert answer.status_code == 503
        assert "version 1, this code wants" in answer.json()["reasons"][0]
        await connection.execute("insert into sexton.migration values (999, 'later')")
        while (await client.get("/readyz")).status_code != 200:
            await asyncio.sleep(0.05)
    await connection.close()


async def test_a_service_whose_schema_is_newer_says_so_once_and_goes_on(
    app: Sexton, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    connection = await asyncpg.connect(database_url)
    ours = await connection.fetchval("select max(version) from sexton.migration")

    async def told_after_looking(watch: Watch, statement: str) -> list[str]:
        await connection.execute(statement)
        caplog.clear()
        for _ in range(3):
            await watch.look()
        assert watch.reasons() == []
        return [each.getMessage() for each in caplog.records if each.name == "sexton.api"]

    later = "insert into sexton.migration values ({}, 'later')".format
    async with (
        Service.running(app) as service,
        Watch.over(service, (await app.client()).address, RequestMeters()) as watch,
    ):
        assert await told_after_looking(watch, "select") == []
        for version in (998, 999):
            [said] = await told_after_looking(watch, later(version))
            assert f"version {version}, newer than this code's {ours}" in said
        back = f"delete from sexton.migration where version > {ours}"
        assert await told_after_looking(watch, back) == []
        assert len(await told_after_looking(watch, later(999))) == 1
    await connection.close()


async def test_a_service_process_without_postgresql_says_so_and_comes_back(
    own_server: Postgres,
) -> None:
    url = await asyncio.to_thread(own_server.create_database, "observed")
    with observed(url, "api", "--port", "0") as api:
        await api.until_ready()
        await asyncio.to_thread(own_server.stop, "immediate")
        [reason] = await api.until_ready(False)
        assert reason == "PostgreSQL cannot be reached", "neither where it is nor who we are"
        scrape = await api.scrape()
        assert scrape.value("sexton_postgresql_up") == 0
        await asyncio.to_thread(own_server.start)
        await api.until_ready()
        api.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(api.process.wait, 20) == 0
        with pytest.raises(httpx.TransportError):
            await api.get("/healthz")
