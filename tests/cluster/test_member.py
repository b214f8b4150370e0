"""Members join, lead, leave, lose their way to PostgreSQL and find it again, by themselves."""

import asyncio
import logging
import threading
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import asyncpg
import pytest

from sexton.cluster.clock import DatabaseClock
from sexton.cluster.standing import Owned, Standing
from sexton.domain.lease import Lease
from sexton.errors import Unavailable
from sexton.store import Line, Store
from sexton.store.cluster import Beat, Ownership
from sexton.store.connection import Address

from ..faults.test_pooler import name_of
from ..support.pooler import TransactionPooler
from ..support.postgres import Postgres
from ..support.processes import until
from .fleet import Seat, Wall, table, was_ended
from .node import FIRE, TABLES

# So long that a test which passes has not waited for one to be over.
FOREVER = 600.0


# ── coming and going ────────────────────────────────────────────────────────


async def test_five_nodes_have_one_leader_and_even_shares(address: Address) -> None:
    async with table(address, FOREVER) as cluster:
        first = cluster.join()
        await cluster.settled(first)
        await until(lambda: first.member.hears)
        seats = [first, *(cluster.join() for _ in range(4))]
        await cluster.settled(*seats)
        assert sorted(seat.size for seat in seats) == [51, 51, 51, 51, 52]
        assert first.member.leads
        assert [seat.member.leads for seat in seats] == [True] + [False] * 4
        owned = [seat.member.owned for seat in seats]
        assert {each.leads for each in owned if each and each.node != 1} == {False}


async def test_ten_nodes_that_start_at_once_settle_on_one_division(address: Address) -> None:
    async with table(address) as cluster:
        seats = [cluster.join() for _ in range(10)]
        await cluster.settled(*seats)
        assert len({seat.member.owned.node for seat in seats if seat.member.owned}) == 10


async def test_a_leader_that_leaves_hands_everything_over_without_waiting_for_a_lease(
    address: Address,
) -> None:
    async with table(address, FOREVER) as cluster:
        seats = [cluster.join() for _ in range(3)]
        await cluster.settled(*seats)
        await until(lambda: all(seat.member.hears for seat in seats))
        for left in (2, 1):
            leader = next(seat for seat in seats if seat.member.leads)
            seats.remove(leader)
            await leader.member.leave()
            assert leader.told[-1] is None
            assert leader.member.owned is None
            await cluster.settled(*seats)
            assert len(seats) == left
        connection = await asyncpg.connect(address.url)
        assert await connection.fetchval("select term from sexton.leader") == 3
        left = await connection.fetch("select gone_why from sexton.node where gone_at is not null")
        assert [row[0] for row in left] == ["left", "left"]
        await connection.close()


async def test_the_node_is_told_of_every_change_once_and_in_order(address: Address) -> None:
    async with table(address, FOREVER) as cluster:
        first = cluster.join()
        await cluster.settled(first)
        second = cluster.join()
        await cluster.settled(first, second)
        await second.member.leave()
        await cluster.settled(first)
        await first.member.leave()
    sizes = [None if each is None else len(each.partitions) for each in first.told]
    assert sizes == [256, 128, 256, None]
    epochs = [each.epoch for each in first.told if each is not None]
    assert epochs == sorted(set(epochs))


async def test_without_notifications_the_heartbeat_is_enough(
    server: Postgres, database_url: str
) -> None:
    """Through a transaction pooler, where nobody hears anything."""
    async with TransactionPooler(server.socket, name_of(database_url)) as pooler:
        address = Address(pooler.url, pooler=True)
        async with table(address, 1.5) as cluster:
            seats = [cluster.join(listen=None) for _ in range(2)]
            await cluster.settled(*seats)
            await seats[0].member.leave()
            await cluster.settled(seats[1])
        assert await pooler.residue() == set()


async def test_a_member_that_was_never_started_can_be_stopped_and_left(address: Address) -> None:
    async with table(address) as cluster:
        seat = Seat(cluster.address, "idle", 3.0)
        await seat.member.stop()
        await seat.member.leave()


def test_a_member_whose_loop_is_closed_without_a_word_leaves_by_itself(database_url: str) -> None:
    address = Address(database_url)

    async def forgetful() -> Seat:
        seat = Seat(address, "forgotten", 1.0)
        seat.member.start()
        await until(lambda: seat.size == 256)
        return seat

    async def others() -> None:
        async with table(address, FOREVER) as cluster:
            await cluster.settled(cluster.join())

    seat = asyncio.run(forgetful())
    asyncio.run(others())
    seat.member._thread.join(10)
    assert not seat.member._thread.is_alive()


# ── losing the way ──────────────────────────────────────────────────────────


