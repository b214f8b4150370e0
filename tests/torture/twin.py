"""One state in both: the modelled database and a real one, asked the same by the same clock."""

import math
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import asyncpg

from sexton.domain.job import instant
from sexton.store import Store
from sexton.store.connection import Address
from sexton.store.source import Line
from sexton.testing import ManualClock
from sexton.torture.simulate import rules

from .scatter import scattered

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
    id, name, host, pid, version, started_at, renewed_at, lease_until, lease_for)
overriding system value
values (
    $1, $1::integer::text, 'here', 1, 'test', now(), now(), $2,
    $3::double precision * interval '1 second')
"""
LEADER = "update sexton.leader set node_id = $1, term = $2, lease_until = $3::text::timestamptz"
OWNERSHIP = "insert into sexton.ownership values ($1, $2, $3, $4)"
SCHEDULE = """
insert into sexton.schedule (
    id, name, version, since, created_at, state, rule_id, anchor, task, said)
values ($1, $1::bigint::text, $2, $3, $3, $4, $5, $6, 't', '{}')
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
values (
    $1, $1::integer::text, '{default}', 'test', now(), now(), $2, interval '3 seconds',
    $3::timestamptz, case when $3::timestamptz is not null then 'lost' end)
"""
SEQUENCES = """
select setval('sexton.epoch', greatest($1::bigint, 1), $1 > 0),
    setval('sexton.fence', greatest($2::bigint, 1), $2 > 0),
    setval('sexton.job_id', greatest($3::bigint, 1), $3 > 0),
    setval(pg_get_serial_sequence('sexton.node', 'id'), $4),
    setval(pg_get_serial_sequence('sexton.worker', 'id'), $5)
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


class Twin:
    """Both of them, with the same rows."""

    def __init__(self, line: Line, connection: asyncpg.Connection) -> None:
        self.clock = ManualClock()
        self.store = Store(line, "sexton", self.clock)
        self.connection = connection
        self.now = self.clock.now.timestamp()
        self.model = scattered(self.now, random.Random(0))

    @classmethod
    @asynccontextmanager
    async def born(cls, address: Address) -> AsyncIterator["Twin"]:
        """With what does not change: rules, a task, buckets."""
        line, connection = Line(address), await asyncpg.connect(address.url)
        twin = cls(line, connection)
        try:
            await connection.execute(TASK)
            await connection.executemany(RULE, [(id, rules.text_of(id)) for id in rules.IDS])
            await twin.store.history.make_buckets()
            yield twin
        finally:
            connection.terminate()
            await line.close()

    async def scatter(self, dice: random.Random) -> None:
        """Another state, in both."""
        self.model = scattered(self.now, dice)
        await self.load()

    async def load(self) -> None:
        """Make the real one what the modelled one is."""
        model, many = self.model, self.connection.executemany
        await self.connection.execute(WIPE)
        leader = model.leader
        await many(LEADER, [(leader.node, leader.term, _text(leader.lease_until))])
        await many(
            NODE, [(id, _at(row.lease_until), row.lease_for) for id, row in model.nodes.items()]
        )
        await many(
            OWNERSHIP,
            [(id, row.epoch, row.term, row.partitions) for id, row in model.ownership.items()],
        )
        schedules = model.schedules.values()
        await many(
            SCHEDULE,
            [
                (row.id, row.version, _at(row.since), row.state, row.rule, _at(row.anchor))
                for row in schedules
            ],
        )
        await many(
            DUE,
            [
                (
                    *(row.id, _text(row.next_fire), _at(row.anchor), row.rule, row.stamp),
                    *(row.late, row.fires_left, row.last_job, row.live or None, row.partition),
                )
                for row in schedules
            ],
        )
        await many(
            FIRE,
            [(key[0], _at(key[1]), *row[:2], row.job) for key, row in model.fires.items()],
        )
        await many(
            JOB,
            [
                (
                    *(row.id, _at(row.created_at), _at(row.due_at), row.schedule),
                    *(_at(row.fire_at), row.after_job, row.fence, row.claimed_by),
                    *(_at(row.claimed_at), row.attempt, _at(row.due_at, row.cancel_requested)),
                )
                for row in model.jobs.values()
            ],
        )
        living = [(id, _at(row.lease_until), None) for id, row in model.workers.items()]
        gone = [(id, _at(gone_at), _at(gone_at)) for id, gone_at in model.gone_workers.items()]
        await many(WORKER, living + gone)
        drawn = (model.epoch, model.fence, model.job_id, model.node_id, model.worker_id)
        await many(SEQUENCES, [drawn])

    async def read(self) -> dict[str, set[Any]]:
        """The real one's rows."""
        return {
            name: {tuple(map(_plain, row)) for row in await self.connection.fetch(query)}
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


def _at(seconds: float | None, given: bool = True) -> datetime | None:
    return instant(seconds) if given and seconds is not None else None


def _text(seconds: float) -> str:
    return "infinity" if seconds == math.inf else instant(seconds).isoformat()


def _plain(value: Any) -> Any:
    """Instants as seconds, arrays as tuples."""
    if hasattr(value, "timestamp"):
        return value.timestamp() if value.year < 9000 else math.inf
    return tuple(value) if isinstance(value, list) else value
