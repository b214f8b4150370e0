"""Elections, assignments and their races, step by step: who may, and who is refused."""

import asyncio
import random

import asyncpg
import pytest

from sexton import sql
from sexton.store.connection import Address

from .fleet import was_ended
from .hands import LEASE, HandNode, Hands, hands

WAITS = """
select count(*)
from pg_stat_activity
where datname = current_database() and wait_event_type = 'Lock' and query ~ $1
"""


async def waits(connection: asyncpg.Connection, query: str, sessions: int = 1) -> None:
    while await connection.fetchval(WAITS, query) < sessions:
        await asyncio.sleep(0.005)


async def patient(connection: asyncpg.Connection) -> None:
    """However slow this machine is, what waits for the test goes on waiting."""
    for name in ("assign", "elect"):
        await connection.execute(f"alter function sexton.{name} set lock_timeout = '30s'")


# ── who leads ───────────────────────────────────────────────────────────────


async def test_of_ten_candidates_at_once_one_is_elected(address: Address) -> None:
    async with hands(address) as cluster:
        nodes = [await cluster.join() for _ in range(10)]
        for term in range(1, 6):
            beats = await asyncio.gather(*(node.beat() for node in nodes))
            again = await asyncio.gather(*(node.beat() for node in nodes))
            assert {beat.term for beat in again} == {term}
            elected = [n for n, b in zip(nodes, beats, strict=True) if b.leads]
            assert [n for n, b in zip(nodes, again, strict=True) if b.leads] == elected
            assert len(elected) == 1
            nodes.remove(elected[0])
            cluster.clock.advance(LEASE)


async def test_a_leader_leads_on_until_somebody_else_is_elected(address: Address) -> None:
    async with hands(address) as cluster:
        leader, other = await cluster.join(), await cluster.join()
        assert (await leader.beat()).term == 1
        for _ in range(5):
            cluster.clock.advance(LEASE - 0.001)
            beat = await leader.beat()
            assert (beat.leads, beat.term, beat.leader_for) == (True, 1, LEASE)
            assert not (await other.beat()).leads
            assert not await other.cluster.elect(other.id)
        cluster.clock.advance(LEASE)
        beat = await leader.beat()
        assert (beat.leads, beat.term) == (True, 1), "nobody else wanted it"
        cluster.clock.advance(LEASE)
        beat = await other.beat()
        assert (beat.leads, beat.term) == (True, 2)
        assert not (await leader.beat()).leads


async def test_a_leader_that_renews_while_another_wants_its_place_keeps_it_or_knows(
    address: Address,
) -> None:
    """Its lease is over, and both come at the same moment: never do both believe that they lead."""
    async with hands(address) as cluster:
        old, new = await cluster.lead(1)
        for _ in range(25):
            cluster.clock.advance(LEASE)
            await new.beat(elect=False)
            beat, elected = await asyncio.gather(old.beat(elect=False), new.cluster.elect(new.id))
            assert beat.leads != elected
            if elected:
                old, new = new, old
        renewing = await asyncpg.connect(address.url)
        cluster.clock.advance(LEASE)
        await new.beat(elect=False)
        async with renewing.transaction():
            text = sql.statement("heartbeat", "sexton")
            row = await renewing.fetchrow(text, old.id, None, 0, None, 256, cluster.clock.now)
            assert row["leads"]
            async with asyncio.timeout(30):
                assert not await new.cluster.elect(new.id), "it is renewing: not waited for"
        await renewing.close()


async def test_a_node_that_is_gone_is_not_elected(address: Address) -> None:
    async with hands(address) as cluster:
        first, second = await cluster.join(), await cluster.join()
        await first.leave()
        assert await first.is_gone()
        assert (await cluster.store.cluster.leader()).node is None
        assert not await first.cluster.elect(first.id)
        assert (await second.beat()).leads


async def test_heartbeats_wait_neither_for_fires_nor_for_elections(address: Address) -> None:
    async with hands(address) as cluster:
        leader, other = await cluster.lead(1)
        holder = await asyncpg.connect(address.url)
        async with holder.transaction(), asyncio.timeout(30):
            await holder.execute("select from sexton.leader for update")
            await holder.execute("select from sexton.ownership for update")
            cluster.clock.advance(1)
            assert (await leader.beat()).leads
            cluster.clock.advance(LEASE)
            assert (await other.beat(elect=False)).leader_for <= 0
        assert (await other.beat()).leads
        await holder.close()