async def test_terminated_backends_are_replaced_and_nobody_is_lost(address: Address) -> None:
    async with table(address) as cluster:
        seats = [cluster.join() for _ in range(2)]
        await cluster.settled(*seats)
        nodes = {seat.member.owned.node for seat in seats if seat.member.owned}
        connection = await asyncpg.connect(address.url)
        for _ in range(2):
            before = await connection.fetchval("select min(renewed_at) from sexton.node")
            await connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and pid <> pg_backend_pid()"
            )
            while await connection.fetchval("select min(renewed_at) from sexton.node") == before:
                await asyncio.sleep(0.02)
        await cluster.settled(*seats)
        assert nodes == {seat.member.owned.node for seat in seats if seat.member.owned}
        await connection.close()


async def test_a_node_that_is_lost_as_soon_as_it_joins_joins_less_and_less_often(
    address: Address,
) -> None:
    connection = await asyncpg.connect(address.url)
    await connection.execute(
        "create function lose() returns trigger language plpgsql as $$ begin "
        "new.gone_at := clock_timestamp(); new.gone_why := 'lost'; return new; end $$"
    )
    await connection.execute(
        "create trigger lose before insert on sexton.node for each row execute function lose()"
    )
    async with table(address) as cluster:
        cluster.join()
        while await connection.fetchval("select count(*) from sexton.node") < 5:
            await asyncio.sleep(0.05)
        await connection.execute("drop trigger lose on sexton.node")
        while await connection.fetchval("select count(*) from sexton.ownership") < 1:
            await asyncio.sleep(0.05)
    rows = await connection.fetch("select started_at from sexton.node order by id limit 5")
    gaps = [(b[0] - a[0]).total_seconds() for a, b in pairwise(rows)]
    assert [gap >= low for gap, low in zip(gaps, (0.05, 0.1, 0.2, 0.4), strict=True)] == [True] * 4
    await connection.close()


async def test_half_open_connections_are_given_up_in_time_to_keep_the_lease(
    server: Postgres, database_url: str
) -> None:
    async with Wall(server.socket) as wall, table(Address(database_url), 5.0) as cluster:
        far = cluster.join(Address(wall.url(name_of(database_url))))
        near = cluster.join()
        await cluster.settled(far, near)
        told, accepted = len(far.told), wall.accepted
        wall.freeze()
        await until(lambda: wall.accepted > accepted)
        await cluster.settled(far, near)
        assert len(far.told) == told, "it never had to stop"


def trusted_until(seat: Seat) -> float:
    standing = seat.member._standing
    assert standing is not None
    return standing.lease.trusted_until


