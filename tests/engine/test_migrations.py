"""Migrations: numbered, under a lock, all or nothing; several installations in one database."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import NullPool, create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from sexton import Sexton, sql
from sexton.errors import ConfigurationError, SchemaError, Unavailable
from sexton.flow.reap import run_once as reap_once
from sexton.store import Line, Store
from sexton.store import migrations as module
from sexton.store.connection import Address
from sexton.store.migrations import Migration, check, migrate, migrations
from sexton.torture.proxy import Proxies, Trip

from ..support.postgres import Postgres
from .test_worker import ended, working


@pytest.fixture
def empty_url(server: Postgres) -> Iterator[str]:
    """A database without anything of ours."""
    url = server.create_database("empty", template="template0")
    yield url
    server.drop_database("empty")


@pytest.fixture
def empty(empty_url: str) -> Address:
    return Address(empty_url)


@asynccontextmanager
async def connected(address: Address) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(address.url)
    try:
        yield connection
    finally:
        await connection.close()


async def things(connection: asyncpg.Connection) -> set[str]:
    """Everything that is not PostgreSQL's own."""
    rows = await connection.fetch(
        """
        select relnamespace::regnamespace || '.' || relname from pg_class where oid >= 16384
        union all
        select pronamespace::regnamespace || '.' || proname from pg_proc where oid >= 16384
        union all select nspname from pg_namespace where oid >= 16384 and nspname !~ '^pg_'
        """
    )
    return {row[0] for row in rows}


def another(text: str) -> Migration:
    return Migration(migrations()[-1].version + 1, "another", text)


# ── numbers ─────────────────────────────────────────────────────────────────


def test_migrations_are_numbered_from_one_without_a_gap_and_none_is_overlooked() -> None:
    assert [each.version for each in migrations()] == list(range(1, len(migrations()) + 1))
    files = [each.name for each in resources.files(sql).joinpath("migrations").iterdir()]
    assert len([name for name in files if name.endswith(".sql")]) == len(migrations())


async def test_ten_processes_that_migrate_at_once_apply_each_migration_once(
    empty: Address,
) -> None:
    applied = await asyncio.gather(*(migrate(empty, "sexton") for _ in range(10)))
    assert sorted(map(len, applied)) == [0] * 9 + [len(migrations())]
    async with connected(empty) as connection:
        versions = await connection.fetch("select version from sexton.migration order by 1")
    assert [row[0] for row in versions] == [each.version for each in migrations()]


async def test_locks_protect_what_they_should_where_transactions_keep_their_snapshot_by_default(
    empty: Address,
) -> None:
    """With a snapshot from before the lock, one would not see what was done under it."""
    async with connected(empty) as connection:
        await connection.execute(
            "alter database empty set default_transaction_isolation = 'repeatable read'"
        )
    applied = await asyncio.gather(*(migrate(empty, "sexton") for _ in range(5)))
    assert sorted(map(len, applied)) == [0] * 4 + [len(migrations())]

    app = Sexton(empty.url, lease=3)
    running = most = 0

    @app.task(max_running=2)
    async def few() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    async with working(app), working(app), working(app):
        await app.enqueue_many(few.call() for _ in range(60))
        while await app.live_count():
            await asyncio.sleep(0.01)
    assert most == 2


IMPATIENT = 0.05


def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is another migration, and locks are not waited for for long."""
    monkeypatch.setattr(module, "_LOCK_WITHIN", IMPATIENT)
    later = Migration(9999, "later", "alter table sexton.api_key add column later integer")
    monkeypatch.setattr(module, "migrations", lambda: [*migrations(), later])


async def test_a_table_that_somebody_has_locked_is_not_waited_for_for_ever(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever wants to read it would wait behind the migration."""
    address = Address(database_url)
    impatient(monkeypatch)
    async with connected(address) as backup:
        reading = backup.transaction()
        await reading.start()
        await backup.execute("select from sexton.api_key")
        with pytest.raises(SchemaError, match="nothing was changed"):
            await migrate(address, "sexton")
        migrating = asyncio.create_task(migrate(address, "sexton"))
        await reading.rollback()
        assert [each.version for each in await migrating] == [9999]


