"""Between tenants stands the database: whatever a statement says, it touches nobody else's rows."""

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from sexton import Sexton
from sexton.api.origin import Origin
from sexton.api.principal import Principal
from sexton.api.service import Service
from sexton.errors import ConfigurationError
from sexton.store import Pool

# Nobody's: what these hold is the same for all, and a tenant may not change it.
SHARED = {"rule": {"select", "insert"}, "task": {"select"}, "installation": {"select"}}
# Of the nodes only what the ledger says of them.
COLUMNS = {"node": {"id", "name"}}
NOW = datetime.now(UTC)


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def acting(connection: asyncpg.Connection, tenant: int | None) -> AsyncIterator[None]:
    """As the tenants' role, in a transaction that leaves nothing behind."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute("set local role sexton_tenant")
        if tenant is not None:
            await connection.execute(f"set local sexton.tenant = {tenant}")
        yield
    finally:
        await transaction.rollback()


async def fill(connection: asyncpg.Connection, tenant: int) -> None:
    """A row in every table that holds anything of a tenant."""
    n = tenant * 1000
    at = NOW
    rows: dict[str, dict[str, Any]] = {
        "schedule": {
            "id": n, "tenant_id": tenant, "name": f"s{n}", "since": at, "created_at": at,
            "rule_id": 1, "anchor": at, "task": "t", "said": "{}",
        },
        "schedule_version": await like(connection, "schedule_version", schedule_id=n),
        "due": await like(connection, "due", schedule_id=n, tenant_id=tenant),
        "calendar": {"tenant_id": tenant, "name": "c", "since": at, "definition": "{}"},
        "fire": await like(connection, "fire", schedule_id=n),
        "gap": await like(connection, "gap", schedule_id=n),
        "backfill": await like(connection, "backfill", schedule_id=n),
        "job": await like(connection, "job", id=n, tenant_id=tenant),
        "dead": await like(connection, "dead", job_id=n, tenant_id=tenant),
        "attempt": await like(connection, "attempt", job_id=n, tenant_id=tenant),
        "held_key": await like(connection, "held_key", key="k", tenant_id=tenant),
        "cancel_request": await like(connection, "cancel_request", job_id=n),
        "worker": await like(connection, "worker", tenant_id=tenant),
        "api_key": await like(connection, "api_key", tenant_id=tenant, role="viewer",
                              hash=str(n).encode()),
        "audit_log": await like(connection, "audit_log", tenant_id=tenant),
        "request": await like(connection, "request", tenant_id=tenant, key="k"),
        "endpoint": await like(connection, "endpoint", tenant_id=tenant, name="e"),
    }  # fmt: skip
    for table, row in rows.items():
        await insert(connection, table, row)


async def like(connection: asyncpg.Connection, table: str, **given: Any) -> dict[str, Any]:
    """A row with something in every column that wants it."""
    columns = await connection.fetch(
        "select attname, atttypid::regtype::text as type from pg_attribute "
        "where attrelid = $1::regclass and attnum > 0 and not attisdropped and attnotnull "
        "and not atthasdef and attidentity = '' and attgenerated = ''",
        f"sexton.{table}",
    )
    usual: dict[str, Any] = {
        "text": "x", "timestamp with time zone": NOW, "json": "{}", "bytea": b"x",
        "text[]": ["x"], "boolean": False, "interval": timedelta(1),
    }  # fmt: skip
    words = {"state": "active", "reason": "permanent"}
    row: dict[str, Any] = {}
    for column in columns:
        name, type = column["attname"], column["type"]
        first = f"select (enum_range(null::{type}))[1]::text"
        if type.startswith("sexton."):
            row[name] = await connection.fetchval(first)
        else:
            row[name] = words[name] if name in words else usual.get(type, 1)
    return row | given


async def insert(connection: asyncpg.Connection, table: str, row: dict[str, Any]) -> str:
    names = ", ".join(row)
    places = ", ".join(f"${n}" for n in range(1, len(row) + 1))
    said: str = await connection.execute(
        f"insert into sexton.{table} ({names}) values ({places})", *row.values()
    )
    return said


async def tables(connection: asyncpg.Connection) -> list[str]:
    """Every one that is not a bucket of another; those have no grants at all, which is tested."""
    rows = await connection.fetch(
        "select relname from pg_class where relnamespace = 'sexton'::regnamespace "
        "and relkind in ('r', 'p') and not relispartition order by relname"
    )
    return [row["relname"] for row in rows]


@contextlib.asynccontextmanager
async def two_tenants(url: str) -> AsyncIterator[tuple[asyncpg.Connection, int, int]]:
    async with connected(url) as connection:
        await connection.execute("insert into sexton.rule (definition) values ('{}')")
        ids = [
            await connection.fetchval(
                "insert into sexton.tenant (name) values ($1) returning id", name
            )
            for name in ("acme", "other")
        ]
        for id in ids:
            await fill(connection, id)
        yield connection, ids[0], ids[1]


async def privileges(connection: asyncpg.Connection, table: str) -> set[str]:
    found = await connection.fetchrow(
        "select " + ", ".join(
            f"has_table_privilege('sexton_tenant', $1, '{each}') as {each}"
            for each in ("select", "insert", "update", "delete", "truncate")
        ),
        f"sexton.{table}",
    )  # fmt: skip
    return {name for name, has in found.items() if has}


async def columns(connection: asyncpg.Connection, table: str) -> set[str]:
    """Those that are granted by themselves."""
    rows = await connection.fetch(
        "select attname from pg_attribute where attrelid = $1::regclass and attnum > 0 "
        "and not attisdropped and has_column_privilege('sexton_tenant', attrelid, attnum, "
        "'select, insert, update')",
        f"sexton.{table}",
    )
    return {row["attname"] for row in rows}


async def own(connection: asyncpg.Connection, table: str) -> int:
    return int(await connection.fetchval(f"select count(*) from sexton.{table}"))


async def test_a_tenant_sees_its_rows_and_no_others_in_every_table(database_url: str) -> None:
    async with two_tenants(database_url) as (connection, acme, _):
        for table in await tables(connection):
            may = await privileges(connection, table)
            assert "truncate" not in may
            if table in SHARED:
                assert may == SHARED[table], table
                continue
            if not may:
                assert await columns(connection, table) == COLUMNS.get(table, set()), table
                async with acting(connection, acme):
                    with pytest.raises(asyncpg.InsufficientPrivilegeError):
                        await connection.fetch(f"select * from sexton.{table}")
                continue
            everything = await own(connection, table)
            assert everything >= 2, f"{table} holds nothing to be seen"
            async with acting(connection, acme):
                assert await own(connection, table) == 1, table
            async with acting(connection, 999_999):
                assert await own(connection, table) == 0, table
            async with acting(connection, None):
                assert await own(connection, table) == 0, f"{table} is visible without a tenant"


async def test_a_tenant_changes_and_removes_no_row_of_another(database_url: str) -> None:
    async with two_tenants(database_url) as (connection, acme, other):
        for table in await tables(connection):
            may = await privileges(connection, table)
            if table in SHARED:
                continue
            column = await connection.fetchval(
                "select attname from pg_attribute where attrelid = $1::regclass and attnum > 0 "
                "and not attisdropped and attidentity = '' order by attnum limit 1",
                f"sexton.{table}",
            )
            for tenant, most in ((acme, 1), (None, 0)):
                if "update" in may:
                    async with acting(connection, tenant):
                        done = await connection.execute(
                            f"update sexton.{table} set {column} = {column}"
                        )
                        assert done == f"UPDATE {most}", table
                if "delete" in may:
                    async with acting(connection, tenant):
                        done = await connection.execute(f"delete from sexton.{table}")
                        assert done == f"DELETE {most}", table
        for table in ("audit_log",):
            assert await privileges(connection, table) == {"select", "insert"}, "it only grows"
        assert other


async def test_a_tenant_writes_no_row_for_another(database_url: str) -> None:
    async with two_tenants(database_url) as (connection, acme, other):
        for table in await tables(connection):
            if "insert" not in await privileges(connection, table) or table in SHARED:
                continue
            [row] = await connection.fetch(
                f"select * from sexton.{table} where "
                + (f"tenant_id = {other}" if await has_tenant(connection, table)
                   else f"{await belongs(connection, table)} = {other * 1000}")
            )  # fmt: skip
            generated = await connection.fetch(
                "select attname from pg_attribute where attrelid = $1::regclass "
                "and (attidentity <> '' or attgenerated <> '')",
                f"sexton.{table}",
            )
            skipped = {each["attname"] for each in generated}
            copy = {name: value for name, value in row.items() if name not in skipped}
            for tenant in (acme, None):
                async with acting(connection, tenant):
                    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level"):
                        await insert(connection, table, copy)
            if await has_tenant(connection, table):
                async with acting(connection, acme):
                    with pytest.raises(asyncpg.InsufficientPrivilegeError):
                        await connection.execute(f"update sexton.{table} set tenant_id = {other}")


async def has_tenant(connection: asyncpg.Connection, table: str) -> bool:
    return bool(
        await connection.fetchval(
            "select exists (select from pg_attribute where attrelid = $1::regclass "
            "and attname = 'tenant_id')",
            f"sexton.{table}",
        )
    )


async def belongs(connection: asyncpg.Connection, table: str) -> str:
    return "job_id" if table == "cancel_request" else "schedule_id"


async def test_buckets_are_reached_only_through_their_tables(database_url: str) -> None:
    async with connected(database_url) as connection:
        buckets = await connection.fetch(
            "select relname from pg_class where relnamespace = 'sexton'::regnamespace "
            "and relkind = 'r' and relispartition"
        )
        assert len(buckets) > 10
        for bucket in buckets:
            assert await privileges(connection, bucket["relname"]) == set()


async def test_nothing_of_a_transaction_stays_in_its_connection(app: Sexton) -> None:
    async with app:
        client = await app.client()
        pool = Pool(client.address, 1)
        service = Service(app, pool, client.store)
        who = Principal(7, "acme", "admin", "test")
        for fails in (False, True):
            with contextlib.suppress(ZeroDivisionError):
                async with service.transaction(who, origin=Origin()) as desk:
                    assert await desk.connection.fetchval("select current_user") == "sexton_tenant"
                    assert await desk.connection.fetchval("select sexton.current_tenant()") == 7
                    if fails:
                        raise ZeroDivisionError
            assert await pool.fetch("select current_user, sexton.current_tenant()") == [
                ("postgres", None)
            ]
        async with service.transaction(who, read_only=True) as desk:
            with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
                async with desk.connection.transaction():
                    await desk.connection.execute("delete from sexton.job")
        await pool.close()


async def test_a_database_with_another_isolation_of_its_own_does_not_change_how_limits_are_counted(
    app: Sexton, database_url: str
) -> None:
    """With a snapshot from before the lock, two would each see room for one."""
    async with connected(database_url) as connection:
        database = await connection.fetchval("select current_database()")
        await connection.execute(
            f"alter database {database} set default_transaction_isolation = 'repeatable read'"
        )
    async with app, Service.running(app) as service:
        who = Principal(1, "default", "admin", "test")
        async with service.transaction(who) as desk:
            isolation = await desk.connection.fetchval("show transaction_isolation")
            assert isolation == "read committed"


async def test_without_the_role_the_service_does_not_start(
    server: Any, app: Sexton, database_url: str
) -> None:
    async with connected(database_url) as connection:
        # Another schema, because the role belongs to the whole server and others use this one.
        await app.migrate()
        other = Sexton(database_url, schema="elsewhere")
        await other.migrate()
        await connection.execute("drop owned by elsewhere_tenant; drop role elsewhere_tenant")
        with pytest.raises(ConfigurationError, match="create role elsewhere_tenant") as refused:
            async with Service.running(other):
                pass
        assert "select elsewhere.grant_to_tenants()" in str(refused.value)
        await connection.execute("create role elsewhere_tenant bypassrls")
        with pytest.raises(ConfigurationError, match="nobypassrls"):
            async with Service.running(other):
                pass
        # What somebody made by hand is granted what it needs.
        await connection.execute("alter role elsewhere_tenant nobypassrls")
        async with Service.running(other) as service:
            who = Principal(1, "default", "admin", "test")
            async with service.transaction(who) as desk:
                assert await desk.schedules.list(tenant="default") == []
        await connection.execute("drop owned by elsewhere_tenant; drop role elsewhere_tenant")


async def test_whoever_may_not_assume_the_role_is_told_what_to_run(
    server: Any, database_url: str
) -> None:
    async with connected(database_url) as connection:
        await connection.execute("create role plain login createrole")
        database = await connection.fetchval("select current_database()")
        await connection.execute(f"grant create on database {database} to plain")
        try:
            url = database_url.replace("postgres@", "plain@")
            plain = Sexton(url, schema="plainly")
            await plain.migrate()
            async with Service.running(plain):
                pass
            await connection.execute("revoke plainly_tenant from plain cascade")
            if await connection.fetchval(
                "select not pg_has_role('plain', 'plainly_tenant', 'member')"
            ):
                with pytest.raises(ConfigurationError, match="grant plainly_tenant to"):
                    async with Service.running(plain):
                        pass
        finally:
            await connection.execute("drop owned by plain cascade")
            await connection.execute("drop schema if exists plainly cascade")
            await connection.execute("drop role if exists plainly_tenant")
            await connection.execute("drop role plain")
