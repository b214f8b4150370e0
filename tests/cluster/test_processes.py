"""Nodes as processes: killed, stopped, restarted, with wrong clocks, all at once."""

import asyncio
import random
import signal
import time

import pytest

from ..support.postgres import Postgres
from .fleet import fleet

STALE = "select count(*) from sexton.ownership where node_id = $1 and epoch = $2"


async def test_kill_9_of_the_leader_with_default_settings_is_made_good_within_five_seconds(
    database_url: str,
) -> None:
    async with fleet(database_url) as nodes:
        for _ in range(3):
            nodes.start(batch=256)
        await nodes.evenly(3)
        leader = await nodes.leader()
        term = await nodes.value("select term from sexton.leader")
        leader.signal(signal.SIGKILL)
        leader.process.wait()
        killed_at = await nodes.value("select clock_timestamp()")
        await nodes.so(
            "select count(distinct partition) = 256 from ledger where at > $1 and pid <> $2",
            *(killed_at, leader.pid),
        )
        longest = await nodes.value(
            """
            select max(extract(epoch from first)) from (
                select min(at) filter (where at > $1 and pid <> $2) - $1 as first
                from ledger group by partition
            ) as partition
            """,
            *(killed_at, leader.pid),
        )
        await nodes.evenly(2)
        assert longest < 5.0
        assert await nodes.value("select term from sexton.leader") == term + 1
        assert await nodes.value("select gone_why from sexton.node where pid = $1", leader.pid) == (
            "lost"
        )
        assert not await nodes.violations()


@pytest.mark.parametrize("killed", ["the leader", "a follower"])
async def test_the_end_of_a_lease_is_acted_on_at_once_and_not_at_the_next_heartbeat(
    database_url: str, killed: str
) -> None:
    """The survivor's own heartbeats are twenty seconds apart."""
    async with fleet(database_url) as nodes:
        first, second = (1, 60) if killed == "the leader" else (60, 1)
        nodes.start(lease=first)
        await nodes.evenly(1)
        nodes.start(lease=second)
        await nodes.evenly(2)
        victim = nodes.all[0 if first == 1 else 1]
        assert (await nodes.leader() is victim) == (killed == "the leader")
        victim.signal(signal.SIGKILL)
        await nodes.evenly(1)
        late = await nodes.value(
            "select extract(epoch from gone_at - lease_until) from sexton.node where pid = $1",
            victim.pid,
        )
        assert 0 <= late < 5
        assert not await nodes.violations()


async def test_a_leader_stopped_beyond_its_lease_writes_nothing_when_it_wakes_up(
    database_url: str,
) -> None:
    """It is reckless, too: it goes on with what it owned, and only the epoch is in its way."""
    async with fleet(database_url) as nodes:
        for _ in range(3):
            nodes.start(lease=1.5, reckless=0.3)
        await nodes.evenly(3)
        for _ in range(2):
            leader = await nodes.leader()
            term = await nodes.value("select term from sexton.leader")
            node, epoch = await nodes.node_of(leader)
            assert await nodes.value(STALE, node, epoch) == 1
            leader.signal(signal.SIGSTOP)
            await nodes.so("select gone_why = 'lost' from sexton.node where id = $1", node)
            await nodes.evenly(2)
            assert await nodes.value(STALE, node, epoch) == 0
            taken_at = await nodes.value("select gone_at from sexton.node where id = $1", node)
            leader.signal(signal.SIGCONT)
            await nodes.evenly(3)
            assert "declared lost" in leader.output()
            late = "select count(*) from ledger where node = $1 and at > $2"
            assert await nodes.value(late, node, taken_at) == 0
            assert await nodes.value("select term from sexton.leader") > term
        assert not await nodes.violations()


async def test_a_node_whose_loop_hangs_gives_its_partitions_away_until_it_turns_again(
    database_url: str,
) -> None:
    async with fleet(database_url) as nodes:
        hanging = nodes.start(lease=2, hang=8)
        nodes.start(lease=2)
        await nodes.evenly(2)
        node, _ = await nodes.node_of(hanging)
        hanging.signal(signal.SIGUSR1)
        await nodes.so("select gone_why = 'left' from sexton.node where id = $1", node)
        await nodes.evenly(1)
        await nodes.evenly(2)
        assert "has not turned for" in hanging.output()
        assert not await nodes.violations()


