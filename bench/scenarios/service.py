"""What one API process does: schedules in bulk and one by one, reads, pages, remote workers.

The service, its clients and PostgreSQL share the host's cores. Clients have a process of their own
and sixteen connections; each answer is read.
"""

from __future__ import annotations

import asyncio
import dataclasses

from bench.arena import Arena
from bench.contenders import Contender
from bench.driver import ContenderFailed
from bench.scenarios.base import Column, Figures, Scenario, Sizes
from bench.scenarios.nodes import is_sexton

CLIENTS = 16
WORKERS = 2
PAGES = 1_000
TIMES = 50
FILL = """
insert into sexton.job (due_at, task, queue)
select now() + interval '1 day', 'noop', 'later' from generate_series(1, $1)
"""


async def service(arena: Arena, contender: Contender, sizes: Sizes) -> Figures:
    program = dataclasses.replace(contender, program="sexton_api")
    async with arena.stage(program) as stage:
        server = await stage.process()
        port = (await server.ask("serve"))["port"]
        clients = [await stage.process() for _ in range(WORKERS)]
        client = clients[0]

        many = sizes.api_bulk
        told = await client.ask("register", port=port, count=many, timeout=300)
        if told["made"] != many:
            raise ContenderFailed(f"{told['made']} of {many} schedules were made")
        figures: Figures = {"api_bulk": many / told["seconds"]}

        few = sizes.api_single
        for name, do in (("api_create", "create"), ("api_read", "read")):
            told = await client.ask(do, port=port, count=few, clients=CLIENTS, timeout=300)
            figures[name] = few / told["seconds"]

        jobs = sizes.api_jobs
        told = await client.ask("fill", port=port, count=jobs, timeout=300)
        figures["api_jobs"] = told["made"] / told["seconds"]
        await stage.settle_down()
        done = await asyncio.gather(
            *(each.ask("work_remotely", port=port, timeout=300) for each in clients)
        )
        if sum(each["done"] for each in done) != jobs:
            raise ContenderFailed(f"{sum(each['done'] for each in done)} of {jobs} were settled")
        taken = max(each["ended"] for each in done) - min(each["began"] for each in done)
        figures["api_remote"] = jobs / taken

        await stage.watcher.execute(FILL, sizes.waiting)
        await stage.settle_down()
        told = await client.ask("leaf", port=port, pages=PAGES, times=TIMES, timeout=300)
        figures["api_first"] = told["first"] * 1000
        figures["api_later"] = told["later"] * 1000
        figures["api_pages"] = told["later"] / told["first"]
        stage.expected = sizes.waiting
        return figures


SERVICE = Scenario(
    name="service",
    about="one API process",
    columns=(
        Column("api_bulk", "schedules in bulk, /s"),
        Column("api_create", "created one by one, /s"),
        Column("api_read", "read, /s"),
        Column("api_jobs", "jobs in bulk, /s"),
        Column("api_remote", f"claimed and settled by {WORKERS} remote workers, /s"),
        Column("api_first", "page 1, ms", ".1f", more_is_better=False),
        Column("api_later", "page 1,000, ms", ".1f", more_is_better=False),
        Column("api_pages", "×", ".2f", more_is_better=False),
    ),
    run=service,
    takes=is_sexton,
)
