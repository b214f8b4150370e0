"""One state in both: the modelled database and a real one, asked the same by the same clock."""

import math
import random
from datetime import datetime
from typing import Any

from sexton.domain.job import instant
from sexton.domain.partition import PARTITIONS
from sexton.store import Store
from sexton.store.cluster import Ownership
from sexton.store.connection import Address
from sexton.store.source import Line
from sexton.testing import ManualClock
from sexton.torture.simulate import rules
from sexton.torture.simulate.database import Database
from sexton.torture.simulate.tables import FireRow, JobRow, LeaseRow, ScheduleRow
from sexton.torture.simulate.watch import Watch

TABLES = (
    *("node", "ownership", "schedule", "schedule_version", "due", "fire", "gap", "job", "worker"),
    *("attempt", "dead", "cancel_request"),
)
WIPE = "".join(f"delete from sexton.{table};" for table in TABLES)
RULE = "insert into sexton.rule (id, definition) overriding system value values ($1, $2)"
TASK = """
insert into sexton.task (
    name, queue, priority, max_attempts, retry_base, retry_factor, retry_cap, declared_at)
values ('t', 'default', 0, 3, 0.5, 2, 1, now())
"""
NODE = """
insert into sexton.node (
    id, name, host, pid, version, started_at, renewed_at, lease_until, lease_for, gone_at, gone_why)
overriding system value
values ($1, $1::text, 'here', 1, 'test', now(), now(), $2, $3 * interval '1 second', $4, $5)
"""
LEADER = "update sexton.leader set node_id = $1, term = $2, lease_until = $3::text::timestamptz"
OWNERSHIP = "insert into sexton.ownership values ($1, $2, $3, $4)"
SCHEDULE = """
insert into sexton.schedule (
    id, name, version, since, created_at, state, rule_id, anchor, task, said)
values ($1, $1::text, $2, $3, $3, $4, $5, $6, 't', '{}')
"""
DUE = """
insert into sexton.due (
    schedule_id, next_fire_at, anchor, rule_id, stamp, late, fires_left, last_job, live, partition)
values ($1, $2::text::timestamptz, $3, $4, $5, $6, $7, $8, $9, $10)
"""
FIRE = """
insert into sexton.fire (schedule_id, fire_at, scheduled_at, decided_at, decision, kind, job_id)
values ($1, $2, $2, $2, $3::text::sexton.decision, $4::text::sexton.fire_kind, $5)
"""
JOB = """
insert into sexton.job (
    id, created_at, due_at, schedule_id, fire_at, after_job, fence, claimed_by, claimed_at, attempt,
    cancel_requested_at, task)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 't')
"""
WORKER = """
insert into sexton.worker (
    id, name, queues, version, started_at, renewed_at, lease_until, lease_for, gone_at, gone_why)
overriding system value
values ($1, $1::text, '{default}', 'test', now(), now(), $2, $3 * interval '1 second', $4, $5)
"""
SEQUENCES = """
select setval('sexton.epoch', greatest($1, 1), $1 > 0),
    setval('sexton.fence', greatest($2, 1), $2 > 0),
    setval('sexton.job_id', greatest($3, 1), $3 > 0)
"""
READ = {
    "nodes": "select id, lease_until from sexton.node where gone_at is null",
    "leader": "select node_id, term, lease_until from sexton.leader",
    "ownership": "select node_id, epoch, term, partitions from sexton.ownership",
    "schedules": """
        select due.schedule_id, due.next_fire_at, due.rule_id, due.stamp, due.late, due.fires_left,
            due.last_job, due.live, schedule.state, schedule.version
        from sexton.due join sexton.schedule on schedule.id = due.schedule_id""",
    "fires": """
        select schedule_id, fire_at, decision::text, kind::text, job_id, node_id, term
        from sexton.fire""",
    "gaps": "select schedule_id, first_at, last_at, fires, decision::text from sexton.gap",
    "jobs": """
        select id, due_at, schedule_id, fire_at, after_job, fence, claimed_by, claimed_at, attempt,
            cancel_requested_at is not null from sexton.job""",
    "workers": "select id, lease_until from sexton.worker where gone_at is null",
    "gone": "select id, gone_at from sexton.worker where gone_at is not null",
    "attempts": """
        select job_id, fence, worker_id, attempt, outcome::text, next::text from sexton.attempt""",
    "dead": "select job_id, reason from sexton.dead",
    "cancels": "select job_id, worker_id from sexton.cancel_request",
}