async def test_a_node_whose_renewals_are_blocked_stops_before_anybody_else_begins(
    server: Postgres, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.execute(TABLES)
    async with Wall(server.socket) as wall, table(Address(database_url), 1.5) as cluster:
        far = cluster.join(Address(wall.url(name_of(database_url))))
        await cluster.settled(far)
        assert far.member.leads
        near = cluster.join()
        await cluster.settled(far, near)
        stale = far.member.owned
        assert stale is not None
        over_there = await asyncpg.connect(wall.url(name_of(database_url)))
        prepared = await over_there.prepare(FIRE)
        some = list(stale.partitions)
        assert len(await prepared.fetch(stale.node, stale.epoch, some, 1, 0.0)) == len(some)

        wall.block()
        delayed = asyncio.create_task(prepared.fetch(stale.node, stale.epoch, some, 2, 0.0))
        with caplog.at_level(logging.WARNING, "sexton.cluster"):
            await until(lambda: near.size == 256)
            assert far.member.owned is None
            stopped_at = trusted_until(far)
            taken_at = await connection.fetchval(
                "select gone_at from sexton.node where id = $1", stale.node
            )
            assert stopped_at < time.monotonic() + near.member.seconds_until(taken_at)
            assert not far.member.leads
            assert near.member.leads
            assert far.told[-1] is None, "and was told so, though its thread waits for an answer"
            wall.unblock()
            assert await delayed == [], "what it sent before arrives too late"
            await cluster.settled(far, near)
        assert far.member.owned is not None
        assert far.member.owned.node != stale.node, "it joined again"
        assert "not renewed in time" in caplog.text
        assert "was declared lost" in caplog.text
        await over_there.close()
    await connection.close()


async def test_a_node_whose_membership_thread_is_stuck_stops_by_its_own_clock(
    address: Address,
) -> None:
    async with table(address, 1.0) as cluster:
        stuck, other = cluster.join(), cluster.join()
        await cluster.settled(stuck, other)
        before = stuck.member.owned
        assert before is not None
        release = threading.Event()
        stuck.gate = release.wait  # type: ignore[assignment]
        await until(lambda: stuck.member.owned is None)
        assert not stuck.member.leads
        await until(lambda: other.size == 256)
        release.set()
        await cluster.settled(stuck, other)
        assert stuck.member.owned is not None
        assert stuck.member.owned.node != before.node


async def test_a_client_that_stopped_within_its_transaction_does_not_keep_its_partitions(
    address: Address,
) -> None:
    """Behind a pooler a fire is not one message, so its locks can outlive the node's lease."""
    async with table(address, 1.0) as cluster:
        stopped, other = cluster.join(), cluster.join()
        await cluster.settled(stopped, other)
        stuck = await asyncpg.connect(address.url)
        await stuck.execute("begin; select from sexton.ownership for share")
        await stuck.execute("select from sexton.leader for share")
        await stopped.member.stop()
        await cluster.settled(other)
        assert await was_ended(stuck)


async def test_a_leader_that_vanished_while_it_renewed_does_not_keep_its_seat(
    address: Address,
) -> None:
    """A heartbeat that was never committed has its node's row locked, as if it still renewed."""
    async with table(address, 1.0) as cluster:
        leader = cluster.join()
        await cluster.settled(leader)
        other = cluster.join()
        await cluster.settled(leader, other)
        owned = leader.member.owned
        assert owned is not None
        assert leader.member.leads
        vanished = await asyncpg.connect(address.url)
        await vanished.execute("begin")
        await vanished.fetch(
            "select epoch from sexton.heartbeat($1, 0, 0, null, 256, null)", owned.node
        )
        await leader.member.stop()
        await cluster.settled(other)
        assert other.member.leads
        assert await was_ended(vanished)


async def test_a_node_that_vanished_while_it_renewed_does_not_keep_its_partitions(
    address: Address,
) -> None:
    async with table(address, 1.0) as cluster:
        leader = cluster.join()
        await cluster.settled(leader)
        other = cluster.join()
        await cluster.settled(leader, other)
        owned = other.member.owned
        assert owned is not None
        vanished = await asyncpg.connect(address.url)
        await vanished.execute("begin")
        await vanished.fetch(
            "select epoch from sexton.heartbeat($1, 0, 0, null, 256, null)", owned.node
        )
        await other.member.stop()
        await cluster.settled(leader)
        assert await was_ended(vanished)


async def test_the_only_node_ends_a_session_of_its_own_that_vanished_while_it_renewed(
    address: Address,
) -> None:
    """Its row is locked, so it cannot renew by another connection, and nobody else is there."""
    async with table(address, 1.0) as cluster:
        seat = cluster.join()
        await cluster.settled(seat)
        owned = seat.member.owned
        assert owned is not None
        vanished = await asyncpg.connect(address.url)
        await vanished.execute("begin")
        await vanished.fetch(
            "select epoch from sexton.heartbeat($1, 0, 0, null, 256, null)", owned.node
        )
        await until(lambda: seat.member.owned is None)
        await cluster.settled(seat)
        assert await was_ended(vanished)


async def test_a_loop_that_is_busy_for_more_than_a_lease_keeps_its_place(
    address: Address,
) -> None:
    async with table(address, 2.0) as cluster:
        seat = cluster.join()
        await cluster.settled(seat)
        busy_until = time.monotonic() + 2.5
        while time.monotonic() < busy_until:
            sum(range(1000))
        await asyncio.sleep(0)
        assert [each and each.node for each in seat.told] == [1]
        assert seat.size == 256


async def test_a_lost_lease_is_trusted_no_longer_than_it_was_asked_for() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    beat = Beat(now, Ownership(5, 2, (1, 2)), True, 2, 3.0, False, None)
    standing = Standing.of(7, beat, Lease(3.0, asked_at=100.0))
    assert standing.owned(102.6) == Owned(7, 5, 2, (1, 2), leads=True)
    assert standing.leads(102.6)
    assert standing.owned(102.8) is None
    assert not standing.leads(102.8)


# ── PostgreSQL goes away ────────────────────────────────────────────────────


async def test_after_an_outage_longer_than_the_lease_nobody_is_lost(restartable: Postgres) -> None:
    url = await asyncio.to_thread(restartable.create_database, "outage")
    async with table(Address(url), 2.0) as cluster:
        seats = [cluster.join() for _ in range(3)]
        await cluster.settled(*seats)
        nodes = {seat.member.owned.node for seat in seats if seat.member.owned}
        await asyncio.to_thread(restartable.stop, "immediate")
        await until(lambda: all(seat.member.owned is None for seat in seats))
        await asyncio.to_thread(restartable.start)
        await cluster.settled(*seats)
        connection = await asyncpg.connect(url)
        gone = await connection.fetchval(
            "select count(*) from sexton.node where gone_at is not null"
        )
        assert gone == 0, "everybody was silent, and that was the server's fault"
        await connection.close()
        assert nodes == {seat.member.owned.node for seat in seats if seat.member.owned}


async def test_a_leader_that_was_cut_off_itself_does_not_judge_the_others(
    server: Postgres, database_url: str
) -> None:
    """PostgreSQL never stopped, only nobody could reach it; the one comes back before the other."""
    connection = await asyncpg.connect(database_url)
    async with Wall(server.socket) as one, Wall(server.socket) as two:
        ways = [Address(wall.url(name_of(database_url))) for wall in (one, two)]
        async with table(ways[0], 2.0) as cluster:
            seats = [cluster.join(way) for way in ways]
            await cluster.settled(*seats)
            one.block()
            two.block()
            while await connection.fetchval(
                "select max(lease_until) > clock_timestamp() from sexton.node"
            ):
                await asyncio.sleep(0.02)
            one.unblock()
            await until(lambda: seats[0].member.leads)
            two.unblock()
            await cluster.settled(*seats)
            gone = await connection.fetch("select name from sexton.node where gone_at is not null")
            assert gone == []
            # One that is really lost is noticed all the same, when that has lasted for a lease.
            await seats[1].member.stop()
            await cluster.settled(seats[0])
    await connection.close()


async def test_after_a_restart_everybody_has_a_full_lease_to_come_back(
    restartable: Postgres,
) -> None:
    """Also in the eyes of a node that starts only then, and has seen no outage itself."""
    url = await asyncio.to_thread(restartable.create_database, "restart")
    line = Line(Address(url))
    cluster = Store(line, "sexton").cluster
    await cluster.register("silent", "host", 1, "test", 2.0)
    await asyncio.to_thread(restartable.stop)
    await asyncio.to_thread(restartable.start)
    await line.close()
    connection = await asyncpg.connect(url)
    await connection.execute("update sexton.node set lease_until = clock_timestamp()")
    young = "select clock_timestamp() - pg_postmaster_start_time() < interval '1.8 seconds'"
    [entry] = await cluster.roster()
    assert not entry.silent or not await connection.fetchval(young)
    while not (await cluster.roster())[0].silent:
        await asyncio.sleep(0.02)
    assert await connection.fetchval(
        "select clock_timestamp() - pg_postmaster_start_time() >= interval '2 seconds'"
    )
    await connection.close()
    await line.close()


async def test_a_member_that_starts_before_postgresql_waits_for_it(restartable: Postgres) -> None:
    url = await asyncio.to_thread(restartable.create_database, "early")
    await asyncio.to_thread(restartable.stop)
    async with table(Address(url)) as cluster:
        seat = cluster.join()
        with pytest.raises(Unavailable, match="not known here yet"):
            seat.member.database_now()
        await asyncio.to_thread(restartable.start)
        await cluster.settled(seat)


async def test_who_leaves_while_postgresql_is_away_waits_for_a_lease_at_most(
    restartable: Postgres,
) -> None:
    url = await asyncio.to_thread(restartable.create_database, "away")
    async with table(Address(url), 1.0) as cluster:
        seat = cluster.join()
        await cluster.settled(seat)
        await asyncio.to_thread(restartable.stop)
        async with asyncio.timeout(20):
            await seat.member.leave()
        assert seat.member.owned is None
    await asyncio.to_thread(restartable.start)


# ── the clock ───────────────────────────────────────────────────────────────


async def test_the_databases_clock_is_told_from_the_heartbeats(address: Address) -> None:
    async with table(address) as cluster:
        seat = cluster.join()
        await cluster.settled(seat)
        connection = await asyncpg.connect(address.url)
        before = seat.member.database_now()
        now = await connection.fetchval("select clock_timestamp()")
        after = seat.member.database_now()
        slack = timedelta(seconds=0.25)
        assert before - slack < now < after + slack
        assert abs(seat.member.seconds_until(after + timedelta(seconds=60)) - 60) < 1
        await connection.close()


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(1_800_000_000 + seconds, UTC)


def test_the_quickest_of_the_last_answers_is_believed() -> None:
    clock, began = DatabaseClock(), time.monotonic()
    clock.heard(at(10.0), began, began + 2.0)
    clock.heard(at(10.2), began, began + 0.002)
    clock.heard(at(10.9), began, began + 2.0)
    before = time.monotonic()
    since = -clock.until(at(10.2))
    assert before - began - 0.01 < since < time.monotonic() - began + 0.01


def test_a_clock_that_was_set_is_believed_at_once() -> None:
    clock, began = DatabaseClock(), time.monotonic()
    clock.heard(at(10.0), began, began + 0.002)
    clock.heard(at(7210.0), began, began + 0.5)
    assert abs(clock.until(at(7210.0))) < 1
    clock.heard(at(10.0), began, began + 0.5)
    assert abs(clock.until(at(10.0))) < 1, "also backwards"
