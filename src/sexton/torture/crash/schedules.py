"""Scenes of a schedule's life, and of the nodes that fire: before a step, and in it."""

import asyncio

from sexton.torture.crash.stage import STANDBY, VICTIM, Stage


async def a_node(stage: Stage) -> None:
    await stage.start(VICTIM, "node")
    await stage.until_owned(1)


async def a_node_that_is_yet_to_come(stage: Stage) -> None:
    """Its proxy is there, so that nothing of what it says is missed."""
    await stage.expect(VICTIM, "node")


async def it_comes(stage: Stage) -> None:
    """To what is due by then, or a moment later."""
    await stage.schedule(1.0)
    await stage.start(VICTIM, "node", wait=False)


async def a_warm_node(stage: Stage) -> None:
    await a_node(stage)
    await stage.schedule(0.05, 1)
    await stage.until("it has fired", stage.fired)


async def a_catching_node(stage: Stage) -> None:
    await a_node(stage)
    await stage.schedule(-60.0, 1)
    await stage.until("it is caught up", stage.fired)


async def a_backfilling_node(stage: Stage) -> None:
    await a_node(stage)
    await stage.with_a_past()
    await stage.backfill(0, 3)
    await stage.until("it has fired", lambda: fired_and_backfilled(stage))


async def more_of_it(stage: Stage) -> None:
    await stage.backfill(3, 7)


async def fired_and_backfilled(stage: Stage) -> bool:
    return await stage.fired() and await stage.backfilled()


async def a_replacing_node(stage: Stage) -> None:
    """Jobs of its schedules wait, for there is no worker; it has replaced others before."""
    await a_node(stage)
    await stage.schedule(0.05, 2, overlap="replace")
    await stage.until("they have fired", stage.fired)
    await replaced_soon(stage)
    await stage.until("they have been replaced", lambda: fired_and_replaced(stage))


async def replaced_soon(stage: Stage) -> None:
    await stage.again(0.1)


async def fired_and_replaced(stage: Stage) -> bool:
    return await stage.fired() and await stage.replaced()


async def soon_and_never(stage: Stage) -> None:
    """One of three is taken back when the node has decided about it, and nobody tells the node."""
    await stage.schedule(0.15, 3)
    await asyncio.sleep(0.06)
    await stage.take_back()


async def a_node_and_a_schedule(stage: Stage) -> None:
    await a_node(stage)
    await stage.schedule(0.7)


async def a_late_schedule(stage: Stage) -> None:
    """As after an outage: it should have fired a minute ago."""
    await stage.schedule(-60.0)


async def two_nodes(stage: Stage) -> None:
    """The victim leads."""
    await a_node(stage)
    await stage.start(STANDBY, "node")
    await stage.until_owned(2)


async def hand_over(stage: Stage) -> None:
    await stage.schedule(0.1, 4)
    stage.term(VICTIM)


async def a_second_in_command(stage: Stage) -> None:
    """Somebody else leads, and the victim owns half."""
    await stage.start("leader", "node")
    await stage.until_owned(1)
    await stage.start(VICTIM, "node")
    await stage.until_owned(2)


async def the_leader_dies(stage: Stage) -> None:
    await stage.schedule(0.1, 4)
    stage.kill("leader")


async def another_joins(stage: Stage) -> None:
    await stage.schedule(0.1, 4)
    await stage.start("newcomer", "node", wait=False)


async def fired_and_owned(stage: Stage) -> bool:
    return await stage.fired() and await stage.so(
        "select coalesce(sum(cardinality(o.partitions)), 0) = 256 "
        "and count(*) = (select count(*) from sexton.node where gone_at is null) "
        "from sexton.ownership as o join sexton.node as n on n.id = o.node_id and n.gone_at is null"
    )


async def fired_and_shared(stage: Stage) -> bool:
    return await fired_and_owned(stage) and await stage.so(
        "select exists (select from sexton.node join sexton.ownership on node_id = id "
        "where name = 'newcomer' and gone_at is null and cardinality(partitions) > 0)"
    )


async def fired(stage: Stage) -> bool:
    return await stage.fired()