async def test_an_election_waits_for_what_is_done_in_the_leaders_name_and_ends_it(
    address: Address,
) -> None:
    async with hands(address) as cluster:
        old, new = await cluster.lead(1)
        mine = "select from sexton.leader where node_id = $1 and term = $2 for share"
        acting, watching = [await asyncpg.connect(address.url) for _ in range(2)]
        await patient(watching)
        transaction = acting.transaction()
        await transaction.start()
        assert len(await acting.fetch(mine, old.id, 1)) == 1
        await asyncio.gather(old.beat(), new.beat())
        third = await cluster.join()
        assert await old.balance(), "what the leader does otherwise is not held up by it"
        cluster.clock.advance(LEASE)
        await new.beat(elect=False)
        electing = asyncio.create_task(new.cluster.elect(new.id))
        await waits(watching, "elect")
        await transaction.commit()
        assert await electing
        assert await acting.fetch(mine, old.id, 1) == []
        assert len(await acting.fetch(mine, new.id, 2)) == 1
        assert await third.is_gone() is False
        await acting.close()
        await watching.close()


# ── who may assign ──────────────────────────────────────────────────────────


async def test_a_leader_of_an_older_term_assigns_nothing(address: Address) -> None:
    async with hands(address) as cluster:
        old, new = await cluster.lead(1)
        before = await cluster.complete()
        cluster.clock.advance(LEASE)
        assert (await new.beat()).leads
        assert not (await old.beat()).leads
        roster = await old.cluster.roster()
        everything = {old.id: tuple(range(256)), new.id: ()}
        assert not await old.cluster.assign(old.id, 1, roster, everything)
        assert not await old.cluster.assign(old.id, 2, roster, everything), "another's term"
        await new.leave()
        assert (await old.beat()).term == 3
        roster, nothing = await old.cluster.roster(), {old.id: ()}
        assert not await old.cluster.assign(old.id, 1, roster, nothing), "its own, but long ago"
        assert set(await cluster.complete()) < set(before)


async def test_a_leader_whose_lease_is_over_assigns_nothing_even_if_nobody_else_leads(
    address: Address,
) -> None:
    async with hands(address) as cluster:
        (leader,) = await cluster.lead()
        await cluster.join()
        cluster.clock.advance(LEASE)
        assert not await leader.balance()
        assert list(await cluster.shares()) == [leader.id]


async def test_a_plan_on_a_roster_that_has_changed_is_refused_whole(address: Address) -> None:
    async with hands(address) as cluster:
        leader, other = await cluster.lead(1)
        assert leader.last is not None
        seen = await leader.cluster.roster()
        await other.leave()
        before = await cluster.complete()
        plan = {leader.id: tuple(range(100)), other.id: tuple(range(100, 256))}
        assert not await leader.cluster.assign(leader.id, leader.last.term, seen, plan)
        now = await leader.cluster.roster()
        assert not await leader.cluster.assign(leader.id, leader.last.term, now, plan), (
            "it has left"
        )
        assert await cluster.complete() == before


async def test_a_plan_on_older_shares_is_refused_whole(address: Address) -> None:
    async with hands(address) as cluster:
        leader, other = await cluster.lead(1)
        assert leader.last is not None
        seen = await leader.cluster.roster()
        await cluster.join()
        assert await leader.balance()
        before = await cluster.complete()
        plan = {leader.id: tuple(range(128)), other.id: tuple(range(128, 256))}
        assert not await leader.cluster.assign(leader.id, leader.last.term, seen, plan)
        assert await cluster.complete() == before