async def test_who_gives_up_on_a_lock_says_where_and_who_has_it_and_waits_no_longer(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = Address(database_url)
    impatient(monkeypatch)
    slept: list[float] = []
    sleep = asyncio.sleep

    async def sleeps(seconds: float) -> None:
        slept.append(seconds)
        await sleep(seconds)

    async with connected(address) as backup, connected(address) as bystander:
        await backup.execute("set application_name = 'a backup'")
        async with backup.transaction(), bystander.transaction():
            await backup.execute("select from sexton.api_key")
            await bystander.execute("select 1")
            monkeypatch.setattr(asyncio, "sleep", sleeps)
            with pytest.raises(SchemaError) as refused:
                await migrate(address, "sexton")
            monkeypatch.undo()
        said = str(refused.value)
        assert said.startswith("migration 9999_later did not get its locks in schema 'sexton'")
        holder = f"session {backup.get_server_pid()} (postgres, a backup, idle in transaction)"
        assert f": {holder}; end it" in said
        assert isinstance(refused.value.__cause__, asyncpg.LockNotAvailableError)
        assert slept == [IMPATIENT] * 4, "between five tries"


async def test_a_lock_without_a_session_is_that_of_a_prepared_transaction(
    own_server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = await asyncio.to_thread(own_server.create_database, "prepared")
    async with connected(Address(url)) as connection:
        await connection.execute("alter system set max_prepared_transactions = 1")
    await asyncio.to_thread(own_server.stop)
    await asyncio.to_thread(own_server.start)
    address = Address(url)
    impatient(monkeypatch)
    async with connected(address) as connection:
        await connection.execute("begin; lock table sexton.api_key in share mode")
        await connection.execute("prepare transaction 'forgotten'")
        with pytest.raises(SchemaError, match=r"a prepared transaction \(pg_prepared_xacts\)"):
            await migrate(address, "sexton")
        await connection.execute("rollback prepared 'forgotten'")
    assert [each.version for each in await migrate(address, "sexton")] == [9999]


async def test_keys_that_were_rotated_before_it_was_written_down_are_known_from_the_log(
    empty: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [each for each in migrations() if each.version < 10]
    with monkeypatch.context() as then:
        then.setattr(module, "migrations", lambda: before)
        await migrate(empty, "sexton")
    async with connected(empty) as connection:
        await connection.execute(
            """
            insert into sexton.api_key (
                tenant_id, name, role, shown, hash, created_by, created_at, expires_at)
            select 1, 'k', 'viewer', 'sxn', decode(md5(n::text), 'hex'), 'me', now(),
                now() + '1 hour'
            from generate_series(1, 3) as n;
            insert into sexton.audit_log (
                tenant_id, actor, address, request_id, action, subject, before, after)
            values (1, 'me', 'here', 'r', 'key.rotate', 'k (1)', '{"id": 1}', '{"id": 2}')
            """
        )
        await migrate(empty, "sexton")
        rows = await connection.fetch("select id, replaced_by from sexton.api_key order by id")
        assert [(*row,) for row in rows] == [(1, 2), (2, None), (3, None)]


async def test_a_newer_schema_than_the_code_is_refused(database_url: str) -> None:
    app = Sexton(database_url)

    @app.task
    async def t() -> None: ...

    address = Address(database_url)
    async with connected(address) as connection:
        await connection.execute("insert into sexton.migration values (9999, 'from the future')")
        before = await things(connection)
        with pytest.raises(SchemaError, match="version 9999, newer than this code's"):
            await migrate(address, "sexton")
        with pytest.raises(SchemaError, match="upgrade Sexton"):
            await app.worker()
        assert await things(connection) == before
    state = await check(address, "sexton")
    assert not state.current
    with pytest.raises(SchemaError, match="upgrade Sexton"):
        state.demand_current()


async def test_no_schema_and_an_older_schema_say_run_sexton_migrate(
    empty: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SchemaError, match="no Sexton schema 'sexton' here: run `sexton migrate`"):
        (await check(empty, "sexton")).demand_current()
    await migrate(empty, "sexton")
    (await check(empty, "sexton")).demand_current()

    known = migrations()
    monkeypatch.setattr(module, "migrations", lambda: [*known, another("create table sexton.x ()")])
    behind = await check(empty, "sexton")
    wanted = len(known) + 1
    with pytest.raises(SchemaError, match=rf"this code wants {wanted}: run `sexton migrate`"):
        behind.demand_current()
    app = Sexton(empty.url)
    app.task(behind_task)
    with pytest.raises(SchemaError, match="run `sexton migrate`"):
        await app.worker()
    assert [each.name for each in await migrate(empty, "sexton")] == ["another"]
    assert (await check(empty, "sexton")).current


async def behind_task() -> None: ...


def enqueues(app: Sexton, url: str) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Every way in which a job, or a schedule, comes into the database."""
    task = app.task(behind_task)

    async def with_asyncpg() -> Any:
        async with connected(Address(url)) as connection:
            return await task.enqueue(connection=connection)

    async def with_asyncpg_many() -> Any:
        async with connected(Address(url)) as connection:
            return await app.enqueue_many([task.call()], connection=connection)

    async def with_psycopg() -> Any:
        with psycopg.connect(url) as connection:
            return task.enqueue_sync(connection=connection)

    async def with_psycopg_async() -> Any:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            return await task.enqueue(connection=connection)

    async def with_sqlalchemy() -> Any:
        dialect = url.replace("postgresql://", "postgresql+psycopg://")
        engine = create_engine(dialect, poolclass=NullPool)
        with engine.connect() as connection:
            return task.enqueue_sync(connection=connection)

    async def with_sqlalchemy_and_asyncpg() -> Any:
        dialect = url.replace("postgresql://", "postgresql+asyncpg://")
        engine = create_async_engine(dialect, poolclass=NullPool)
        async with engine.connect() as connection:
            return await task.enqueue(connection=connection)

    return {
        "plain": task.enqueue,
        "keyed": lambda: task.enqueue(key="k"),
        "by name": lambda: app.enqueue("elsewhere"),
        "many": lambda: app.enqueue_many([task.call(), task.call().options(key="k")]),
        "without a loop": lambda: asyncio.to_thread(task.enqueue_sync),
        "asyncpg": with_asyncpg,
        "asyncpg, many": with_asyncpg_many,
        "psycopg": with_psycopg,
        "psycopg, async": with_psycopg_async,
        "SQLAlchemy": with_sqlalchemy,
        "SQLAlchemy, asyncpg": with_sqlalchemy_and_asyncpg,
        "schedule": lambda: app.schedules.add("s", "elsewhere", cron="@daily"),
        "sync": app.schedules.sync,
    }


async def test_whoever_enqueues_before_any_migration_is_told_to_migrate(empty: Address) -> None:
    async with Sexton(empty.url) as app:
        for way, enqueue in enqueues(app, empty.url).items():
            with pytest.raises(SchemaError) as told:
                await enqueue()
            assert str(told.value) == "no Sexton schema 'sexton' here: run `sexton migrate`", way
        await asyncio.to_thread(app.close_sync)
    async with connected(empty) as connection:
        assert await things(connection) == set()


async def test_whoever_enqueues_in_a_schema_without_our_functions_is_told_to_migrate(
    empty: Address,
) -> None:
    async with connected(empty) as connection:
        await connection.execute("create schema sexton")
    async with Sexton(empty.url) as app:
        for way, enqueue in enqueues(app, empty.url).items():
            with pytest.raises(SchemaError) as told:
                await enqueue()
            assert "run `sexton migrate`" in str(told.value), way
        await asyncio.to_thread(app.close_sync)


async def test_what_a_trigger_of_the_users_own_misses_is_not_taken_for_ours(empty: Address) -> None:
    await migrate(empty, "sexton")
    async with connected(empty) as connection:
        await connection.execute(
            "create function theirs() returns trigger language plpgsql as "
            "$$ begin perform gone(); return new; end $$; "
            "create trigger theirs before insert on sexton.job execute function theirs()"
        )
    async with Sexton(empty.url) as app:
        for way, enqueue in enqueues(app, empty.url).items():
            if way not in ("schedule", "sync"):
                with pytest.raises(Exception, match=r"function gone\(\) does not exist") as told:
                    await enqueue()
                assert not isinstance(told.value, SchemaError), way
        await asyncio.to_thread(app.close_sync)


def looks(app: Sexton) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Every way in which somebody looks at what is in the database, or operates on it."""
    hour = timedelta(hours=1)
    since = datetime(2026, 1, 1, tzinfo=UTC)
    return {
        "job": lambda: app.job(1),
        "jobs": app.jobs,
        "counts": app.counts,
        "live_count": app.live_count,
        "cancel": lambda: app.cancel(1),
        "dead": app.dead,
        "redrive": lambda: app.redrive(1),
        "purge": lambda: app.purge(1),
        "stuck": app.stuck,
        "workers": app.workers,
        "audit": lambda: app.audit(since, since + hour),
        "explain": lambda: app.explain("s", since),
        "keep_history": lambda: app.keep_history("7d"),
        "catch_up_at": lambda: app.catch_up_at(10),
        "schedules": app.schedules.list,
        "pause": lambda: app.schedules.pause("s"),
    }


async def test_whoever_looks_before_any_migration_is_told_to_migrate(empty: Address) -> None:
    async with Sexton(empty.url) as app:
        for way, look in looks(app).items():
            with pytest.raises(SchemaError) as told:
                await look()
            assert str(told.value) == "no Sexton schema 'sexton' here: run `sexton migrate`", way


async def test_what_is_missing_beside_our_schema_is_said_as_it_is(empty: Address) -> None:
    """A trigger of the user's own is nothing that a migration makes."""
    await migrate(empty, "sexton")
    await execute(
        empty.url,
        """
        create function public.copies() returns trigger language plpgsql as
            $$ begin insert into elsewhere.copy select new.id; return new; end $$;
        create trigger copies after insert on sexton.job
            for each row execute function public.copies()
        """,
    )
    async with Sexton(empty.url) as app:
        task = app.task(behind_task)
        with pytest.raises(asyncpg.UndefinedTableError, match="elsewhere"):
            await task.enqueue()
        with (
            psycopg.connect(empty.url) as connection,
            pytest.raises(psycopg.errors.UndefinedTable, match="elsewhere"),
        ):
            task.enqueue_sync(connection=connection)


async def test_a_migration_that_fails_half_way_leaves_nothing_half_done(
    empty: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = migrations()
    bad = another("create table sexton.half (); select 1 / 0; create table sexton.whole ()")
    monkeypatch.setattr(module, "migrations", lambda: [*known, bad])
    async with connected(empty) as connection:
        nothing = await things(connection)
        with pytest.raises(asyncpg.DivisionByZeroError):
            await migrate(empty, "sexton")
        assert await things(connection) == nothing, "not even the migrations before it"

        monkeypatch.setattr(module, "migrations", lambda: known)
        await migrate(empty, "sexton")
        before = await things(connection)
        monkeypatch.setattr(module, "migrations", lambda: [*known, bad])
        with pytest.raises(asyncpg.DivisionByZeroError):
            await migrate(empty, "sexton")
        assert await things(connection) == before
        assert (await check(empty, "sexton")).found == known[-1].version


# ── names ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "name", ["Sexton", "a b", 'a"; drop schema public; --', "1st", "pg_jobs", "", "é", "x" * 41]
)
def test_a_hostile_schema_name_is_refused_at_the_door(name: str) -> None:
    with pytest.raises(ConfigurationError, match="is not usable"):
        Sexton("postgresql://nobody@/none", schema=name)


@pytest.mark.parametrize("name", ["user", "select", "table", "between"])
async def test_a_reserved_word_is_refused_as_a_schema(empty: Address, name: str) -> None:
    with pytest.raises(SchemaError, match="reserved word"):
        await migrate(empty, name)


@pytest.mark.parametrize(
    "theirs", ["create table theirs.migration (id integer)", "create table theirs.job ()"]
)
async def test_a_schema_with_somebody_elses_tables_is_refused(empty: Address, theirs: str) -> None:
    async with connected(empty) as connection:
        await connection.execute(f"create schema theirs; {theirs}")
        before = await things(connection)
        assert (await check(empty, "theirs")).found == 0
        with pytest.raises(SchemaError, match="not Sexton's"):
            await migrate(empty, "theirs")
        assert await things(connection) == before


# ── rights ──────────────────────────────────────────────────────────────────


@pytest.fixture
def modest(empty_url: str) -> Iterator[Address]:
    """The same database, for a role that may do nothing."""
    asyncio.run(execute(empty_url, "create role modest login"))
    yield Address(empty_url.replace("postgres@", "modest@"))
    asyncio.run(execute(empty_url, "drop owned by modest cascade; drop role modest"))


async def execute(url: str, statements: str) -> None:
    async with connected(Address(url)) as connection:
        await connection.execute(statements)


async def test_a_role_that_may_not_create_is_told_what_to_grant(
    modest: Address, empty: Address
) -> None:
    with pytest.raises(SchemaError, match="grant it CREATE on the database"):
        await migrate(modest, "sexton")
    async with connected(empty) as connection:
        await connection.execute("grant create on database empty to modest")
    assert await migrate(modest, "sexton")


async def test_a_schema_made_for_a_role_is_enough_for_it(modest: Address, empty: Address) -> None:
    async with connected(empty) as connection:
        await connection.execute("create schema prepared authorization modest")
    assert await migrate(modest, "prepared")
    app = Sexton(modest.url, schema="prepared")

    @app.task
    async def t() -> int:
        return 1

    async with working(app):
        assert (await ended(app, (await t.enqueue()).id)).result == 1


async def test_a_role_that_may_not_look_is_told_what_to_grant(
    modest: Address, empty: Address
) -> None:
    await migrate(empty, "sexton")
    with pytest.raises(SchemaError, match="grant it USAGE"):
        await check(modest, "sexton")


# ── side by side ────────────────────────────────────────────────────────────


async def test_nothing_of_another_name_is_left_in_a_renamed_installation(empty: Address) -> None:
    await migrate(empty, "other")
    async with connected(empty) as connection:
        sources = await connection.fetch(
            "select proname, prosrc from pg_proc where pronamespace = 'other'::regnamespace"
        )
        defaults = await connection.fetch(
            "select pg_get_expr(adbin, adrelid) from pg_attrdef join pg_class c on c.oid = adrelid "
            "where c.relnamespace = 'other'::regnamespace"
        )
    assert {row["proname"] for row in sources} >= {"enqueue", "succeed", "claim_limited"}
    for text in [row["prosrc"] for row in sources] + [row[0] for row in defaults]:
        assert not re.search(r"\bsexton\b", text), text
    for name in sql.names():
        text = re.sub(r"(?m)^ *--.*", "", sql.statement(name, "other"))
        assert not re.search(r"\bsexton\b", text), name


async def test_two_installations_in_one_database_do_not_touch_each_other(empty: Address) -> None:
    apps = {name: Sexton(empty.url, schema=name, poll=60, lease=3) for name in ("a", "b")}
    for app in apps.values():
        await app.migrate()
    ran: list[str] = []

    @apps["a"].task(name="t", max_running=1)
    async def in_a(n: int) -> None:
        ran.append("a")

    @apps["b"].task(name="t", max_running=1)
    async def in_b(n: int) -> None:
        ran.append("b")

    a, b = apps.values()
    heard: dict[str, list[str]] = {"a.wake": [], "b.wake": []}
    async with connected(empty) as ears, a, b:
        for channel in heard:
            await ears.add_listener(channel, lambda *said: heard[said[2]].append(said[3]))
        async with working(a) as worker:
            first = await in_a.enqueue(1, key="k")
            theirs = await in_b.enqueue(1, key="k")
            assert not theirs.duplicate, "keys are an installation's own"
            await ears.execute("select b.enqueue('t', '{\"n\": 2}')")
            await ended(a, first.id)
            while worker.health.running:
                await asyncio.sleep(0.01)
            assert (await b.job(theirs.id)).state == "ready"
            assert [each.name for each in await a.workers()] == [worker.name]
            assert await b.workers() == []
            await ears.execute("notify \"b.wake\", 'end'")
            while "end" not in heard["b.wake"]:
                await asyncio.sleep(0.01)
            assert "end" not in heard["a.wake"]
        assert ran == ["a"]
        assert (await a.live_count(), await b.live_count()) == (0, 2)
        async with working(b):
            while await b.live_count():
                await asyncio.sleep(0.01)
        assert ran == ["a", "b", "b"]
        await ears.execute("drop schema a cascade")
        assert (await b.job(theirs.id)).state == "succeeded"


async def test_the_locks_of_one_installation_do_not_hold_up_another(empty: Address) -> None:
    """Migration, buckets and limits are each locked by name; somebody sits on all of a's."""
    await migrate(empty, "a")
    async with connected(empty) as holder, holder.transaction():
        for name in ("a.migrate", "a.make_buckets", "a.max_running:t"):
            await holder.execute("select pg_advisory_xact_lock(hashtextextended($1, 0))", name)
        async with asyncio.timeout(20):
            await migrate(empty, "b")
        app = Sexton(empty.url, schema="b", lease=3)

        @app.task(name="t", max_running=1)
        async def t() -> int:
            return 1

        async with working(app):
            assert (await ended(app, (await t.enqueue()).id)).result == 1
        line = Line(empty)
        try:
            store = Store(line, "b")
            await store.history.make_buckets()
            await reap_once(store)
        finally:
            await line.close()
        waiting = asyncio.create_task(migrate(empty, "a"))
        while not await holder.fetchval(
            "select exists (select from pg_locks where locktype = 'advisory' and not granted)"
        ):
            await asyncio.sleep(0.01)
        assert not waiting.done(), "a's own, on the other hand, do wait"
    assert await waiting == []


@pytest.mark.parametrize("errand", [check, migrate])
async def test_a_connection_that_is_cut_at_any_message_is_a_server_that_is_away(
    server: Postgres, database_url: str, errand: Callable[[Address, str], Awaitable[object]]
) -> None:
    """And nothing else: whoever supervises a process knows that it is to be started again."""
    database = database_url.partition("@/")[2].partition("?")[0]
    cut = 0
    async with Proxies() as proxies:
        port = await proxies.open("one", (str(server.socket.parent), 5432))
        address = Address(f"postgresql://postgres@127.0.0.1:{port}/{database}")
        while True:
            await proxies.arm("one", Trip(cut + 1, "reset"))
            try:
                await errand(address, "sexton")
                break  # there are not so many messages
            except Unavailable:
                cut += 1
    assert cut > 20
    assert (await check(Address(database_url), "sexton")).current
