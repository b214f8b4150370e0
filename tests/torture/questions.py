"""The same question to PostgreSQL and to the model, about a random state: both answers."""

import dataclasses
import random
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from sexton.domain.change import resumed, stopped, updated
from sexton.domain.fires import LATE_AFTER
from sexton.domain.job import PRIORITIES, Claim
from sexton.domain.outcome import PLAIN_SUCCESS, Failed, Lost, Outcome, Released, Snoozed
from sexton.domain.partition import EVERY, spread
from sexton.domain.transitions import settle
from sexton.flow.decide import decide_due, decide_late
from sexton.flow.let_go import LettingGo
from sexton.store.due import DueRow, Guard
from sexton.store.jobs import BEGINNING
from sexton.torture.simulate import job_tables, rules
from sexton.torture.simulate.tables import Refused

from .twin import Twin

Question = Callable[[Twin, random.Random], Awaitable[tuple[Any, Any]]]


def _node(twin: Twin, dice: random.Random) -> int:
    """Mostly one that lives."""
    return dice.choice([*twin.model.nodes] * 5 + [7])


async def _heartbeat(twin: Twin, dice: random.Random) -> tuple[Any, Any]:
    node = _node(twin, dice)
    real = await twin.store.cluster.heartbeat(node, None, 0, None)
    return real, twin.model.heartbeat(node)


async def _register_node(twin: Twin, dice: random.Random) -> tuple[Any, Any]:
    id, now = await twin.store.cluster.register("new", "here", 1, "test", 3.0)
    return (id, now.timestamp()), twin.model.register_node(3.0)


async def _register_worker(twin: Twin, dice: random.Random) -> tuple[Any, Any]:
    id = await twin.store.workers.register("new", ["default"], "test", 3.0)
    gone = dice.randint(1, 4)
    await twin.store.workers.leave(gone)
    twin.model.leave(gone)
    return id, twin.model.register_worker(3.0)


async def _elect(twin: Twin, dice: random.Random) -> tuple[Any, Any]:
    node = _node(twin, dice)
    return await twin.store.cluster.elect(node), twin.model.elect(node)


async def _roster(twin: Twin, dice: random.Random) -> tuple[Any, Any]:
    real = await twin.store.cluster.roster()
    named = [dataclasses.replace(each, name=str(each.node)) for each in real]
    return named, twin.model.roster()


async def _assign(twin: Twin, dice: random.Random) -> tuple[Any, Any]:
    model = twin.model
    seen = model.roster()
    if seen and dice.random() < 0.15:
        seen.pop()
    nodes = [*model.nodes] if dice.random() < 0.9 else [1, 2]
    silent = [id for id, row in model.nodes.items() if row.lease_until <= twin.now]
    lost = silent if dice.random() < 0.7 else dice.sample(nodes, dice.randint(0, len(nodes)))
    leads = model.leader.node if model.leader.node in model.nodes and dice.random() < 0.8 else None
    node = leads or dice.choice([*model.nodes, 8])
    term = dice.choice([model.leader.term, model.leader.term, model.leader.term + 1, None])
    owned = {id: row.partitions for id, row in model.ownership.items()}
    gone = {*lost, node} if term is None else {*lost}
    shares = spread(owned, [id for id in nodes if id not in gone], EVERY)
    real = await twin.store.cluster.assign(node, term, seen, shares, lost)
    return real, model.assign(node, term, seen, shares, lost)


def _guard(twin: Twin, dice: random.Random) -> Guard:
    model = twin.model
    if model.ownership and dice.random() < 0.7:
        node, owned = dice.choice([*model.ownership.items()])
        return Guard(node, owned.epoch + (dice.random() < 0.2), owned.term)
    return Guard(model.leader.node or 3, None, model.leader.term - (dice.random() < 0.2))


async def _due(twin: Twin, dice: random.Random) -> tuple[Any, Any]:
    some = dice.sample(EVERY, 200)
    real = await twin.store.due.due(some, ahead=0.5, late=LATE_AFTER, each=10)
    modelled = twin.model.due(some, 0.5, LATE_AFTER)
    due_in = await twin.store.due.next_in(some, within=2.0, late=LATE_AFTER)
    expected_in = twin.model.due_next(some, LATE_AFTER, 2.0)
    return (_sorted(real), due_in), (_sorted(modelled), expected_in)


def _sorted(rows: list[DueRow]) -> list[DueRow]:
    """Those that are due at the same instant come in any order."""
    return sorted(rows, key=lambda row: (row.next_fire, row.id))


async def _mark_late(twin: Twin, dice: random.Random) -> tuple[Any, Any]:
    node, owned = dice.choice([*twin.model.ownership.items()] or [(7, None)])
    guard = Guard(node, owned.epoch if owned and dice.random() < 0.8 else 9, 1)
    real = await twin.store.due.mark_late(guard, EVERY, LATE_AFTER, 10)
    return real, twin.model.mark_late(guard, EVERY, LATE_AFTER)


async def _late(twin: Twin, dice: random.Random) -> tuple[Any, Any]:
    real = await twin.store.due.late(10)
    return _sorted(real), _sorted(twin.model.late(10))


async def _fire(twin: Twin, dice: random.Random) -> tuple[Any, Any]:
    model, guard = twin.model, _guard(twin, dice)
    if guard.epoch is None:
        rows = model.late(10)
        batch = decide_late(rows, rules.compiled(), twin.clock.now).batch
    else:
        rows = model.due(EVERY, 5.0, 60.0)
        batch = decide_due(rows, rules.compiled()).batch
    for n in range(len(batch)):
        batch.stamps[n] += dice.random() < 0.1
        batch.were_due[n] -= dice.random() < 0.1
    real: Any
    modelled: Any
    try:
        real = await twin.store.due.fire(guard, "due", batch)
    except asyncpg.UniqueViolationError:
        real = "refused"
    try:
        modelled = model.fire(guard, "due", batch)
    except Refused:
        modelled = "refused"
    return real, modelled


