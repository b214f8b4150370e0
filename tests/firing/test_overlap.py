"""A fire while jobs of its schedule live: judged by those jobs, in the fire's own statement."""

import asyncio
from typing import Any

from sexton.domain.outcome import Cancelled, Failed
from sexton.flow import reap
from sexton.store import Store
from sexton.store.connection import Address

from .hands import Hands, hands

FAR_AWAY = 3000


def waiting(jobs: list[Any]) -> list[tuple[int, int]]:
    """Each that waits, with the one it waits for."""
    found = [(job["id"], job["after_job"]) for job in jobs if job["after_job"] is not None]
    assert all(job["due_at"].year == FAR_AWAY for job in jobs if job["after_job"] is not None)
    return found


async def test_skip_makes_no_job_while_one_lives_and_says_so(address: Address) -> None:
    async with hands(address) as node:
        id = await node.add(node.now)
        await node.fire()
        await node.fire_until(node.at(2))
        [claim] = await node.claim()
        await node.fire_until(node.at(1))
        await node.end(claim)
        await node.fire_until(node.at(1))
        assert await node.decisions(id) == ["fired", "overlap", "overlap", "overlap", "fired"]
        assert await node.value("select count(job_id) from sexton.fire") == 2
        assert len(await node.jobs(id)) == 1


async def test_a_job_between_two_attempts_lives(address: Address) -> None:
    async with hands(address) as node:
        id = await node.add(node.now)
        await node.fire()
        [claim] = await node.claim()
        await node.end(claim, Failed("no", retry_in=1.5), tries=2)
        await node.fire_until(node.at(2))
        [again] = await node.claim()
        await node.end(again, Failed("no"), tries=2)
        assert await node.value("select count(*) from sexton.dead") == 1
        await node.fire_until(node.at(1))
        assert await node.decisions(id) == ["fired", "overlap", "overlap", "fired"]


async def test_what_a_dead_worker_holds_lives_until_it_is_reaped_and_no_longer(
    address: Address,
) -> None:
    async with hands(address) as node:
        id = await node.add(node.now)
        await node.rows(
            "insert into sexton.task values "
            "('t', 'default', 0, 1, 1, 1, 1, null, null, null, now())"
        )
        worker = await node.store.workers.register("doomed", ["default"], "test", 2.5)
        await node.fire()
        [_] = await node.claim(worker)
        await node.fire_until(node.at(3))
        assert await node.decisions(id) == ["fired", *["overlap"] * 3], "its lease is over"
        assert await reap.run_once(node.store) == 1
        await node.fire_until(node.at(1))
        assert await node.decisions(id) == ["fired", *["overlap"] * 3, "fired"]


async def test_a_reaped_job_that_is_to_be_tried_again_lives_on(address: Address) -> None:
    async with hands(address) as node:
        id = await node.add(node.now)
        worker = await node.store.workers.register("doomed", ["default"], "test", 0.5)
        await node.fire()
        [_] = await node.claim(worker)
        node.clock.advance(1)
        assert await reap.run_once(node.store) == 1
        await node.fire()
        assert await node.decisions(id) == ["fired", "overlap"]


async def test_queue_one_lets_one_wait_until_the_other_has_ended(address: Address) -> None:
    async with hands(address) as node:
        id = await node.add(node.now, policy={"overlap": "queue_one"})
        await node.fire()
        [running] = await node.claim()
        await node.fire_until(node.at(3))
        assert await node.decisions(id) == ["fired", "fired", "overlap", "overlap"]
        first, second = await node.jobs(id)
        assert first["id"] == running.id
        assert waiting([second]) == [(second["id"], first["id"])]
        assert await node.claim() == []
        await node.end(running)
        [follower] = await node.claim()
        assert follower.id == second["id"]
        assert (await node.jobs(id))[0]["due_at"] == node.now
        await node.fire_until(node.at(1))
        assert (await node.decisions(id))[-1] == "fired"
        assert waiting(await node.jobs(id)) == [((await node.jobs(id))[1]["id"], follower.id)]


async def test_a_waiting_job_waits_for_retries_too(address: Address) -> None:
    async with hands(address) as node:
        id = await node.add(node.now, policy={"overlap": "queue_one"})
        await node.fire()
        [running] = await node.claim()
        await node.fire_until(node.at(1))
        await node.end(running, Failed("no", retry_in=0), tries=2)
        [again] = await node.claim()
        assert again.id == running.id
        await node.end(again, Failed("no"), tries=2)
        [follower] = await node.claim()
        assert follower.id == (await node.jobs(id))[0]["id"] != running.id


async def test_queue_all_keeps_the_order_up_to_its_cap(address: Address) -> None:
    async with hands(address) as node:
        policy = {"overlap": "queue_all", "max_queued": 3}
        id = await node.add(node.now, policy=policy)
        await node.fire()
        await node.fire_until(node.at(5))
        assert await node.decisions(id) == [*["fired"] * 4, "overlap", "overlap"]
        ids = [job["id"] for job in await node.jobs(id)]
        assert waiting(await node.jobs(id)) == list(zip(ids[1:], ids, strict=False))
        ran = []
        for _ in range(4):
            [claim] = await node.claim()
            ran.append(claim.id)
            await node.end(claim)
        assert ran == ids
        await node.fire_until(node.at(1))
        [job] = await node.jobs(id)
        assert (job["after_job"], job["due_at"]) == (None, node.now)


