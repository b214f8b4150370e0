"""A node process asked over its port."""

import asyncio
import signal
import sys

from sexton import Sexton

from .processes import Observed, Scrape, observed


async def test_a_node_tells_what_it_fired_and_what_it_owns(database_url: str) -> None:
    app = Sexton(database_url)
    async with app:
        await app.schedules.add("often", "beat", every="1s", overlap="allow")
        await app.schedules.add("seldom", "beat", cron="0 0 1 1 *")
        await app.enqueue("beat", queue="default")
    with observed(database_url, "scheduler", "--name", "one") as node:
        await node.until_ready()
        scrape = Scrape("")
        while (scrape.value("sexton_fires_total", kind="due") or 0) < 2 or (
            scrape.value("sexton_partitions") != 256
        ):
            scrape = await node.scrape()
            await asyncio.sleep(0.1)
        assert scrape.value("sexton_leads") == 1
        assert (scrape.value("sexton_term") or 0) >= 1
        assert scrape.value("sexton_turning") == 1
        lag_count = scrape.value("sexton_fire_lag_seconds_count")
        assert lag_count == scrape.value("sexton_fires_total", kind="due")
        # The first may have been due before the node came, which is not a matter of milliseconds.
        assert scrape.value("sexton_fire_lag_seconds_bucket", le="60.0") == lag_count
        assert (scrape.value("sexton_renewals_total") or 0) >= 1
        assert scrape.value("sexton_info", name="one", kind="scheduler") == 1
        # What the database tells is looked up at most every ten seconds.
        while (
            scrape.value("sexton_nodes") != 1
            or (scrape.value("sexton_jobs", task="beat", state="ready") or 0) < 2
        ):
            scrape = await node.scrape()
            await asyncio.sleep(0.2)
        assert scrape.value("sexton_leader") == 1
        assert scrape.value("sexton_partitions_unowned") == 0
        assert (scrape.value("sexton_queue_age_seconds", queue="default") or 0) > 0
        node.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(node.process.wait, 20) == 0


async def test_a_node_whose_loop_is_blocked_is_not_ready_and_recovers(database_url: str) -> None:
    command = [sys.executable, "-m", "tests.observe.blocked_node"]
    node = Observed(command, database_url)
    try:
        await node.until_ready()
        node.process.send_signal(signal.SIGUSR1)
        reasons = await node.until_ready(False)
        assert any("lease" in each or "event loop" in each for each in reasons)
        scrape = await node.scrape()
        assert scrape.value("sexton_ready") == 0
        await node.until_ready()
    finally:
        node.end()


async def test_only_the_leader_counts_for_the_whole_installation(database_url: str) -> None:
    with observed(database_url, "scheduler") as one, observed(database_url, "scheduler") as two:
        await one.until_ready()
        await two.until_ready()
        scrapes = [await node.scrape() for node in (one, two)]
        while [each.value("sexton_leads") for each in scrapes].count(1) != 1 or [
            each.value("sexton_nodes") for each in scrapes
        ].count(2) != 1:
            await asyncio.sleep(0.2)
            scrapes = [await node.scrape() for node in (one, two)]
        by_leader = {each.value("sexton_leads"): each for each in scrapes}
        assert by_leader[1].value("sexton_nodes") == 2
        assert by_leader[0].value("sexton_nodes") is None