async def _change(twin: Twin, dice: random.Random) -> tuple[Any, Any]:
    id = dice.choice([*twin.model.schedules])
    [standing] = (await twin.store.schedules.standings(1, [str(id)])).values()
    modelled = twin.model.schedule_read(id)
    assert dataclasses.replace(standing, body=modelled.body) == modelled
    old = rules.rule(standing.body.rule_id)
    if standing.state == "paused":
        change = resumed(standing, old)
    elif dice.random() < 0.5:
        left = standing.fires_left
        change = stopped("pause", standing, standing.body, old, "paused", None, left=left)
    else:
        new = rules.other_period(standing.body.rule_id)
        body = dataclasses.replace(standing.body, rule_id=new)
        change = updated(standing, body, old, rules.rule(new), demand=True)
    if dice.random() < 0.2:
        standing = dataclasses.replace(standing, stamp=standing.stamp + 1)
    real = await twin.store.schedules.change(standing, change)
    return real, twin.model.schedule_change(standing, change)


async def _claim(twin: Twin, dice: random.Random) -> tuple[Any, Any]:
    worker, limit, lanes = dice.randint(1, 4), dice.randint(1, 9), [*PRIORITIES]
    for n, job in enumerate(twin.model.jobs.values()):
        job.due_at += n / 1000  # equal ones have no order
    await twin.load()
    claims = await twin.store.jobs.claim("default", limit, worker, lanes, [BEGINNING] * len(lanes))
    modelled = twin.model.claim(worker, limit)
    fences = [sorted(each.fence for each in some) for some in (claims, modelled)]
    for claim in claims:  # within a claim, who gets which is all the same
        twin.model.jobs[claim.id].fence = claim.fence
    return (_known(claims), fences[0]), (_known(modelled), fences[1])


def _known(claims: list[Claim]) -> set[Any]:
    return {
        (each.id, each.attempt, each.schedule_id, each.fire_at, each.claimed) for each in claims
    }


async def _renew(twin: Twin, dice: random.Random) -> tuple[Any, Any]:
    running = [job for job in twin.model.jobs.values() if job.claimed_by]
    ids = [job.id for job in running if job.cancel_requested]
    assert await twin.store.jobs.cancel(ids) == twin.model.cancel(ids)
    worker = dice.randint(1, 4)
    real = await twin.store.workers.renew_and_tell(worker, None)
    modelled = twin.model.renew(worker)
    return real and (real[0].timestamp(), sorted(real[1])), modelled and (
        modelled[0],
        sorted(modelled[1]),
    )


async def _lose(twin: Twin, dice: random.Random) -> tuple[Any, Any]:
    return sorted(await twin.store.workers.lose_expired()), sorted(twin.model.lose_workers())


async def _orphans(twin: Twin, dice: random.Random) -> tuple[Any, Any]:
    gone_for = dice.choice([None, 2.0])
    real = await twin.store.jobs.orphans(100, gone_for)
    modelled = twin.model.orphans(100, gone_for)
    return sorted(real, key=lambda each: each.id), sorted(modelled, key=lambda each: each.id)


def _fence(twin: Twin, id: int, dice: random.Random) -> int:
    job = twin.model.jobs.get(id)
    return (job.fence if job else id) - (dice.random() < 0.25)


async def _settle(twin: Twin, dice: random.Random) -> tuple[Any, Any]:
    outcomes: list[Outcome] = [
        *(PLAIN_SUCCESS, Failed("no"), Failed("never", permanent=True), Lost("gone")),
        *(Snoozed(0.5, "later"), Released()),
    ]
    settled = []
    for id in dice.sample(range(1, 8), dice.randint(1, 6)):
        given = dice.choice(outcomes)
        tries = dice.randint(1, 3)
        how = settle(given, tries=tries, retry=job_tables.RETRY, expires_in=None, noise=0.5)
        settled.append((id, _fence(twin, id, dice), how))
    return await twin.store.jobs.settle(settled), twin.model.settle(settled)


async def _succeed(twin: Twin, dice: random.Random) -> tuple[Any, Any]:
    ids = dice.sample(range(1, 8), dice.randint(1, 6))
    fences = [_fence(twin, id, dice) for id in ids]
    real = await twin.store.jobs.settle_succeeded(ids, fences)
    return real, twin.model.settle_succeeded(ids, fences)


async def _cancel(twin: Twin, dice: random.Random) -> tuple[Any, Any]:
    ids = dice.sample(range(1, 8), dice.randint(1, 6))
    return await twin.store.jobs.cancel(ids), twin.model.cancel(ids)


async def _let_go(twin: Twin, dice: random.Random) -> tuple[Any, Any]:
    return await LettingGo(twin.store, dice.randint(2, 9)).run_once(), twin.model.let_go()


QUESTIONS: list[Question] = [
    *(
        _heartbeat,
        _register_node,
        _register_worker,
        _elect,
        _roster,
        _assign,
        _due,
        _mark_late,
        _late,
        _fire,
        _change,
    ),
    *(_claim, _renew, _lose, _orphans, _settle, _succeed, _cancel, _let_go),
]
ONLY_LOOKS = (_roster, _due, _late, _orphans)
