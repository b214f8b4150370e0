"""How fast jobs are delivered to an HTTP endpoint on the same host, by two workers.

Each is signed, sent with a header of the endpoint's own, answered with two bytes and settled. The
clock runs from the first request that the endpoint hears to the moment the database holds no
unsettled job. The endpoint, the workers and PostgreSQL share the host's cores.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time

from bench.arena import Arena
from bench.contenders import Contender
from bench.driver import ContenderFailed
from bench.scenarios.base import Column, Figures, Scenario, Sizes
from bench.scenarios.nodes import is_sexton
from sexton.targets.http.seal import fresh_key

STALLED = 30.0
WORKERS = 2


async def deliver(arena: Arena, contender: Contender, sizes: Sizes) -> Figures:
    program = dataclasses.replace(contender, program="sexton_http")
    count, key = sizes.deliveries, fresh_key()
    async with arena.stage(program) as stage:
        sink = await stage.process()
        port = (await sink.ask("sink"))["port"]
        filler = await stage.process()
        await filler.ask("key", key=key)
        await filler.ask("deliveries", port=port, count=count)
        await stage.stop(filler)
        await stage.settle_down()
        workers = [await stage.process() for _ in range(WORKERS)]
        for worker in workers:
            await worker.ask("key", key=key)
        before = sum([(await each.ask("cpu"))["cpu"] for each in workers])
        for worker in workers:
            await worker.ask("work", timeout=60)
        seen, seen_at = 0, time.monotonic()
        while (told := await sink.ask("heard"))["heard"] < count:
            if told["heard"] > seen:
                seen, seen_at = told["heard"], time.monotonic()
            elif time.monotonic() - seen_at > STALLED:
                raise ContenderFailed(f"stalled: {told['heard']} of {count} were delivered")
            await asyncio.sleep(0.02)
        end = await stage.wait_until_settled()
        cpu = sum([(await each.ask("cpu"))["cpu"] for each in workers]) - before
        told = await sink.ask("heard")
        snoozed = await stage.watcher.fetchval(
            "select count(*) from sexton.attempt where outcome = 'snoozed'"
        )
        if told["heard"] != count:
            raise ContenderFailed(f"{told['heard']} requests for {count} jobs")
        return {
            "delivered": count / (end - told["first"]),
            "delivery_cpu": cpu / count * 1e6,
            "put_back": snoozed / count,
        }


DELIVER = Scenario(
    name="deliver",
    about=f"HTTP deliveries to a local endpoint, {WORKERS} workers",
    columns=(
        Column("delivered", "deliveries/s"),
        Column("delivery_cpu", "workers' CPU, µs/delivery", more_is_better=False),
        Column("put_back", "put back for lack of room, of all", ".3f", more_is_better=False),
    ),
    run=deliver,
    takes=is_sexton,
)