async def test_of_two_plans_at_once_on_the_same_roster_one_is_made_true(address: Address) -> None:
    """The leader gave up waiting and asked again, while the server was still at the first."""
    async with hands(address) as cluster:
        leader, other = await cluster.lead(1)
        assert leader.last is not None
        seen, term = await leader.cluster.roster(), leader.last.term
        one = {leader.id: tuple(range(100)), other.id: tuple(range(100, 256))}
        two = {leader.id: tuple(range(200)), other.id: tuple(range(200, 256))}
        firing, watching = [await asyncpg.connect(address.url) for _ in range(2)]
        await patient(watching)
        async with firing.transaction():
            await firing.execute("select from sexton.ownership for share")
            first = asyncio.create_task(leader.cluster.assign(leader.id, term, seen, one))
            await waits(watching, "assign")
            second = asyncio.create_task(other.cluster.assign(leader.id, term, seen, two))
            await waits(watching, "assign", 2)
        assert [await first, await second] == [True, False]
        assert await cluster.shares() == one
        await firing.close()
        await watching.close()


async def test_who_joins_between_the_look_and_the_change_is_served_next(address: Address) -> None:
    async with hands(address) as cluster:
        (leader,) = await cluster.lead()
        second = await cluster.join()
        assert leader.last is not None
        seen = await leader.cluster.roster()
        third = await cluster.join()
        halves = {leader.id: tuple(range(128)), second.id: tuple(range(128, 256))}
        assert await leader.cluster.assign(leader.id, leader.last.term, seen, halves)
        assert (await leader.beat()).restless, "somebody has no share yet"
        assert await leader.balance()
        assert set(await cluster.complete()) == {leader.id, second.id, third.id}
        assert not (await leader.beat()).restless
        assert not await leader.balance(), "nothing to do"


# ── who is lost ─────────────────────────────────────────────────────────────


async def test_a_silent_node_is_lost_and_its_partitions_move_at_once(address: Address) -> None:
    async with hands(address) as cluster:
        leader, silent, other = await cluster.lead(2)
        before = await cluster.complete()
        epoch = (await other.owns()).epoch
        stale = (await silent.owns()).epoch
        assert await silent.fire(stale) == len(before[silent.id])
        cluster.clock.advance(LEASE - 1)
        beats = await leader.beat(), await other.beat()
        assert not beats[0].restless
        assert beats[0].silence_in == 1.0, "so a leader knows when to look"
        cluster.clock.advance(1)
        assert (await leader.beat()).restless
        assert await leader.balance()
        after = await cluster.complete()
        assert set(after) == {leader.id, other.id}
        assert set(before[other.id]) < set(after[other.id]), "what it had it keeps"
        assert (await other.owns()).epoch > epoch
        assert await silent.is_gone()
        assert await silent.fire(stale) == 0, "refused"
        assert await other.fire(epoch) == 0, "an epoch of before is refused too"
        [row] = await cluster.rows("select gone_why from sexton.node where id = $1", silent.id)
        assert row["gone_why"] == "lost"


async def test_who_renewed_since_the_look_is_not_lost(address: Address) -> None:
    async with hands(address) as cluster:
        leader, late = await cluster.lead(1)
        cluster.clock.advance(LEASE)
        assert (await leader.beat()).leads
        assert leader.last is not None
        seen = await leader.cluster.roster()
        assert [entry.silent for entry in seen] == [False, True]
        everything = {leader.id: tuple(range(256))}
        await late.beat()
        assert not await leader.cluster.assign(
            leader.id, leader.last.term, seen, everything, lost=[late.id]
        )
        assert not await late.is_gone()
        assert len(await cluster.complete()) == 2


async def test_who_is_renewing_at_this_moment_is_not_lost_and_not_waited_for(
    address: Address,
) -> None:
    async with hands(address) as cluster:
        leader, late = await cluster.lead(1)
        cluster.clock.advance(LEASE)
        await leader.beat()
        renewing = await asyncpg.connect(address.url)
        async with renewing.transaction():
            text = sql.statement("heartbeat", "sexton")
            assert await renewing.fetch(text, late.id, None, 0, None, 256, cluster.clock.now)
            async with asyncio.timeout(30):
                assert not await leader.balance()
        assert not await late.is_gone()
        await renewing.close()


