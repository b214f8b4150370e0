"""A request that meets another, or a day without a bucket, is tried again and answered once."""

import asyncio

import asyncpg
import pytest

from sexton import Sexton
from sexton.store import Pool

from .process import until
from .served import Served

KEY = {"name": "k", "role": "viewer"}


async def waits(api: Served, many: int) -> bool:
    [row] = await api.rows(
        "select count(*) from pg_stat_activity where datname = current_database() "
        "and wait_event_type = 'Lock'"
    )
    return int(row["count"]) == many


async def test_the_loser_of_a_deadlock_does_it_again(api: Served) -> None:
    """The request takes 1 and wants 2, somebody else has 2 and wants 1; 3 is a gate between."""
    await api.rows(
        "create function take_turns() returns trigger language plpgsql as $$ begin "
        "perform pg_advisory_xact_lock(1); perform pg_advisory_xact_lock(3); "
        "perform pg_advisory_xact_lock(2); return new; end $$"
    )
    async with api.caller("admin") as admin:
        await api.rows(
            "create trigger turns before insert on sexton.api_key "
            "for each row execute function take_turns()"
        )
        other, gate = [await asyncpg.connect(api.database_url) for _ in range(2)]
        try:
            await other.execute("set deadlock_timeout = '1min'")  # so it is never the loser
            await gate.execute("select pg_advisory_lock(3)")
            async with other.transaction():
                await other.execute("select pg_advisory_xact_lock(2)")
                sending = asyncio.create_task(
                    admin.post("/v1/keys", json=KEY, headers={"idempotency-key": "a"})
                )
                await until(lambda: waits(api, 1))
                wanting = asyncio.create_task(other.execute("select pg_advisory_xact_lock(1)"))
                await until(lambda: waits(api, 2))
                await gate.execute("select pg_advisory_unlock(3)")
                await wanting
                assert not sending.done()
            answer = await sending
        finally:
            await other.close()
            await gate.close()
        assert answer.status_code == 201, answer.text
        log = (await admin.get("/v1/audit-log")).json()["items"]
    assert [each["action"] for each in log] == ["key.create"]
    rows = await api.rows("select from sexton.api_key where name = 'k'")
    assert len(rows) == 1


async def test_a_day_without_a_bucket_gets_one(api: Served) -> None:
    buckets = await api.rows(
        "select inhrelid::regclass::text as name from pg_inherits "
        "where inhparent in ('sexton.fire'::regclass, 'sexton.attempt'::regclass)"
    )
    async with api.caller("operator", "acme") as http:
        body = {"every": "1h", "target": {"task": "t"}}
        assert (await http.put("/v1/schedules/s", json=body)).status_code == 201
        for bucket in buckets:
            await api.rows(f"drop table {bucket['name']}")
        answer = await http.post("/v1/schedules/s/trigger", json={})
        assert answer.status_code == 202, answer.text
        paused = await http.post("/v1/schedules/s/pause", json={})
        assert paused.status_code == 200, paused.text


async def test_a_transaction_that_cannot_begin_leaves_its_connection_alone(app: Sexton) -> None:
    async with app:
        pool = Pool((await app.client()).address, 1)
        with pytest.raises(asyncpg.InvalidParameterValueError):
            async with pool.transaction(ours=True, begin="begin; set local role nobody_at_all"):
                pytest.fail("it has begun")
        assert [row[0] for row in await pool.fetch("select 1")] == [1]
        async with pool.transaction(ours=True, begin="begin read only") as connection:
            async with connection.transaction():  # a savepoint, as in any other
                assert await connection.fetchval("show transaction_read_only") == "on"
            assert connection.is_in_transaction()
        await pool.close()
