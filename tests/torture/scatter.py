"""Random small states of the modelled database."""

import math
import random
from typing import Any

from sexton.domain.partition import PARTITIONS
from sexton.store.cluster import Ownership
from sexton.torture.simulate import rules
from sexton.torture.simulate.database import Database
from sexton.torture.simulate.tables import FireRow, JobRow, LeaseRow, ScheduleRow
from sexton.torture.simulate.watch import Watch


class Unwatched(Watch):
    """Random states come from nowhere: there is nothing to hold them against."""

    def __getattribute__(self, name: str) -> Any:
        return lambda *_: None


def scattered(now: float, dice: random.Random) -> Database:
    """Any small state, also one that the protocol would never reach."""
    model = Database(Unwatched(), now)
    _nodes(model, dice)
    _schedules(model, dice)
    _jobs(model, dice)
    return model


def _near(now: float, dice: random.Random, before: float = 4.0, after: float = 3.0) -> float:
    """An instant around now, and often exactly now."""
    halves = dice.randint(-round(2 * before), round(2 * after))
    return now + halves / 2 if dice.random() < 0.8 else now


def _nodes(model: Database, dice: random.Random) -> None:
    nodes = dice.sample(range(1, 7), dice.randint(1, 5))
    model.node_id = 6
    for id in nodes:
        model.nodes[id] = LeaseRow(_near(model.now, dice), 3.0)
    model.leader.node = dice.choice([*nodes, None, 9])
    model.leader.term = dice.randint(0, 3)
    model.leader.lease_until = dice.choice([math.inf, math.inf, model.now - 3600])
    owners = dice.sample(range(1, 7), dice.randint(0, 3))
    every = [*range(PARTITIONS)]
    dice.shuffle(every)
    cuts = sorted(dice.sample(range(PARTITIONS), 2 * len(owners)))
    for n, (first, last) in enumerate(_pairs(cuts)):
        share = tuple(sorted(every[first:last]))
        model.epoch += 1
        model.ownership[owners[n]] = Ownership(model.epoch, model.leader.term, share)


def _schedules(model: Database, dice: random.Random) -> None:
    for id in dice.sample(range(1, 500), dice.randint(1, 4)):
        rule = dice.choice(rules.IDS)
        period = rules.period_of(rule)
        next_fire = (_near(model.now, dice, 14.0, 2.0) // period) * period
        row = ScheduleRow(id, id % PARTITIONS, rule, next_fire, stamp=dice.randint(0, 2))
        row.anchor, row.since = 0.0, model.now - 30.0
        row.late = dice.random() < 0.3
        row.fires_left = dice.choice([None, None, 1, 2])
        if dice.random() < 0.2:
            row.state, row.next_fire, row.late = "paused", math.inf, False
        model.schedules[id] = row
        if dice.random() < 0.1 and row.next_fire < math.inf:
            model.fires[id, row.next_fire] = FireRow("missed", "due", None, None, None, model.now)


def _jobs(model: Database, dice: random.Random) -> None:
    for id in range(1, 5):
        if dice.random() < 0.3:
            model.gone_workers[id] = _near(model.now, dice, 4.0, 0.0)
        else:
            model.workers[id] = LeaseRow(_near(model.now, dice), 3.0)
    model.worker_id = 4
    for id in range(1, dice.randint(1, 7)):
        schedule = dice.choice([None, *model.schedules])
        job = JobRow(id, model.now - 20.0, _near(model.now, dice), schedule)
        job.attempt, job.fence = dice.randint(0, 2), dice.randint(0, 1) * id
        if dice.random() < 0.5:
            job.claimed_by, job.claimed_at = dice.randint(1, 4), _near(model.now, dice, 4.0, 0.0)
            job.fence, job.attempt = id, max(1, job.attempt)
            job.cancel_requested = dice.random() < 0.3
        elif schedule is not None and dice.random() < 0.4:
            job.after_job = dice.choice([id - 1 or 50, 50])
        if schedule is not None:
            _belongs(model.schedules[schedule], job, dice)
        model.jobs[id] = job
    model.job_id = model.fence = 7


def _belongs(row: ScheduleRow, job: JobRow, dice: random.Random) -> None:
    job.fire_at = job.created_at - job.id
    if rules.rule(row.rule).live_limit is None:
        row.last_job = job.id
    elif dice.random() < 0.8:
        row.live = row.live if row.last_job is None else (*row.live, row.last_job)
        row.last_job = job.id


def _pairs(cuts: list[int]) -> list[tuple[int, int]]:
    return list(zip(cuts[::2], cuts[1::2], strict=True))
