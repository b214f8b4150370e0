"""Callers with a role of their own, as docs/operations.md says: what they may do, and for whom."""

import asyncio
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from sexton import Sexton
from sexton.cli.database import Database

from ..docs.pages import ROOT, blocks
from ..support.postgres import Postgres

ROLE = "a_caller"


@pytest.fixture
def caller(server: Postgres, database_url: str) -> Iterator[str]:
    """The URL of a role that was made as the page says."""
    [recipe] = [
        block.text
        for block in blocks(ROOT / "docs" / "operations.md", "sql")
        if "create role" in block.text
    ]

    async def execute(statement: str) -> None:
        connection = await asyncpg.connect(database_url)
        await connection.execute(statement)
        await connection.close()

    asyncio.run(execute(recipe.replace("shop", ROLE)))
    parts = urlsplit(database_url)
    host = parts.netloc.rpartition("@")[2]
    yield urlunsplit(parts._replace(netloc=f"{ROLE}@{host}"))
    asyncio.run(execute(f"drop owned by {ROLE}; drop role {ROLE}"))


async def test_a_caller_enqueues_looks_and_changes_schedules_of_its_tenant_alone(
    caller: str, database_url: str
) -> None:
    owner = await asyncpg.connect(database_url)
    other = await owner.fetchval("insert into sexton.tenant (name) values ('acme') returning id")
    theirs = await owner.fetchval(
        "insert into sexton.job (task, queue, tenant_id) values ('t', 'q', $1) returning id", other
    )
    app = Sexton(caller)
    async with app:
        id = (await app.enqueue("t", {"a": 1}, key="k")).id
        assert (await app.enqueue("t", key="k")).duplicate
        assert (await app.job(id)).payload == {"a": 1}
        assert [each.id for each in await app.jobs()] == [id]
        await app.schedules.add("nightly", "t", cron="0 2 * * *")
        assert await app.schedules.trigger("nightly") > id
        assert await app.cancel(id) == {id: True}
        database = Database(app, "default")
        assert [each.name for each in await database.schedules.list()] == ["nightly"]
        assert (await database.schedules.pause("nightly")).state == "paused"
        assert theirs not in {each.id for each in (await database.jobs()).items}
    lines = await owner.fetch("select action from sexton.audit_log")
    assert [each["action"] for each in lines] == ["schedule.pause"]
    await owner.execute(f"alter role {ROLE} reset sexton.tenant")
    async with Sexton(caller) as nobodys:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await nobodys.enqueue("t")
        assert await nobodys.jobs() == [], "without its tenant it sees nothing at all"
    await owner.close()
