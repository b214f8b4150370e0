"""Jobs that wait for another, and that somebody else has locked when that one ends."""

from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from sexton.domain.job import Claim, NewJob
from sexton.domain.outcome import Cancelled, Failed
from sexton.domain.transitions import SUCCEEDED
from sexton.flow import let_go, reap
from sexton.flow.settle import Settler
from sexton.store import Store
from sexton.store.connection import Address

from .hands import Hands, hands
from .test_overlap import waiting

ONE_TRY = """
insert into sexton.task (
    name, queue, priority, max_attempts, retry_base, retry_factor, retry_cap, declared_at)
select schedule.task, 'default', 0, 1, 1, 1, 1, now() from sexton.schedule where id = $1
"""


WAITS = """
insert into sexton.job (id, task, queue, payload, due_at, schedule_id, fire_at, after_job)
select waits.id, 't', 'default', '{}', '3000-01-01', 1, $3, waits.after
from unnest($1::bigint[], $2::bigint[]) as waits (id, after)
"""


async def locks(node: Hands, job: int) -> asyncpg.Connection:
    """Somebody's session, as one of an operator who looks at what waits."""
    stranger = await node.connect()
    await stranger.execute("begin")
    await stranger.fetch("select from sexton.job where id = $1 for update", job)
    return stranger


async def queued(node: Hands, count: int = 2) -> tuple[int, list[int]]:
    """A schedule whose first job is due, and its other jobs, each of which waits for the last."""
    id = await node.add(node.now, policy={"overlap": "queue_all"})
    await node.fire()
    await node.fire_until(node.at(count - 1))
    return id, [job["id"] for job in await node.jobs(id)]


async def alone(node: Hands, claim: Claim) -> None:
    assert await node.end(claim)


async def batched(node: Hands, claim: Claim) -> None:
    assert await node.store.jobs.settle_succeeded([claim.id], [claim.fence]) == {claim.id}


async def own(node: Hands, claim: Claim) -> None:
    assert await node.value(
        "select sexton.succeed($1, $2, null, $3)", claim.id, claim.fence, node.now
    )


async def cancelled(node: Hands, claim: Claim) -> None:
    assert await node.end(claim, Cancelled())


async def dead(node: Hands, claim: Claim) -> None:
    assert await node.end(claim, Failed("no", permanent=True))


@pytest.mark.parametrize("end", [alone, batched, own, cancelled, dead])
async def test_a_locked_follower_does_not_keep_the_job_before_it_from_its_end(
    end: Callable[[Hands, Claim], Awaitable[None]], address: Address
) -> None:
    async with hands(address) as node:
        id, [first, second, third] = await queued(node, 3)
        [running] = await node.claim()
        stranger = await locks(node, second)
        await node.rows("set lock_timeout = '50ms'")
        await end(node, running)
        assert waiting(await node.jobs(id)) == [(second, first), (third, second)]
        assert await node.let_go() == 0, "it is still locked"
        await stranger.execute("rollback")
        assert await node.let_go() == 1
        [follower] = await node.claim()
        assert follower.id == second
        assert waiting(await node.jobs(id)) == [(third, second)], "nobody is started early"
        assert await node.let_go() == 0


async def test_a_locked_follower_keeps_no_other_from_being_let_go(address: Address) -> None:
    async with hands(address) as node:
        for _ in range(5):
            await node.add(node.now, policy={"overlap": "queue_one"})
        await node.fire()
        running = await node.claim()
        node.clock.advance(1)
        firing = Store(node.line(), "sexton", node.clock)
        batch = await node.plan()
        await firing.source.fetch("begin")
        assert (await firing.due.fire(node.guard, "due", batch)).jobs == 5
        for each in running:
            await node.end(each)
        await firing.source.fetch("commit")
        locked = await node.value("select min(id) from sexton.job")
        stranger = await locks(node, locked)
        await node.rows("set lock_timeout = '50ms'")
        assert await node.let_go() == 4
        assert locked not in {claim.id for claim in await node.claim()}
        await stranger.execute("rollback")
        assert await node.let_go() == 1
        assert [claim.id for claim in await node.claim()] == [locked]


