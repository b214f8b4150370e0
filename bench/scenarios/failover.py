"""What becomes of fires when the leader of three nodes goes: killed, asked to leave, or held up.

200 schedules fire every second. The gap is the longest time between two decisions about a schedule,
less its period. Lost are fires that the ledger does not have; doubled are those with two jobs.
"""

from __future__ import annotations

import asyncio
import os
import signal

from bench.arena import Arena, Stage
from bench.contenders import Contender
from bench.driver import Process
from bench.scenarios.base import Column, Figures, Scenario, Sizes
from bench.scenarios.nodes import as_node, clock, even, is_sexton, so

NODES = 3
SCHEDULES = 200
PERIOD = 1.0
QUIET = 1.5  # before and after each of them: a fire at least

# Nothing is overdue.
CURRENT = "select min(next_fire_at) > clock_timestamp() - interval '0.1 s' from sexton.due"
LEADER = "select pid from sexton.leader join sexton.node on node.id = leader.node_id"
OWNS_NOTHING = """
select not exists (
    select from sexton.ownership join sexton.node on node.id = ownership.node_id where pid = $1)
"""
GAP = """
select max(extract(epoch from decided_at - before))::float8
from (
    select decided_at, lag(decided_at) over (partition by schedule_id order by decided_at) as before
    from sexton.fire
    where fire_at >= to_timestamp($1)
) as each
"""
LOST = """
select sum(expected - found)::float8
from (
    select count(*) filter (where decision = 'fired') as found,
        1 + round(extract(epoch from max(fire_at) - min(fire_at)) / $1) as expected
    from sexton.fire
    group by schedule_id
) as each
"""
DOUBLED = """
select (select count(*) - count(distinct (schedule_id, fire_at)) from sexton.job)
    + (select count(*) from sexton.fire where decided_at < fire_at)
    + (select abs(
        (select count(*) from sexton.job)
        - (select count(*) from sexton.fire where decision = 'fired')))
"""


class Fleet:
    """Three nodes; one that goes is made up for."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.nodes: list[Process] = []

    async def complete(self) -> None:
        while len(self.nodes) < NODES:
            node = await self.stage.process()
            await node.ask("fire", timeout=60)
            self.nodes.append(node)
        await even(self.stage, NODES)
        await so(self.stage, CURRENT)
        await asyncio.sleep(QUIET)

    async def leader(self) -> Process:
        pid = await self.stage.watcher.fetchval(LEADER)
        return next(node for node in self.nodes if node.pid == pid)

    async def killed(self) -> None:
        leader = await self.leader()
        self.nodes.remove(leader)
        self.stage.processes.remove(leader)
        await leader.kill()
        await so(self.stage, OWNS_NOTHING, leader.pid)

    async def left(self) -> None:
        leader = await self.leader()
        self.nodes.remove(leader)
        await self.stage.stop(leader)

    async def held_up(self) -> None:
        """For longer than its lease; others have taken over and fired when it comes back."""
        leader = await self.leader()
        os.kill(leader.pid, signal.SIGSTOP)
        try:
            await so(self.stage, OWNS_NOTHING, leader.pid)
            await so(self.stage, CURRENT)
            await asyncio.sleep(QUIET)
        finally:
            os.kill(leader.pid, signal.SIGCONT)

    async def longest_gap(self, how: str) -> float:
        await self.complete()
        began = await clock(self.stage)
        match how:
            case "kill":
                await self.killed()
            case "leave":
                await self.left()
            case _:
                await self.held_up()
        await asyncio.sleep(PERIOD)
        await so(self.stage, CURRENT)
        await asyncio.sleep(QUIET)
        gap: float = await self.stage.watcher.fetchval(GAP, began - QUIET)
        return gap - PERIOD


async def failover(arena: Arena, contender: Contender, sizes: Sizes) -> Figures:
    async with arena.stage(as_node(contender)) as stage:
        hand = await stage.process()
        await hand.ask("setup")
        await hand.ask("beat", count=SCHEDULES, every=PERIOD)
        await stage.stop(hand)
        await stage.settle_down()
        fleet = Fleet(stage)
        gaps: Figures = {}
        for _ in range(sizes.failovers):
            for how in ("kill", "leave", "pause"):
                key = f"{how}_gap"
                gaps[key] = max(gaps.get(key, 0.0), await fleet.longest_gap(how))
        for node in fleet.nodes:
            await stage.stop(node)
        return {
            **gaps,
            "lost": float(await stage.watcher.fetchval(LOST, PERIOD)),
            "doubled": float(await stage.watcher.fetchval(DOUBLED)),
        }


FAILOVER = Scenario(
    name="failover",
    about="three nodes, 200 fires a second, and the leader goes",
    columns=(
        Column("kill_gap", "kill -9, s", ".2f", more_is_better=False),
        Column("leave_gap", "leave, s", ".3f", more_is_better=False),
        Column("pause_gap", "SIGSTOP, s", ".2f", more_is_better=False),
        Column("lost", "lost", ".0f", more_is_better=False),
        Column("doubled", "doubled or early", ".0f", more_is_better=False),
    ),
    run=failover,
    takes=is_sexton,
    once=True,
)
