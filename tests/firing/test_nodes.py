"""Nodes as processes, killed, stopped, cut off and restarted: every second fired once."""

import asyncio
import contextlib
import signal

from ..cluster.fleet import Wall
from ..support.postgres import Postgres
from .fleet import fleet
from .standby import Standby, Switch

MANY = 200


async def test_five_nodes_of_which_leaders_are_killed_and_stopped_lose_and_double_nothing(
    database_url: str,
) -> None:
    async with fleet(database_url) as nodes:
        five = [nodes.start() for _ in range(5)]
        await nodes.schedule(MANY)
        await nodes.shared_by(*five)
        await nodes.go_on()
        term = await nodes.value("select term from sexton.leader")

        killed = await nodes.leader()
        killed.signal(signal.SIGKILL)
        killed.process.wait()
        five.remove(killed)
        await nodes.shared_by(*five)

        stopped = await nodes.leader()
        id = await nodes.node_of(stopped)
        stopped.signal(signal.SIGSTOP)
        await nodes.so("select gone_why = 'lost' from sexton.node where id = $1", id)
        await nodes.go_on()
        stopped.signal(signal.SIGCONT)
        await nodes.shared_by(*five)
        await nodes.go_on()
        assert await nodes.value("select term from sexton.leader") >= term + 2
        await nodes.prove()


async def test_rolling_restarts_of_other_versions_with_other_clocks_lose_and_double_nothing(
    database_url: str,
) -> None:
    async with fleet(database_url) as nodes:
        old = [nodes.start(version="1.0", skew=skew) for skew in (0, 7200, -10800)]
        await nodes.schedule(MANY)
        await nodes.shared_by(*old)
        await nodes.go_on()
        for skew in (-7200, 0, 10800):
            fresh = nodes.start(version="1.1", skew=skew)
            await nodes.shared_by(*old, fresh)
            leaving = old.pop(0)
            leaving.signal(signal.SIGTERM)
            assert await asyncio.to_thread(leaving.process.wait, 60) == 0
            old.append(fresh)
        await nodes.shared_by(*old)
        await nodes.go_on()
        versions = await nodes.connection.fetch(
            "select distinct version from sexton.node where gone_at is null"
        )
        assert [row["version"] for row in versions] == ["1.1"]
        assert await nodes.value("select max(abs(skew)) > 7000 from sexton.node")
        await nodes.prove()


async def test_a_node_that_is_cut_off_from_the_database_for_longer_than_its_lease(
    server: Postgres, database_url: str
) -> None:
    """What it sent meanwhile arrives after all, when its partitions are somebody else's."""
    name = database_url.split("@/")[1].split("?")[0]
    async with Wall(server.socket) as wall, fleet(database_url) as nodes:
        far = nodes.start(wall.url(name))
        near = [nodes.start() for _ in range(2)]
        await nodes.schedule(MANY)
        await nodes.shared_by(far, *near)
        await nodes.go_on()
        for _ in range(2):
            id = await nodes.node_of(far)
            wall.block()
            await nodes.so("select gone_why = 'lost' from sexton.node where id = $1", id)
            await nodes.shared_by(*near)
            await nodes.go_on()
            wall.unblock()
            await nodes.shared_by(far, *near)
        await nodes.go_on()
        await nodes.prove()


async def test_a_node_whose_renewals_are_blocked_stops_before_its_lease_is_over(
    database_url: str,
) -> None:
    async with fleet(database_url) as nodes:
        blocked = nodes.start()
        other = nodes.start()
        await nodes.schedule(MANY)
        await nodes.shared_by(blocked, other)
        await nodes.go_on()
        id = await nodes.node_of(blocked)
        holding = await nodes.another()
        transaction = holding.transaction()
        await transaction.start()
        # Of the table: whoever had a row locked for so long would be ended.
        await holding.execute("lock table sexton.node in exclusive mode")
        await nodes.said(blocked, "the lease was not renewed in time")
        await nodes.so(
            "select clock_timestamp() > lease_until + interval '1 second' from sexton.node "
            "where id = $1",
            id,
        )
        after = await nodes.value(
            "select count(*) from sexton.fire join sexton.node on node.id = fire.node_id "
            "where node.id = $1 and fire.decided_at > node.lease_until",
            id,
        )
        assert after == 0
        await transaction.rollback()
        await nodes.go_on()
        await nodes.prove()


async def test_postgresql_restarted_crashed_and_its_backends_terminated_under_the_nodes(
    own_server: Postgres,
) -> None:
    url = await asyncio.to_thread(own_server.create_database, "restarted")
    async with fleet(url) as nodes:
        three = [nodes.start(lease=3) for _ in range(3)]
        await nodes.schedule(MANY)
        await nodes.shared_by(*three)
        await nodes.go_on()
        for mode in ("fast", "immediate"):
            await asyncio.to_thread(own_server.stop, mode)
            await asyncio.to_thread(own_server.start)
            await nodes.reconnect()
            await nodes.go_on()
        for _ in range(2):
            await nodes.value(
                "select count(pg_terminate_backend(pid)) from pg_stat_activity "
                "where datname = current_database() and pid <> pg_backend_pid()"
            )
            await nodes.go_on()
        await nodes.prove()
        assert all(each.process.poll() is None for each in three)


async def test_a_failover_to_a_standby_that_is_seconds_behind(own_server: Postgres) -> None:
    """What the old primary fired and never passed on is fired by the new one, once."""
    url = await asyncio.to_thread(own_server.create_database, "promoted")
    async with contextlib.AsyncExitStack() as stack:
        standby = await asyncio.to_thread(stack.enter_context, Standby.of(own_server))
        switch = Switch(own_server.socket)
        await stack.enter_async_context(switch)
        nodes = await stack.enter_async_context(fleet(url))
        three = [nodes.start(switch.url("promoted")) for _ in range(3)]
        await nodes.schedule(MANY)
        await nodes.shared_by(*three)
        await nodes.go_on()
        await nodes.replicated()
        await asyncio.to_thread(standby.fall_behind)
        await nodes.go_on(2)
        reached = await nodes.value("select max(fire_at) from sexton.fire")
        await asyncio.to_thread(own_server.stop, "immediate")
        await asyncio.to_thread(standby.promote)
        await nodes.reconnect(standby.url("promoted"))
        assert await nodes.value("select max(fire_at) < $1 from sexton.fire", reached)
        switch.lead_to(standby.socket)
        await nodes.go_on()
        await nodes.prove()
        assert all(each.process.poll() is None for each in three)