async def test_the_silent_keep_what_they_have_while_nobody_may_judge(address: Address) -> None:
    async with hands(address) as cluster:
        leader, silent = await cluster.lead(1)
        epoch = (await silent.owns()).epoch
        cluster.clock.advance(LEASE)
        await leader.beat()
        assert not await leader.balance(judge=False)
        fresh = await cluster.join()
        assert await leader.balance(judge=False)
        shares = await cluster.shares()
        assert [len(shares[node.id]) for node in (leader, silent, fresh)] == [64, 128, 64]
        assert (await silent.owns()).epoch == epoch, "not even touched"
        assert (await leader.beat()).restless, "uneven"
        assert await leader.balance()
        assert len(await cluster.complete()) == 3


async def test_a_node_without_a_share_can_be_lost_too(address: Address) -> None:
    async with hands(address) as cluster:
        (leader,) = await cluster.lead()
        young = await cluster.join()
        cluster.clock.advance(LEASE)
        await leader.beat()
        assert await leader.balance()
        assert await young.is_gone()
        assert list(await cluster.complete()) == [leader.id]


# ── leaving ─────────────────────────────────────────────────────────────────


async def test_whoever_leaves_gives_everything_to_the_others_without_a_leader(
    address: Address,
) -> None:
    async with hands(address) as cluster:
        leader, second, third = await cluster.lead(2)
        epoch = (await leader.owns()).epoch
        assert await leader.leave()
        assert set(await cluster.complete()) == {second.id, third.id}
        assert await leader.fire(epoch) == 0
        seat = await cluster.store.cluster.leader()
        assert (seat.node, seat.leads) == (leader.id, False), "resigned"
        beat = await third.beat()
        assert (beat.leads, beat.term) == (True, 2)
        assert not await leader.leave(), "it has left already"


async def test_the_silent_get_nothing_from_one_who_leaves(address: Address) -> None:
    async with hands(address) as cluster:
        leader, silent, third = await cluster.lead(2)
        before = await cluster.complete()
        cluster.clock.advance(LEASE)
        await asyncio.gather(leader.beat(), third.beat())
        await leader.leave()
        shares = await cluster.shares()
        assert shares[silent.id] == before[silent.id], "nor is anything taken from them"
        assert len(shares[third.id]) == 256 - len(before[silent.id])


async def test_the_last_one_to_leave_leaves_nothing_owned(address: Address) -> None:
    async with hands(address) as cluster:
        (leader,) = await cluster.lead()
        assert await leader.leave()
        assert await cluster.shares() == {}
        (successor,) = await cluster.lead()
        assert list(await cluster.complete()) == [successor.id]


async def test_ten_that_leave_at_once_leave_everything_to_the_eleventh(address: Address) -> None:
    async with hands(address) as cluster:
        leader, *others = await cluster.lead(10)
        await asyncio.gather(*(node.leave() for node in (leader, *others[:-1])))
        assert list(await cluster.complete()) == [others[-1].id]


# ── races with a fire ───────────────────────────────────────────────────────


async def test_taking_a_partition_away_waits_for_the_fire_that_runs_and_refuses_the_next(
    address: Address,
) -> None:
    async with hands(address) as cluster:
        leader, loser = await cluster.lead(1)
        stale = (await loser.owns()).epoch
        share = (await cluster.complete())[loser.id]
        firing = await asyncpg.connect(address.url)
        watching = await asyncpg.connect(address.url)
        await patient(watching)
        transaction = firing.transaction()
        await transaction.start()
        running = await firing.fetch(
            "select from sexton.ownership where node_id = $1 and epoch = $2 for share",
            *(loser.id, stale),
        )
        assert len(running) == 1
        leaving = asyncio.create_task(loser.leave())
        await waits(watching, "assign")
        late = asyncio.create_task(loser.fire(stale))
        epoch = (await leader.owns()).epoch
        assert await leader.fire(epoch, share) == 0, "not the next owner's yet"
        await transaction.commit()
        assert await leaving
        assert await late in (0, len(share)), "before the change or not at all"
        assert await loser.fire(stale) == 0
        epoch = (await leader.owns()).epoch
        assert await leader.fire(epoch, share) == len(share)
        epochs = await cluster.rows(
            "select distinct epoch, node from ledger where partition = $1 order by epoch", share[0]
        )
        assert epochs[-1]["node"] == leader.id
        await firing.close()
        await watching.close()