async def test_a_locked_follower_keeps_no_reaper_from_what_a_lost_worker_held(
    address: Address,
) -> None:
    """On its last try: it dies, and whoever waits for it would be let go."""
    async with hands(address) as node:
        id = await node.add(node.now, policy={"overlap": "queue_all"})
        await node.rows(ONE_TRY, id)
        await node.fire()
        doomed = await node.store.workers.register("doomed", ["default"], "test", 2.0)
        for _ in range(20):
            await node.store.jobs.enqueue_one(NewJob("other", "{}", queue="default"))
        [first, *_] = claims = await node.claim(doomed)
        await node.fire_until(node.at(1))
        [(follower, before)] = waiting(await node.jobs(id))
        assert before in {claim.id for claim in claims}
        stranger = await locks(node, follower)
        await node.rows("set lock_timeout = '50ms'")
        node.clock.advance(5)
        assert await reap.run_once(node.store) == len(claims) == 21
        assert first.id == before
        await stranger.execute("rollback")
        assert await node.let_go() == 1
        assert follower in {claim.id for claim in await node.claim()}


async def test_a_locked_follower_slows_no_settlement(address: Address) -> None:
    async with hands(address) as node:
        _, [first, second] = await queued(node)
        for _ in range(9):
            await node.store.jobs.enqueue_one(NewJob("other", "{}", queue="default"))
        claims = await node.claim()
        await locks(node, second)
        await node.rows("set lock_timeout = '50ms'")
        settled: set[int] = set()
        settler = Settler(node.store, lambda _, ours: settled.update(ours))
        for claim in claims:
            settler.add(claim, SUCCEEDED)
        await settler.run_once()
        assert settled == {claim.id for claim in claims} >= {first}
        assert (settler.unsettled, settler.batches) == (0, 1)


async def test_who_is_locked_while_the_one_before_it_in_line_is_cancelled_keeps_its_turn(
    address: Address,
) -> None:
    async with hands(address) as node:
        id, [first, second, third] = await queued(node, 3)
        [running] = await node.claim()
        stranger = await locks(node, third)
        await node.rows("set lock_timeout = '50ms'")
        assert await node.store.jobs.cancel([second]) == {second: None}
        assert waiting(await node.jobs(id)) == [(third, second)]
        await stranger.execute("rollback")
        assert await node.let_go() == 1
        assert waiting(await node.jobs(id)) == [(third, first)], "the first still runs"
        await node.end(running)
        assert [claim.id for claim in await node.claim()] == [third]


async def wait_in_line(node: Hands, after: dict[int, int]) -> None:
    """Jobs, each with the one that it waits for."""
    await node.rows(WAITS, [*after], [*after.values()], node.now)


async def test_whoever_is_forgotten_among_very_many_that_wait_is_found_in_the_looks_that_follow(
    address: Address,
) -> None:
    async with hands(address) as node:
        ended, first = [
            (await node.store.jobs.enqueue_one(NewJob("t", "{}", queue="default"))).id
            for _ in range(2)
        ]
        await node.end((await node.claim())[0])
        last = first + 2 * 2 * let_go.SLICES  # two looks, by two at a time
        await wait_in_line(node, {id: id - 1 for id in range(first + 1, last)})
        await wait_in_line(node, {last + 2: last + 1})
        letting_go = let_go.LettingGo(node.store, at_once=2)
        assert await letting_go.run_once() == 0, "the first half"
        await wait_in_line(node, {last + 3: ended})
        assert await letting_go.run_once() == 1, "the other half, and its last"
        assert [claim.id for claim in await node.claim()] == [last + 2]
        assert await letting_go.run_once() == 1, "from the beginning"
        assert [claim.id for claim in await node.claim()] == [last + 3]


async def test_many_that_wait_for_the_same_job_are_all_let_go(address: Address) -> None:
    """Where a slice ends there are others, who are not passed over."""
    async with hands(address) as node:
        await wait_in_line(node, dict.fromkeys(range(1000, 1000 + 3 * let_go.SLICES), 7))
        assert await let_go.LettingGo(node.store, at_once=1).run_once() == 3 * let_go.SLICES
