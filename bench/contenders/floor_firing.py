"""The floor for schedules: what fires them with nothing that a scheduler must add.

One connection: lock 5,000 due rows, then move them on and write their jobs in one statement. No
ledger, no owner of a partition, no fence, no policies, one process only.
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

import asyncpg

from bench.contenders.agent import arguments, main
from bench.contenders.firing import FiringAgent, clock_offset

BATCH = 5_000
A_DAY = timedelta(days=1)

SCHEMA = """
create table if not exists schedule (
    id           bigserial   primary key,
    name         text        not null unique,
    cron         text        not null,
    task         text        not null,
    payload      jsonb       not null,
    next_fire_at timestamptz not null
) with (fillfactor = 70);
create index if not exists schedule_next on schedule (next_fire_at);
"""

ADD = """
insert into schedule (name, cron, task, payload, next_fire_at)
select 'schedule ' || n, $2, 'noop', $3, $4 from generate_series(1, $1::int) as n
"""

DUE = f"""
select id, next_fire_at from schedule
where next_fire_at <= clock_timestamp()
order by next_fire_at
limit {BATCH}
for update
"""

FIRE = """
with moved as (
    update schedule set next_fire_at = due.next_at
    from unnest($1::bigint[], $2::timestamptz[]) as due (id, next_at)
    where schedule.id = due.id
    returning task, payload
)
insert into job (task, payload) select task, payload from moved
"""

NEXT = "select extract(epoch from min(next_fire_at) - clock_timestamp())::float8 from schedule"


class FloorFiring(FiringAgent):
    async def setup(self) -> None:
        await self.connection.execute(SCHEMA)

    async def open(self) -> None:
        self.connection = await asyncpg.connect(self.url)
        self.offset = await clock_offset(self.connection)

    async def crowd(self, count: int, at: float) -> None:
        first = datetime.fromtimestamp(at, UTC)
        cron = f"{first.second} {first.minute} {first.hour} * * *"
        await self.connection.execute(ADD, count, cron, json.dumps(arguments(0)), first)

    async def fire(self) -> None:
        connection = await asyncpg.connect(self.url)
        try:
            while True:
                async with connection.transaction():
                    due = await connection.fetch(DUE)
                    if due:
                        ids = [row["id"] for row in due]
                        await connection.execute(
                            FIRE, ids, [row["next_fire_at"] + A_DAY for row in due]
                        )
                if due:
                    self.fired(row["next_fire_at"].timestamp() for row in due)
                    continue
                left: float | None = await connection.fetchval(NEXT)
                await asyncio.sleep(0.1 if left is None else max(0.0, min(left, 5.0)))
        finally:
            connection.terminate()

    async def ready(self) -> None:
        """It is at once."""

    async def close(self) -> None:
        await super().close()
        await self.connection.close()


if __name__ == "__main__":
    main(FloorFiring)
