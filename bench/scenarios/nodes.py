"""What the scenarios about schedules share: a contender as a node, and questions to a cluster."""

from __future__ import annotations

import asyncio
import dataclasses
import time

from bench.arena import Stage
from bench.contenders import Contender
from bench.driver import ContenderFailed

# Everything is owned, evenly, by so many live nodes, and one of them leads.
EVEN = """
select count(*) = $1 and sum(cardinality(o.partitions)) = 256
    and max(cardinality(o.partitions)) - min(cardinality(o.partitions)) <= 1
    and bool_or(l.node_id = n.id)
from sexton.ownership as o
join sexton.node as n on n.id = o.node_id and n.gone_at is null
cross join sexton.leader as l
"""
CLOCK = "select extract(epoch from clock_timestamp())::float8"


def as_node(contender: Contender) -> Contender:
    """The same contender, by the program that fires its schedules."""
    return dataclasses.replace(contender, program=contender.firing)


def is_sexton(contender: Contender) -> bool:
    return contender.name == "sexton"


async def clock(stage: Stage) -> float:
    told: float = await stage.watcher.fetchval(CLOCK)
    return told


async def so(stage: Stage, query: str, *given: object, limit: float = 30.0) -> None:
    """Until the database says that it is so."""
    end = time.monotonic() + limit
    while not await stage.watcher.fetchval(query, *given):
        if time.monotonic() > end:
            raise ContenderFailed(f"not so within {limit:g} s: {' '.join(query.split())}")
        await asyncio.sleep(0.02)


async def even(stage: Stage, nodes: int) -> None:
    await so(stage, EVEN, nodes)