async def test_a_clock_that_is_hours_off_changes_nothing_but_the_skew_that_is_shown(
    database_url: str,
) -> None:
    async with fleet(database_url) as nodes:
        fast, slow = nodes.start(skew=7200), nodes.start(skew=-10800)
        right = nodes.start()
        await nodes.evenly(3)
        await nodes.so("select count(*) = 3 from sexton.node where abs(skew) >= 0 and fired > 0")
        skews = [
            await nodes.value("select skew from sexton.node where pid = $1", each.pid)
            for each in (fast, slow, right)
        ]
        assert skews == pytest.approx([7200, -10800, 0], abs=60)
        leader = await nodes.leader()
        leader.signal(signal.SIGTERM)
        assert leader.process.wait(30) == 0
        await nodes.evenly(2)
        assert await nodes.value("select count(*) from sexton.node where gone_why = 'lost'") == 0
        assert not await nodes.violations()


async def test_ten_processes_of_two_versions_that_start_at_once_are_ten_nodes(
    database_url: str,
) -> None:
    async with fleet(database_url) as nodes:
        for n in range(10):
            nodes.start(lease=6, version=f"1.{n % 2}", every=0.1)
        await nodes.evenly(10)
        assert await nodes.value("select count(distinct pid) from sexton.node") == 10
        shown = await nodes.connection.fetch(
            "select version, count(*) from sexton.node group by version order by version"
        )
        assert [tuple(row) for row in shown] == [("1.0", 5), ("1.1", 5)]
        assert not await nodes.violations()


async def test_rolling_restarts_hand_over_without_waiting_for_a_lease(database_url: str) -> None:
    """With a lease of a minute: whoever waited for one would be seen."""
    async with fleet(database_url) as nodes:
        running = [nodes.start(lease=60, batch=256) for _ in range(3)]
        await nodes.evenly(3)
        began_at = await nodes.value("select clock_timestamp()")
        for _ in range(2):
            for n in range(3):
                fresh = nodes.start(lease=60, batch=256)
                await nodes.evenly(4)
                running[n].signal(signal.SIGTERM)
                assert running[n].process.wait(30) == 0
                running[n] = fresh
                await nodes.evenly(3)
        longest = await nodes.value(
            """
            select max(extract(epoch from at - before)) from (
                select at, lag(at) over (partition by partition order by n) as before from ledger
            ) as fire
            where before > $1
            """,
            began_at,
        )
        assert longest < 5, "half a second on a quiet machine"
        assert not await nodes.violations()


async def test_postgresql_restarted_under_five_nodes_loses_none_and_doubles_nothing(
    restartable: Postgres,
) -> None:
    url = await asyncio.to_thread(restartable.create_database, "restarted")
    async with fleet(url) as nodes:
        for _ in range(5):
            nodes.start()
        await nodes.evenly(5)
        for mode in ("immediate", "fast"):
            await asyncio.to_thread(restartable.stop, mode)
            await asyncio.to_thread(restartable.start)
            await nodes.reconnect()
            back_at = await nodes.value("select clock_timestamp()")
            await nodes.so(
                "select count(distinct partition) = 256 from ledger where at > $1", back_at
            )
            await nodes.evenly(5)
        assert await nodes.value("select count(*) from sexton.node where gone_at is not null") == 0
        assert not await nodes.violations()


async def test_under_random_kills_and_stops_no_partition_ever_has_two_owners(
    database_url: str,
) -> None:
    """Five reckless nodes: each fires slowly, and goes on with what it does not own any more."""
    fate = random.Random(9)
    async with fleet(database_url) as nodes:

        def start() -> None:
            nodes.start(lease=1, reckless=0.05, slow=0.25, every=0.005, batch=64)

        for _ in range(5):
            start()
        await nodes.evenly(5)
        stopped = []
        ends_at = time.monotonic() + 9
        while time.monotonic() < ends_at:
            alive = [each for each in nodes.all if each.process.poll() is None]
            running = [each for each in alive if each not in stopped]
            victim = fate.choice(running)
            match fate.choice(["kill", "kill", "stop", "stop", "stop", "leave"]):
                case "kill":
                    victim.signal(signal.SIGKILL)
                case "leave":
                    victim.signal(signal.SIGTERM)
                case "stop":
                    victim.signal(signal.SIGSTOP)
                    stopped.append(victim)
            if len(stopped) > 2:
                stopped.pop(0).signal(signal.SIGCONT)
            if len(alive) < 6:
                start()
            await asyncio.sleep(fate.random() * 0.8)  # the adversary's own rhythm
        for each in stopped:
            each.signal(signal.SIGCONT)
        alive = [each for each in nodes.all if each.process.poll() is None]
        await nodes.so("select count(distinct node) > 8 and count(distinct epoch) > 20 from ledger")
        before = await nodes.value("select clock_timestamp()")
        await nodes.so("select count(distinct partition) = 256 from ledger where at > $1", before)
        assert not await nodes.violations()
        terms = await nodes.value("select term from sexton.leader")
        assert terms > 1
