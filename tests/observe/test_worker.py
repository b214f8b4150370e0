"""A worker process asked over its port: what it counts, and whether it is ready."""

import asyncio
import signal

from sexton import Sexton

from ..support.postgres import Postgres
from .processes import Scrape, observed, observed_worker
from .shop import app as shop


async def enqueue(url: str, *names: str, **arguments: object) -> None:
    app = Sexton(url)
    async with app:
        for name in names:
            await app.enqueue(name, arguments, queue=shop.tasks[name].queue)


async def test_after_some_jobs_the_numbers_are_right(database_url: str) -> None:
    with observed_worker(database_url) as worker:
        await worker.until_ready()
        # Whoever looks for an increase must have seen zero.
        before = await worker.scrape()
        for reason in ("permanent", "exhausted", "expired"):
            assert before.value("sexton_deaths_total", task="dies", reason=reason) == 0
        await enqueue(database_url, *["fine"] * 7, n=1)
        await enqueue(database_url, "fails", "in_a_thread", "dies", "dies")
        await enqueue(database_url, "waits", seconds=0.06)
        scrape = Scrape("")
        while (scrape.value("sexton_attempts_total") or 0) < 13:
            scrape = await worker.scrape()

        def attempts(**labels: str) -> float | None:
            return scrape.value("sexton_attempts_total", **labels)

        assert attempts(task="fine", outcome="succeeded") == 7
        assert attempts(task="fails", outcome="failed") == 2
        assert attempts(task="dies", outcome="failed") == 2
        assert attempts(task="in_a_thread", outcome="succeeded") == 1
        assert attempts() == 13
        assert scrape.value("sexton_deaths_total", task="fails", reason="exhausted") == 1
        assert scrape.value("sexton_deaths_total", task="dies", reason="permanent") == 2
        assert scrape.value("sexton_attempt_seconds_count") == 13
        waited = scrape.value("sexton_attempt_seconds_sum", task="waits")
        assert waited is not None
        assert 0.05 < waited < 5
        assert scrape.value("sexton_attempt_seconds_bucket", task="waits", le="0.05") == 0
        assert scrape.value("sexton_claim_lag_seconds_count", queue="default") == 11
        assert scrape.value("sexton_claim_lag_seconds_count", queue="other") == 2
        assert scrape.value("sexton_slots", queue="default") == 50
        assert scrape.value("sexton_ready") == 1
        assert scrape.value("sexton_postgresql_up") == 1
        assert scrape.value("sexton_renewal_errors_total") == 0
        assert scrape.value("sexton_info", kind="worker") == 1
        # Nobody leads here, so a worker looks at the database too.
        assert scrape.value("sexton_nodes") == 0
        assert (await worker.get("/healthz")).json()["alive"] is True


async def test_a_worker_without_postgresql_is_not_ready_until_it_is_back(
    own_server: Postgres,
) -> None:
    url = await asyncio.to_thread(own_server.create_database, "observed")
    with observed_worker(url) as worker:
        await worker.until_ready()
        await asyncio.to_thread(own_server.stop, "immediate")
        reasons = await worker.until_ready(False)
        assert any("PostgreSQL" in each or "lease" in each for each in reasons)
        scrape = await worker.scrape()  # answered without a database too
        assert scrape.value("sexton_ready") == 0
        assert (await worker.get("/healthz")).status_code == 200, "it lives all the while"
        await asyncio.to_thread(own_server.start)
        await worker.until_ready()
        assert (await worker.scrape()).value("sexton_postgresql_up") == 1


async def test_a_worker_that_is_told_to_end_is_not_ready_while_its_jobs_finish(
    database_url: str,
) -> None:
    with observed_worker(database_url) as worker:
        await worker.until_ready()
        await enqueue(database_url, "waits", seconds=2)
        while (await worker.scrape()).value("sexton_slots_busy", queue="default") != 1:
            await asyncio.sleep(0.02)
        worker.process.send_signal(signal.SIGTERM)
        reasons = await worker.until_ready(False)
        assert any("stopping" in each for each in reasons)
        assert worker.process.poll() is None, "the job still runs"
        assert (await worker.get("/healthz")).status_code == 200
        assert await asyncio.to_thread(worker.process.wait, 20) == 0


async def test_a_task_that_blocks_the_loop_makes_its_worker_not_ready_and_says_why(
    database_url: str,
) -> None:
    with observed_worker(database_url) as worker:
        await worker.until_ready()
        await enqueue(database_url, "blocks", seconds=6)
        reasons = await worker.until_ready(False)
        assert any("event loop has not turned" in each for each in reasons)
        assert (await worker.get("/healthz")).status_code == 200, "a moment is forgiven"
        await worker.until_ready()


async def test_a_worker_that_only_delivers_is_observed_like_any_other(database_url: str) -> None:
    with observed(database_url, "worker", "--queue", "http:7") as worker:
        await worker.until_ready()
        assert (await worker.scrape()).value("sexton_slots", queue="http") == 7
