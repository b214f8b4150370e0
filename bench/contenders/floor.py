"""The floor: the queue an experienced engineer writes by hand, with nothing a library must add.

One table, one partial index in claim order, `FOR UPDATE SKIP LOCKED` in batches of 500, one
asyncio task per job, and one statement per batch that moves finished jobs to a history. Claims run
ahead of execution and settlement runs beside it, on two connections: what a good worker does. No
fencing, no retries, no leases, no dedupe, no limits, no validation, no index on the history.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg

from bench.contenders.agent import Agent, arguments, main

BATCH = 500
AHEAD = 2 * BATCH  # jobs held in memory: one batch running, one claimed ahead

SCHEMA = """
create table job (
    id        bigserial primary key,
    task      text        not null,
    payload   jsonb       not null,
    priority  smallint    not null default 0,
    run_at    timestamptz not null default now(),
    attempt   int         not null default 0,
    locked_by int,
    locked_at timestamptz
);
create index job_claim on job (priority, run_at, id) where locked_by is null;
create table history (
    job_id      bigint      not null,
    task        text        not null,
    attempt     int         not null,
    worker      int         not null,
    started_at  timestamptz not null,
    finished_at timestamptz not null
);
"""

INSERT = "insert into job (task, payload) values ($1, $2)"

INSERT_AND_WAKE = """
with made as (insert into job (task, payload) values ($1, $2) returning id)
select pg_notify('job', '') from made
"""

INSERT_MANY = """
insert into job (task, payload, run_at)
select 'noop', payload, now() + $2::interval from unnest($1::jsonb[]) as payload
"""

# `= any(array(…))` and not a join: analysed, the planner hashes a join with the whole table.
CLAIM = f"""
update job set locked_by = $1, locked_at = now(), attempt = attempt + 1
 where id = any(array(
    select id from job
     where locked_by is null and run_at <= now()
     order by priority, run_at, id
     limit {BATCH}
       for update skip locked))
returning id, task, payload
"""

SETTLE = """
with finished as (
    delete from job where id = any($1::bigint[]) returning id, task, attempt, locked_at
)
insert into history (job_id, task, attempt, worker, started_at, finished_at)
select id, task, attempt, $2, locked_at, now() from finished
"""


class Floor(Agent):
    async def setup(self) -> None:
        connection = await asyncpg.connect(self.url)
        await connection.execute(SCHEMA)
        await connection.close()

    async def open(self) -> None:
        self.connection = await asyncpg.connect(self.url)
        self.insert = await self.connection.prepare(INSERT)

    async def enqueue_one(self, n: int) -> None:
        if self.paced:
            await self.connection.execute(INSERT_AND_WAKE, "noop", json.dumps(arguments(n)))
        else:
            await self.insert.fetch("noop", json.dumps(arguments(n)))

    async def enqueue_many(self, first: int, count: int, style: str, delay: float) -> None:
        payloads = (json.dumps(arguments(n)) for n in range(first, first + count))
        if style == "copy":
            run_at = datetime.now(UTC) + timedelta(seconds=delay)
            await self.connection.copy_records_to_table(
                "job",
                records=(("noop", payload, run_at) for payload in payloads),
                columns=("task", "payload", "run_at"),
            )
            return
        await self.connection.execute(INSERT_MANY, list(payloads), timedelta(seconds=delay))
        if style == "paced":
            await self.connection.execute("select pg_notify('job', '')")

    async def work(self) -> None:
        self.claimer = await asyncpg.connect(self.url)
        self.settler = await asyncpg.connect(self.url)
        listener = await asyncpg.connect(self.url)
        self.woken, self.finished, self.room = (asyncio.Event() for _ in range(3))
        self.running: set[asyncio.Task[None]] = set()
        self.ended: list[int] = []
        self.claim_seconds: list[float] = []
        self.held = 0  # claimed and not yet settled
        await listener.add_listener("job", lambda *_: self.woken.set())
        await asyncio.gather(self.claim_loop(), self.settle_loop())

    async def claim_loop(self) -> None:
        while True:
            while self.held + BATCH > AHEAD:
                self.room.clear()
                await self.room.wait()
            self.woken.clear()
            began = time.monotonic()
            rows = await self.claimer.fetch(CLAIM, os.getpid())
            if rows:
                self.claim_seconds.append(time.monotonic() - began)
                self.held += len(rows)
                for row in rows:
                    task = asyncio.create_task(self.execute(row))
                    self.running.add(task)
                    task.add_done_callback(self.running.discard)
            else:
                try:
                    await asyncio.wait_for(self.woken.wait(), 5)
                except TimeoutError:
                    continue

    async def execute(self, row: Any) -> None:
        await self.noop(**json.loads(row["payload"]))
        self.ended.append(row["id"])
        self.finished.set()

    async def noop(self, n: int, pad: str) -> None:
        self.tally.ran(n)

    async def settle_loop(self) -> None:
        while True:
            await self.finished.wait()
            self.finished.clear()
            while self.ended:
                batch, self.ended = self.ended[:BATCH], self.ended[BATCH:]
                await self.settler.execute(SETTLE, batch, os.getpid())
                self.held -= len(batch)
                self.room.set()

    def take_claims(self) -> list[float]:
        taken, self.claim_seconds = self.claim_seconds, []
        return taken


if __name__ == "__main__":
    main(Floor)