async def test_cancelling_one_in_the_middle_hands_its_place_on(address: Address) -> None:
    async with hands(address) as node:
        id = await node.add(node.now, policy={"overlap": "queue_all"})
        await node.fire()
        [running] = await node.claim()
        await node.fire_until(node.at(3))
        first, second, third, fourth = (job["id"] for job in await node.jobs(id))
        assert first == running.id
        await node.store.jobs.cancel([second])
        assert waiting(await node.jobs(id)) == [(third, first), (fourth, third)]
        await node.fire_until(node.at(1))
        assert len(await node.jobs(id)) == 4, "and there is room for another"
        await node.end(running)
        assert [claim.id for claim in await node.claim()] == [third]


async def test_allow_is_without_a_limit_or_up_to_max_running(address: Address) -> None:
    async with hands(address) as node:
        free = await node.add(node.now, policy={"overlap": "allow"})
        three = await node.add(node.now, policy={"overlap": "allow", "max_running": 3})
        await node.fire()
        await node.fire_until(node.at(4))
        assert await node.decisions(free) == ["fired"] * 5
        assert await node.decisions(three) == [*["fired"] * 3, "overlap", "overlap"]
        assert waiting(await node.jobs(three)) == []
        claims = await node.claim()
        second = (await node.jobs(three))[1]["id"]
        await node.end(next(claim for claim in claims if claim.id == second))
        await node.fire_until(node.at(2))
        assert (await node.decisions(three))[-2:] == ["fired", "overlap"]


async def test_replace_asks_the_running_one_to_end_and_runs_after_it(address: Address) -> None:
    async with hands(address) as node:
        id = await node.add(node.now, policy={"overlap": "replace"})
        await node.fire()
        [running] = await node.claim()
        await node.fire_until(node.at(1))
        assert node.replaced == [running.id]
        first, second = await node.jobs(id)
        assert first["cancel_requested_at"] == node.now
        assert waiting([second]) == [(second["id"], running.id)]
        await node.fire_until(node.at(2))
        assert await node.decisions(id) == ["fired"] * 4
        jobs = await node.jobs(id)
        assert len(jobs) == 2, "of those that wait only the newest is left"
        assert waiting(jobs) == [(jobs[1]["id"], running.id)]
        await node.end(running, Cancelled())
        [claim] = await node.claim()
        assert claim.id == jobs[1]["id"]


async def test_replace_of_one_that_has_not_begun_takes_its_place_at_once(address: Address) -> None:
    async with hands(address) as node:
        id = await node.add(node.now, policy={"overlap": "replace"})
        await node.fire()
        [first] = await node.jobs(id)
        await node.fire_until(node.at(1))
        [second] = await node.jobs(id)
        assert node.replaced == [first["id"]]
        assert (second["after_job"], second["due_at"]) == (None, node.now)
        assert second["id"] != first["id"]


async def test_a_job_made_while_the_one_before_it_ended_is_let_go(address: Address) -> None:
    """The fire saw a job that lived, the settlement saw nobody who waited for it."""
    async with hands(address) as node:
        id = await node.add(node.now, policy={"overlap": "queue_one"})
        await node.fire()
        [running] = await node.claim()
        node.clock.advance(1)
        batch = await node.plan()
        firing = Store(node.line(), "sexton", node.clock)
        await firing.source.fetch("begin")
        assert (await firing.due.fire(node.guard, "due", batch)).jobs == 1
        assert await node.end(running)
        await firing.source.fetch("commit")
        [follower] = await node.jobs(id)
        assert waiting([follower]) == [(follower["id"], running.id)]
        assert await node.let_go() == 1
        assert [claim.id for claim in await node.claim()] == [follower["id"]]
        assert await node.let_go() == 0


async def test_whoever_waits_for_a_live_job_is_not_let_go(address: Address) -> None:
    async with hands(address) as node:
        id = await node.add(node.now, policy={"overlap": "queue_all"})
        await node.fire()
        await node.claim()
        await node.fire_until(node.at(2))
        assert await node.let_go() == 0
        assert len(waiting(await node.jobs(id))) == 2


async def test_followers_are_let_go_however_the_job_before_them_ended(address: Address) -> None:
    """Alone, in a batch, in the task's own transaction, cancelled, dead."""
    async with hands(address) as node:
        ids = [await node.add(node.now, policy={"overlap": "queue_one"}) for _ in range(5)]
        await node.fire()
        alone, batched, own, cancelled, dead = await node.claim()
        await node.fire_until(node.at(1))
        assert await node.claim() == []
        await node.end(alone)
        await node.store.jobs.settle_succeeded([batched.id], [batched.fence])
        await node.rows("select sexton.succeed($1, $2, null, $3)", own.id, own.fence, node.now)
        await node.end(cancelled, Cancelled())
        await node.end(dead, Failed("no", permanent=True))
        claims = await node.claim()
        assert len(claims) == len(ids)
        assert {claim.id for claim in claims} == {
            job["id"] for id in ids for job in await node.jobs(id)
        }


async def test_settling_and_firing_at_the_same_moment_leave_nobody_behind(address: Address) -> None:
    async with hands(address) as node:
        id = await node.add(node.now, policy={"overlap": "queue_one"})
        await node.fire()
        settling = Hands(address, node._stack)
        settling.clock, settling.worker = node.clock, node.worker
        settling.store = Store(settling.line(), "sexton", node.clock)
        ran = 0
        for _ in range(40):
            claims = await settling.claim()
            node.clock.advance(1)
            await asyncio.gather(node.fire(), *(settling.end(claim) for claim in claims))
            ran += len(claims)
            await node.let_go()
        while claims := await settling.claim():
            for claim in claims:
                await settling.end(claim)
            ran += len(claims)
        decisions = await node.decisions(id)
        assert ran == decisions.count("fired")
        assert len(decisions) == 41
        assert await node.jobs(id) == []
