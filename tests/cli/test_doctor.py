"""`sexton doctor` finds each problem that was planted, and says what to do."""

import asyncio
import re
import shlex

import asyncpg
import pytest

from sexton import Sexton, sql
from sexton.doctor import server, tables, work
from sexton.doctor.examine import examine
from sexton.doctor.finding import Finding
from sexton.store.connection import Address
from sexton.store.migrations import check

from ..support.hands import hands
from ..support.postgres import Postgres
from .conftest import Cli


async def execute(address: Address, *statements: str) -> None:
    connection = await asyncpg.connect(address.url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def examined(address: Address) -> list[Finding]:
    return await examine(address, await check(address, "sexton"))


def amiss(findings: list[Finding], *levels: str) -> dict[str, Finding]:
    wanted = levels or ("warning", "problem")
    # The server of the tests runs without fsync: it is quick, and that is a problem by itself.
    return {
        each.check: each for each in findings if each.level in wanted and each.check != "durability"
    }


async def test_a_healthy_installation_has_nothing_but_the_tests_own_server_amiss(
    address: Address,
) -> None:
    findings = await examined(address)
    assert amiss(findings) == {}
    assert all(each.what for each in findings)
    assert all(each.do for each in findings if each.level != "ok")
    checks = {each.check for each in findings}
    assert {"versions", "schema", "indexes", "vacuum", "history", "tenants", "cluster"} <= checks
    [durability] = [each for each in findings if each.check == "durability"]
    assert durability.level == "problem"
    assert "fsync" in durability.what


async def test_an_index_that_is_gone_or_not_valid_is_a_problem(address: Address) -> None:
    await execute(address, "drop index sexton.job_claimable")
    found = amiss(await examined(address))["indexes"]
    assert (found.level, "job_claimable" in found.what) == ("problem", True)
    await execute(
        address,
        "create index job_claimable on sexton.job (id)",
        "update pg_index set indisvalid = false where indexrelid = 'sexton.job_running'::regclass",
    )
    found = amiss(await examined(address))["indexes"]
    assert "not valid: job_running" in found.what


def test_the_wanted_indexes_are_those_of_the_migrations() -> None:
    wanted = tables.wanted_indexes()
    assert {"job_claimable", "job_pkey", "schedule_name", "schedule_quarantined"} <= wanted
    assert "job_due_limited" not in wanted, "a later migration drops it"


async def test_autovacuum_that_is_off_is_a_problem(address: Address) -> None:
    await execute(address, "alter table sexton.job set (autovacuum_enabled = off)")
    found = amiss(await examined(address))["autovacuum"]
    assert (found.level, "sexton.job" in found.what) == ("problem", True)


async def test_dead_rows_that_pile_up_are_a_warning(address: Address) -> None:
    await execute(
        address,
        "alter table sexton.held_key set (autovacuum_enabled = off)",
        "insert into sexton.held_key (task, key, job_id) "
        "select 't', n::text, n from generate_series(1, 110000) as n",
        "delete from sexton.held_key",
        "select pg_stat_force_next_flush()",
    )
    deadline = asyncio.get_running_loop().time() + 20
    while "bloat" not in (found := amiss(await examined(address))):
        assert asyncio.get_running_loop().time() < deadline, found
    assert "held_key has 110,000 dead rows" in found["bloat"].what


async def test_who_holds_back_vacuum_is_named(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "OPEN_WARNING", 0.0)
    connection = await asyncpg.connect(address.url)
    transaction = connection.transaction(isolation="repeatable_read")
    await transaction.start()
    pid = await connection.fetchval("select pg_backend_pid() from sexton.job limit 1 offset 0")
    pid = pid or connection.get_server_pid()
    found = amiss(await examined(address))["transactions"]
    assert f"transaction {pid} " in found.what
    assert f"pg_terminate_backend({pid})" in found.do
    await transaction.rollback()
    await connection.close()


async def test_a_replication_slot_that_nobody_reads_is_named(
    own_server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = Address(await asyncio.to_thread(own_server.create_database, "slots"))
    await execute(
        address,
        "alter system set wal_level = logical",
        "alter system set max_prepared_transactions = 2",
    )
    await asyncio.to_thread(own_server.stop)
    await asyncio.to_thread(own_server.start)
    await execute(
        address,
        "select pg_create_logical_replication_slot('forgotten', 'pgoutput')",
        "begin; insert into sexton.job (task) values ('t'); prepare transaction 'half-done'",
        *["insert into sexton.job (task) values ('t')"] * 3,
    )
    monkeypatch.setattr(server, "SLOT_WARNING", 1)
    monkeypatch.setattr(server, "OPEN_WARNING", 0.0)
    found = [each for each in await examined(address) if each.check == "transactions"]
    said = " ".join(each.what + each.do for each in found)
    assert "replication slot forgotten" in said
    assert "pg_drop_replication_slot('forgotten')" in said
    assert "rollback prepared 'half-done'" in said
    await execute(address, "rollback prepared 'half-done'")


async def test_connections_and_notifications_are_judged_by_how_full_they_are(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "USED_PROBLEM", 0.001)
    monkeypatch.setattr(server, "UNHEARD_WARNING", 0.0)
    found = amiss(await examined(address))
    assert found["connections"].level == "problem"
    assert "SEXTON_POOL_SIZE" in found["connections"].do
    assert found["notifications"].level == "warning"
    assert "0% full" in found["notifications"].what


async def test_durability_that_is_off_for_a_database_is_found(address: Address) -> None:
    await execute(
        address,
        "do $$ begin execute format("
        "'alter database %I set synchronous_commit = off', current_database()); end $$",
    )
    said = [each.what for each in await examined(address) if each.check == "durability"]
    assert any("synchronous_commit is off" in each for each in said)


async def test_days_without_a_bucket_are_a_problem(address: Address) -> None:
    await execute(
        address,
        "do $$ begin execute format('drop table sexton.%I', "
        "'attempt_' || to_char((now() at time zone 'utc')::date + 1, 'YYYYMMDD')); end $$",
    )
    found = amiss(await examined(address))["history"]
    assert (found.level, "attempt of" in found.what) == ("problem", True)


async def test_row_level_security_that_is_off_is_a_problem(address: Address) -> None:
    await execute(address, "alter table sexton.job disable row level security")
    assert "row-level security" in amiss(await examined(address))["tenants"].what


async def test_schedules_that_nobody_fires_are_a_problem(app: Sexton, address: Address) -> None:
    async with app:
        await app.schedules.add("often", "beat", every="1h")
    found = amiss(await examined(address))["cluster"]
    assert (found.level, "no node lives" in found.what) == ("problem", True)


async def test_the_cluster_is_looked_at_while_it_lives(app: Sexton, address: Address) -> None:
    async with app:
        await app.schedules.add("often", "beat", every="1h")
        node = await app.scheduler(name="only")
        running = asyncio.create_task(node.run())
        await node.started.wait()
        while node.health.partitions != 256:
            await asyncio.sleep(0.01)
        findings = await examined(address)
        ok = {each.check: each.what for each in findings if each.level == "ok"}
        assert ok["cluster"].startswith("only leads in term 1 since ")
        assert ok["cluster"].endswith("; 1 node lives")
        assert ok["partitions"] == "every partition has an owner"
        assert "edition" in ok["time zones"]
        assert "only one node" in amiss(findings)["cluster"].what
        node.stop()
        await running


async def test_nodes_that_differ_without_a_leader_and_with_partitions_of_nobody_are_found(
    address: Address,
) -> None:
    await execute(
        address,
        "insert into sexton.node (name, host, pid, version, started_at, renewed_at, lease_until,"
        " lease_for, zones, skew) values"
        " ('one', 'h', 1, '0.0.1', now(), now(), now() + interval '1 h', '1 h', '2001a', -7200),"
        " ('two', 'h', 2, '0.0.1', now(), now(), now() + interval '1 h', '1 h', '2002b', 0),"
        " ('gone', 'h', 3, '0.0.1', now(), now(), now() - interval '1 h', '1 h', null, null)",
        "insert into sexton.ownership select id, 1, 1, array(select generate_series(0, 249))"
        " from sexton.node where name = 'one'",
        "update sexton.leader set node_id = 3, term = 4",
    )
    found = amiss(await examined(address))
    assert found["cluster"].what == "2 nodes live, and none of them leads"
    assert found["partitions"].what == "6 of 256 partitions have no owner"
    assert found["cluster"].level == found["partitions"].level == "problem"
    assert "0.0.1 runs too" in found["versions"].what
    assert found["time zones"].what == "nodes compute with different editions: 2001a, 2002b"
    assert "one (-2 h)" in found["clocks"].what
    assert found["nodes"].what == "silent beyond their lease: gone"


async def test_clocks_that_are_wrong_are_named(address: Address) -> None:
    async with hands(address, name="drifting") as hand:
        await execute(address, "update sexton.worker set skew = 12.5")
        assert hand.worker
        found = amiss(await examined(address))["clocks"]
        assert "drifting (+12.5 s)" in found.what


async def test_a_worker_tells_the_database_how_far_its_clock_is_off(
    database_url: str, address: Address
) -> None:
    app = Sexton(database_url, lease=1, poll=0.5)

    @app.task
    async def nothing() -> None: ...

    connection = await asyncpg.connect(database_url)
    async with app:
        worker = await app.worker()
        running = asyncio.create_task(worker.run())
        while (skew := await connection.fetchval("select max(skew) from sexton.worker")) is None:
            await asyncio.sleep(0.02)
        worker.stop()
        await running
    await connection.close()
    assert abs(skew) < 1.0


async def test_stuck_jobs_and_silent_workers_are_found(address: Address) -> None:
    async with hands(address, lease=30.0) as hand:
        await hand.enqueue("doomed")
        await hand.claim(1)
        await execute(
            address,
            "update sexton.worker set renewed_at = now() - interval '5 min', "
            "lease_until = now() - interval '4 min'",
        )
        found = amiss(await examined(address))
        assert "doomed (1)" in found["stuck"].what
        assert found["stuck"].level == "problem"
        assert "hands" in found["workers"].what


async def test_queues_without_a_worker_and_queues_far_behind_are_found(address: Address) -> None:
    async with hands(address) as hand:
        await hand.enqueue("t", queue="default")
        await hand.enqueue("t", queue="nobodys")
        await execute(
            address,
            "update sexton.job set due_at = now() - interval '10 min' where queue = 'default'",
            "update sexton.job set due_at = now() - interval '2 min' where queue = 'nobodys'",
        )
        found = [each for each in await examined(address) if each.check == "queues"]
    by_level = {each.level: each for each in found}
    assert "no worker serves 'nobodys'" in by_level["problem"].what
    assert "--queue nobodys" in by_level["problem"].do
    assert "oldest job of 'default' has been due for 10 min" in by_level["warning"].what
    assert work.OLD_WARNING < 600 < work.OLD_PROBLEM


async def test_what_to_do_is_a_command_that_a_shell_takes(app: Sexton, address: Address) -> None:
    async with hands(address) as hand:
        for queue in ("two words; rm", "http"):
            await hand.enqueue("t", queue=queue)
    await execute(
        address,
        "update sexton.job set due_at = now() - interval '2 min'",
        "insert into sexton.tenant (name) values ('acme')",
    )
    async with app:
        await app.schedules.add("it's late", "t", every="1h", tenant="acme")
    await execute(address, "update sexton.schedule set state = 'quarantined', reason = 'x'")
    done = " ".join(each.do for each in await examined(address))
    assert "`sexton worker APP --queue 'two words; rm'`" in done
    assert "`sexton worker --queue http`" in done
    assert "--tenant acme`" in done
    [command] = re.findall(r"`(sexton schedule resume [^`]+)`", done)
    assert shlex.split(command)[3:] == ["it's late", "--tenant", "acme"]


async def test_quarantined_and_late_schedules_are_found(app: Sexton, address: Address) -> None:
    async with app:
        for n in range(7):
            await app.schedules.add(f"s{n}", "beat", every="1h")
    await execute(
        address,
        "update sexton.schedule set state = 'quarantined', reason = 'its zone is gone'",
        "update sexton.due set late = true "
        "where schedule_id = (select min(schedule_id) from sexton.due)",
    )
    found = [each for each in await examined(address) if each.check == "schedules"]
    said = [each.what for each in found]
    assert any("'s0' of default is quarantined: its zone is gone" in each for each in said)
    assert any("2 more are quarantined" in each for each in said)
    assert any("1 schedule is late" in each for each in said)


async def test_an_old_schema_is_a_problem_and_the_rest_is_not_looked_at(address: Address) -> None:
    await execute(address, "delete from sexton.migration where version > 3")
    findings = await examined(address)
    assert "run `sexton migrate`" in amiss(findings)["schema"].do
    assert "indexes" not in {each.check for each in findings}


async def test_an_owner_without_privileges_is_told_what_it_may_not_see(
    server: Postgres, database_url: str, cli: Cli
) -> None:
    connection = await asyncpg.connect(database_url)
    name = await connection.fetchval("select current_database()")
    await connection.execute("drop schema sexton cascade")
    await connection.execute(
        "do $$ begin create role plain_owner login; "
        "exception when duplicate_object then null; end $$"
    )
    await connection.execute(f"grant create on database {name} to plain_owner")
    await connection.close()
    from sexton.store.migrations import migrate

    plain = Address(server.url(name).replace("postgres@", "plain_owner@"))
    await migrate(plain, "sexton")
    findings = await examined(plain)
    unknown = amiss(findings, "unknown")
    assert "grant pg_read_all_stats to plain_owner" in unknown["transactions"].do
    of_sessions = [each.level for each in findings if each.check == "transactions"]
    assert of_sessions == ["unknown"], "what it cannot see is not well"
    assert {each.check for each in findings} >= {"indexes", "vacuum", "queues", "schedules"}
    assert not [each for each in findings if "may not look" in each.what]
    said = await asyncio.to_thread(cli, "doctor", SEXTON_DATABASE_URL=plain.url)
    assert said.out.endswith("1 problem, 1 warning, 1 unknown\n"), said.out


def test_the_command_prints_a_table_or_json_and_its_exit_code_says_whether_to_worry(
    cli: Cli,
) -> None:
    said = cli("doctor")
    assert said.code == 1, "the server of the tests runs without fsync"
    assert "fsync is off" in said.out
    assert "1 problem, 0 warnings" in said.out
    answer = cli("doctor", "--json").json
    assert (answer["problems"], answer["warnings"]) == (1, 0)
    assert {"check", "level", "what", "do"} == answer["findings"][0].keys()


def test_without_a_database_the_exit_code_is_that_of_every_command(cli: Cli) -> None:
    said = cli("doctor", "--database-url", "postgresql://nobody@127.0.0.1:1/none")
    assert (said.code, said.out) == (3, "")


@pytest.mark.parametrize("name", [each for each in sql.names() if each.startswith("doctor_")])
def test_looking_changes_nothing(name: str) -> None:
    text = sql.statement(name, "sexton").lower()
    assert not any(f"{word} " in text for word in ("update", "delete from", "insert into", "drop"))