class Unwatched(Watch):
    """Random states come from nowhere: there is nothing to hold them against."""

    def __getattribute__(self, name: str) -> Any:
        return lambda *_: None


class Twin:
    """Both of them, with the same rows."""

    def __init__(self, address: Address) -> None:
        self.clock = ManualClock()
        self.line = Line(address)
        self.store = Store(self.line, "sexton", self.clock)
        self.now = self.clock.now.timestamp()
        self.model = Database(Unwatched(), self.now)

    async def prepare(self) -> None:
        """What does not change."""
        await self.store.source.fetch(TASK)
        for id in rules.IDS:
            await self.store.source.fetch(RULE, id, rules.text_of(id))
        await self.store.history.make_buckets()

    async def load(self) -> None:
        """Make the real one what the modelled one is."""
        model, fetch = self.model, self.store.source.fetch
        for statement in WIPE.rstrip(";").split(";"):
            await fetch(statement)
        for id, node in model.nodes.items():
            await fetch(NODE, id, instant(node.lease_until), node.lease_for, None, None)
        leader = model.leader
        await fetch(LEADER, leader.node, leader.term, _text(leader.lease_until))
        for id, owned in model.ownership.items():
            await fetch(OWNERSHIP, id, owned.epoch, owned.term, owned.partitions)
        for row in model.schedules.values():
            since, anchor = instant(row.since), instant(row.anchor)
            await fetch(SCHEDULE, row.id, row.version, since, row.state, row.rule, anchor)
            await fetch(
                *(DUE, row.id, _text(row.next_fire), anchor, row.rule, row.stamp, row.late),
                *(row.fires_left, row.last_job, row.live or None, row.partition),
            )
        for (schedule, at), fire in model.fires.items():
            await fetch(FIRE, schedule, instant(at), fire.decision, fire.kind, fire.job)
        for job in model.jobs.values():
            await fetch(
                *(JOB, job.id, instant(job.created_at), instant(job.due_at), job.schedule),
                *(_at(job.fire_at), job.after_job, job.fence, job.claimed_by, _at(job.claimed_at)),
                *(job.attempt, self.clock.now if job.cancel_requested else None),
            )
        for id, worker in model.workers.items():
            await fetch(WORKER, id, instant(worker.lease_until), worker.lease_for, None, None)
        for id, gone_at in model.gone_workers.items():
            await fetch(WORKER, id, instant(gone_at), 3.0, instant(gone_at), "lost")
        await fetch(SEQUENCES, model.epoch, model.fence, model.job_id)

    async def read(self) -> dict[str, set[Any]]:
        """The real one's rows."""
        return {
            name: {tuple(map(_plain, row)) for row in await self.store.source.fetch(query)}
            for name, query in READ.items()
        }

    def modelled(self) -> dict[str, set[Any]]:
        """The modelled one's rows, in the same form."""
        model = self.model
        leader = model.leader
        rows: dict[str, Any] = {
            "nodes": ((id, row.lease_until) for id, row in model.nodes.items()),
            "leader": [(leader.node, leader.term, leader.lease_until)],
            "ownership": (
                (id, row.epoch, row.term, row.partitions) for id, row in model.ownership.items()
            ),
            "schedules": (
                (
                    *(row.id, row.next_fire, row.rule, row.stamp, row.late, row.fires_left),
                    *(row.last_job, row.live or None, row.state, row.version),
                )
                for row in model.schedules.values()
            ),
            "fires": ((*key, *row[:5]) for key, row in model.fires.items()),
            "gaps": model.gaps,
            "jobs": (
                (
                    *(row.id, row.due_at, row.schedule, row.fire_at, row.after_job, row.fence),
                    *(row.claimed_by, row.claimed_at, row.attempt, row.cancel_requested),
                )
                for row in model.jobs.values()
            ),
            "workers": ((id, row.lease_until) for id, row in model.workers.items()),
            "gone": model.gone_workers.items(),
            "attempts": model.attempts,
            "dead": model.dead.items(),
            "cancels": model.cancels.items(),
        }
        return {name: {tuple(map(_plain, row)) for row in found} for name, found in rows.items()}

    # ── random states ───────────────────────────────────────────────────────

    def scatter(self, dice: random.Random) -> None:
        """Any small state, also one that the protocol would never reach."""
        model = self.model = Database(Unwatched(), self.now)
        self._scatter_nodes(model, dice)
        self._scatter_schedules(model, dice)
        self._scatter_jobs(model, dice)

    def near(self, dice: random.Random, before: float = 4.0, after: float = 3.0) -> float:
        """An instant around now, and often exactly now."""
        halves = dice.randint(-round(2 * before), round(2 * after))
        return self.now + halves / 2 if dice.random() < 0.8 else self.now

    def _scatter_nodes(self, model: Database, dice: random.Random) -> None:
        nodes = dice.sample(range(1, 7), dice.randint(0, 4))
        model.node_id = 6
        for id in nodes:
            model.nodes[id] = LeaseRow(self.near(dice), 3.0)
        model.leader.node = dice.choice([*nodes, None, 9])
        model.leader.term = dice.randint(0, 3)
        model.leader.lease_until = dice.choice([math.inf, math.inf, self.now - 3600])
        owners = dice.sample(range(1, 7), dice.randint(0, 3))
        every = [*range(PARTITIONS)]
        dice.shuffle(every)
        cuts = sorted(dice.sample(range(PARTITIONS), 2 * len(owners)))
        for n, (first, last) in enumerate(_pairs(cuts)):
            share = tuple(sorted(every[first:last]))
            model.epoch += 1
            model.ownership[owners[n]] = Ownership(model.epoch, model.leader.term, share)

    def _scatter_schedules(self, model: Database, dice: random.Random) -> None:
        for id in dice.sample(range(1, 500), dice.randint(1, 4)):
            rule = dice.choice(rules.IDS)
            period = rules.period_of(rule)
            next_fire = (self.near(dice, 14.0, 2.0) // period) * period
            row = ScheduleRow(id, id % PARTITIONS, rule, next_fire, stamp=dice.randint(0, 2))
            row.anchor, row.since = 0.0, self.now - 30.0
            row.late = dice.random() < 0.3
            row.fires_left = dice.choice([None, None, 1, 2])
            if dice.random() < 0.2:
                row.state, row.next_fire, row.late = "paused", math.inf, False
            model.schedules[id] = row
            if dice.random() < 0.1 and row.next_fire < math.inf:
                model.fires[id, row.next_fire] = FireRow(
                    "missed", "due", None, None, None, self.now
                )

    def _scatter_jobs(self, model: Database, dice: random.Random) -> None:
        for id in range(1, 5):
            if dice.random() < 0.3:
                model.gone_workers[id] = self.near(dice, 4.0, 0.0)
            else:
                model.workers[id] = LeaseRow(self.near(dice), 3.0)
        model.worker_id = 4
        for id in range(1, dice.randint(1, 7)):
            schedule = dice.choice([None, *model.schedules])
            job = JobRow(id, self.now - 20.0, self.near(dice), schedule)
            job.attempt, job.fence = dice.randint(0, 2), dice.randint(0, 1) * id
            if dice.random() < 0.5:
                job.claimed_by, job.claimed_at = dice.randint(1, 4), self.near(dice, 4.0, 0.0)
                job.fence, job.attempt = id, max(1, job.attempt)
                job.cancel_requested = dice.random() < 0.3
            elif schedule is not None and dice.random() < 0.4:
                job.after_job = dice.randint(1, id)
            if schedule is not None:
                self._belongs(model.schedules[schedule], job, dice)
            model.jobs[id] = job
        model.job_id = model.fence = 7

    def _belongs(self, row: ScheduleRow, job: JobRow, dice: random.Random) -> None:
        job.fire_at = self.now - 20.0 - job.id
        if rules.rule(row.rule).live_limit is None:
            row.last_job = job.id
        elif dice.random() < 0.8:
            row.live = row.live if row.last_job is None else (*row.live, row.last_job)
            row.last_job = job.id


def _pairs(cuts: list[int]) -> list[tuple[int, int]]:
    return list(zip(cuts[::2], cuts[1::2], strict=True))


def _at(seconds: float | None) -> datetime | None:
    return None if seconds is None else instant(seconds)


def _text(seconds: float) -> str:
    return "infinity" if seconds == math.inf else instant(seconds).isoformat()


def _plain(value: Any) -> Any:
    """Instants as seconds, arrays as tuples."""
    if hasattr(value, "timestamp"):
        return value.timestamp() if value.year < 9000 else math.inf
    return tuple(value) if isinstance(value, list) else value
