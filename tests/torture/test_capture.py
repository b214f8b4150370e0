"""What the triggers write down: all of it, in order, and nothing that never happened."""

import json
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from sexton import Sexton
from sexton.domain.outcome import Failed
from sexton.flow import reap
from sexton.store.connection import Address
from sexton.store.migrations import migrate
from sexton.torture.capture import dump, install

from ..support.hands import hands

# Nothing follows from these that is not told by the others.
NOT_CAPTURED = {
    *("migration", "rule", "held_key", "cancel_request", "replaced"),
    *("api_key", "audit_log", "request", "endpoint"),
}
_CHANGED = ("job", "U")
Line = dict[str, Any]


async def captured(url: str) -> list[Line]:
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch(
            "select seq, at, tx, tab, op::text, id, was, now from torture.change order by seq"
        )
    finally:
        await connection.close()
    return [
        {**row, "was": json.loads(row["was"] or "null"), "now": json.loads(row["now"] or "null")}
        for row in rows
    ]


async def set_up(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await install(connection)
        await install(connection)
    finally:
        await connection.close()


async def test_every_table_is_captured_or_known_not_to_matter(database_url: str) -> None:
    await set_up(database_url)
    connection = await asyncpg.connect(database_url)
    try:
        tables = await connection.fetch(
            "select relname, exists (select from pg_trigger where tgrelid = pg_class.oid and "
            "tgname like 'captured%') as is_captured from pg_class "
            "where relnamespace = 'sexton'::regnamespace and relkind in ('r', 'p') "
            "and not relispartition"
        )
    finally:
        await connection.close()
    assert {row["relname"] for row in tables if not row["is_captured"]} == NOT_CAPTURED


async def test_the_life_of_a_job_is_written_down_in_order(
    database_url: str, address: Address
) -> None:
    await set_up(database_url)
    async with hands(address) as worker:
        made = await worker.enqueue(payload='{"id": "x-1"}', key="k")
        [claim] = await worker.claim()
        await worker.settle(claim, Failed("no"), noise=0.0)
        [again] = await worker.claim()
        await worker.store.jobs.settle_succeeded([again.id], [again.fence])
    rows = [each for each in await captured(database_url) if each["id"] == made.id]
    told = [(each["tab"], each["op"]) for each in rows if each["tab"] in ("job", "attempt")]
    assert told == [
        *(("job", "I"), ("job", "U"), ("job", "U"), ("attempt", "I")),
        *(("job", "U"), ("job", "D"), ("attempt", "I")),
    ]
    first, claimed, released, failed, reclaimed, gone, succeeded = [
        each for each in rows if each["tab"] in ("job", "attempt")
    ]
    assert (first["now"]["payload"], first["now"]["key"]) == ("x-1", "k")
    assert claimed["was"]["by"] is None
    assert claimed["now"]["fence"] == claim.fence
    assert released["tx"] == failed["tx"] != gone["tx"] == succeeded["tx"]
    assert failed["now"]["next"] == "waiting"
    assert released["now"]["due"] == failed["now"]["finished"]
    assert reclaimed["now"]["attempt"] == 2
    assert gone["was"]["fence"] == succeeded["now"]["fence"] == again.fence
    assert [each["at"] for each in rows] == sorted(each["at"] for each in rows)


async def test_a_job_that_is_written_anew_is_told_of_and_one_that_only_runs_is_not(
    database_url: str, address: Address
) -> None:
    await set_up(database_url)
    async with hands(address) as worker:
        made = await worker.enqueue(payload='{"id": "x-1"}', key="k")
        [claim] = await worker.claim()
        await worker.settle(claim, Failed("no"), noise=0.0)
    connection = await asyncpg.connect(database_url)
    try:
        for each in (
            "payload = '{\"id\": \"x-2\"}', task = 'another'",
            "expires_at = now()",
            "priority = 1, limit_key = 'l'",
            "key_held_for = '1 s', tags = '{a}', created_at = now()",
            "progress = '1'",  # a task says it as often as it likes
        ):
            await connection.execute(f"update sexton.job set {each} where id = {made.id}")
    finally:
        await connection.close()
    rows = [each for each in await captured(database_url) if (each["tab"], each["op"]) == _CHANGED]
    claimed, released, *written = [each["now"]["rewritten"] for each in rows]
    assert (claimed, released) == (None, None)
    assert written == [
        ["task", "payload"],
        ["expires_at"],
        ["priority", "limit_key"],
        ["created_at", "key_held_for", "tags"],
    ]


async def test_what_was_rolled_back_left_no_trace(database_url: str) -> None:
    await set_up(database_url)
    connection = await asyncpg.connect(database_url)
    try:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("select sexton.enqueue('t')")
        await transaction.rollback()
        await connection.execute("select sexton.enqueue('t')")
    finally:
        await connection.close()
    assert [each["tab"] for each in await captured(database_url)] == ["job"]


async def test_a_day_of_history_that_is_made_later_is_captured_too(
    database_url: str, address: Address
) -> None:
    await set_up(database_url)
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("select sexton.make_buckets('2040-01-01', '2040-01-01')")
        await connection.execute(
            "insert into sexton.attempt (job_id, fence, created_at, due_at, finished_at, attempt, "
            "outcome, next, task, queue) values (1, 1, now(), now(), '2040-01-01T12:00Z', 1, "
            "'succeeded', 'succeeded', 't', 'default')"
        )
    finally:
        await connection.close()
    assert [each["tab"] for each in await captured(database_url)] == ["attempt"]


async def test_who_acts_for_a_tenant_is_captured_and_may_not_look(database_url: str) -> None:
    await set_up(database_url)
    connection = await asyncpg.connect(database_url)
    try:
        async with connection.transaction():
            await connection.execute("set local role sexton_tenant")
            await connection.execute("set local sexton.tenant = '1'")
            await connection.execute("select sexton.enqueue('t')")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with connection.transaction():
                await connection.execute("set local role sexton_tenant")
                await connection.execute("select * from torture.change")
    finally:
        await connection.close()
    assert [each["tab"] for each in await captured(database_url)] == ["job"]


async def test_a_lost_attempt_tells_whether_its_worker_was_gone(
    database_url: str, address: Address
) -> None:
    await set_up(database_url)
    async with hands(address) as worker:
        await worker.enqueue()
        [claim] = await worker.claim()
        await worker.rows("update sexton.worker set lease_until = now() - interval '1 s'")
        await worker.rows(
            "update sexton.worker set gone_at = clock_timestamp(), gone_why = 'lost' returning id"
        )
        [orphan] = await worker.store.jobs.orphans(10, None)
        assert orphan.fence == claim.fence
        await reap.run_once(worker.store)
    [lost] = [each for each in await captured(database_url) if each["tab"] == "attempt"]
    assert lost["now"]["outcome"] == "lost"
    assert lost["now"]["gone"] is True


async def test_everything_is_dumped_one_object_to_a_line(
    database_url: str, address: Address, tmp_path: Path
) -> None:
    await set_up(database_url)
    async with hands(address) as worker:
        await worker.enqueue(payload='{"id": "with \\"quotes\\" and \\n a new line"}')
        [claim] = await worker.claim()
        await worker.store.jobs.settle_succeeded([claim.id], [claim.fence])
    connection = await asyncpg.connect(database_url)
    try:
        lines = await dump(connection, tmp_path)
    finally:
        await connection.close()
    files = {path.stem: path.read_text().splitlines() for path in (tmp_path / "dump").iterdir()}
    assert sum(map(len, files.values())) == lines
    assert "effect" not in files
    changes = [json.loads(line) for line in files["change"]]
    assert [each["seq"] for each in changes] == sorted(each["seq"] for each in changes)
    assert len(changes) == len(await captured(database_url))
    [attempt] = map(json.loads, files["attempt"])
    assert attempt["outcome"] == "succeeded"
    [made] = [each["now"] for each in changes if (each["tab"], each["op"]) == ("job", "I")]
    assert made["payload"] == 'with "quotes" and \n a new line'


async def test_an_installation_of_another_name_is_captured_too(database_url: str) -> None:
    await migrate(Address(database_url), "other")
    connection = await asyncpg.connect(database_url)
    try:
        await install(connection, "other")
        async with Sexton(database_url, schema="other") as app:
            await app.enqueue("t")
    finally:
        await connection.close()
    assert [each["tab"] for each in await captured(database_url)] == ["job"]