async def test_a_session_that_holds_up_the_cluster_is_ended_after_a_lease_and_no_other(
    address: Address,
) -> None:
    async with hands(address) as cluster:
        leader, stopped = await cluster.lead(1)
        stuck, reader = [await asyncpg.connect(address.url) for _ in range(2)]
        await reader.execute("begin; select from sexton.ownership")
        await stuck.execute("begin; select from sexton.ownership for share")
        cluster.clock.advance(LEASE)
        await leader.beat()
        with pytest.raises(asyncpg.LockNotAvailableError):
            await leader.balance()
        assert len(await cluster.complete()) == 2, "nothing was done by halves"
        assert not await stopped.is_gone()
        cluster.clock.advance(LEASE)
        await leader.beat()
        assert await leader.cluster.evict(3600) == []
        assert len(await leader.cluster.evict(0)) == 1
        assert await leader.balance()
        assert await stopped.is_gone()
        assert await was_ended(stuck)
        assert await reader.fetchval("select 1") == 1
        await reader.close()


async def test_whatever_comes_nothing_is_owned_twice_and_epochs_only_grow(
    address: Address,
) -> None:
    """Random steps of random nodes, many at the same time; then peace, and an even division."""
    fate = random.Random(20260115)
    async with hands(address) as cluster:
        nodes: list[HandNode] = [await cluster.join() for _ in range(4)]
        epochs: dict[int, int] = {}

        async def step(node: HandNode) -> None:
            if await node.is_gone():
                return
            beat = await node.beat()
            if fate.random() < 0.1:
                await node.leave()
            elif beat.leads:
                await node.balance(judge=fate.random() < 0.8)
            elif beat.ownership is not None:
                await node.fire(beat.ownership.epoch)

        for _ in range(60):
            await asyncio.gather(*(step(node) for node in fate.sample(nodes, fate.randint(1, 4))))
            cluster.clock.advance(fate.random())
            if fate.random() < 0.3 or len(nodes) < 4:
                nodes.append(await cluster.join())
            await cluster.shares()
            for row in await cluster.rows("select node_id, epoch from sexton.ownership"):
                assert row["epoch"] >= epochs.get(row["node_id"], 0)
                epochs[row["node_id"]] = row["epoch"]
        await peace(cluster, nodes)
        assert len(await cluster.complete()) >= 1
        back = await cluster.rows(
            """
            select * from (
                select epoch, lag(epoch) over (partition by partition order by n) as before
                from ledger) as fire
            where epoch < before
            """
        )
        assert not back


async def peace(cluster: Hands, nodes: list[HandNode]) -> None:
    """Everybody who lives says so, and the leader looks after the rest."""
    cluster.clock.advance(LEASE)
    while True:
        nodes[:] = [node for node in nodes if not await node.is_gone()] or [await cluster.join()]
        for node in nodes:
            if (await node.beat()).leads and not await node.balance():
                return


# ── looking ─────────────────────────────────────────────────────────────────


async def test_anyone_can_look_at_the_nodes_and_their_leader(address: Address) -> None:
    async with hands(address) as cluster:
        leader, other = await cluster.lead(1)
        fired_at = cluster.clock.now
        await other.cluster.heartbeat(other.id, -7200.0, 12, fired_at)
        first, second = await cluster.store.cluster.nodes()
        assert (first.id, first.leads, first.partitions, first.lease_left) == (
            *(leader.id, True, 128, LEASE),
        )
        assert (second.id, second.leads, second.skew, second.fired, second.last_fire_at) == (
            *(other.id, False, -7200.0, 12, fired_at),
        )
        assert (second.name, second.host, second.pid, second.version) == (
            *("hand:2", "host", 1, "test"),
        )
        seat = await cluster.store.cluster.leader()
        assert (seat.node, seat.term, seat.leads) == (leader.id, 1, True)


async def test_nodes_that_the_history_no_longer_names_are_forgotten(address: Address) -> None:
    async with hands(address) as cluster:
        old = await cluster.join()
        await old.leave()
        cluster.clock.advance("90d")
        recent = await cluster.join()
        assert len(await cluster.rows("select from sexton.node")) == 2
        cluster.clock.advance("2d")
        new = await cluster.join()
        ids = [row["id"] for row in await cluster.rows("select id from sexton.node order by id")]
        assert ids == [recent.id, new.id], "one that lives is never forgotten"
