"""Every statement against the real schema, and the plans of the hot ones."""

import re
from typing import Any

import asyncpg
import pytest

from sexton import sql
from sexton.domain.job import PRIORITIES
from sexton.store.connection import ENGINE_SETTINGS, Address
from sexton.store.jobs import BEGINNING
from sexton.store.migrations import migrate


@pytest.mark.parametrize("name", sql.names())
async def test_every_statement_prepares(name: str, module_database_url: str) -> None:
    connection = await asyncpg.connect(module_database_url)
    try:
        text = sql.statement(name, "sexton")
        prepared = await connection.prepare(text)
        described = {int(n) for line in text.splitlines() if line.startswith("--")
                     for n in re.findall(r"\$(\d+)", line)}  # fmt: skip
        assert described >= set(range(1, len(prepared.get_parameters()) + 1)), (
            "the opening comment names every parameter"
        )
    finally:
        await connection.close()


async def test_a_schema_of_another_name_holds_everything(server: Any, database_url: str) -> None:
    address = Address(database_url)
    await migrate(address, "other_one")
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("drop schema sexton cascade")
        for name in sql.names():
            await connection.prepare(sql.statement(name, "other_one"))
        answer = await connection.fetchrow("select * from other_one.enqueue('x', key => 'k')")
        assert not answer["duplicate"]
    finally:
        await connection.close()


async def plan(connection: asyncpg.Connection, name: str, *args: Any) -> str:
    rows = await connection.fetch("explain " + sql.statement(name, "sexton"), *args)
    return "\n".join(row[0] for row in rows)


async def test_the_hot_statements_go_by_index_even_without_statistics(database_url: str) -> None:
    connection = await asyncpg.connect(database_url, server_settings=ENGINE_SETTINGS)
    try:
        lanes = list(PRIORITIES)
        since = [BEGINNING] * len(lanes)
        first = [1] * len(lanes)
        claim = await plan(connection, "claim", "default", 500, 1, first, lanes, since, 60.0, None)
        assert claim.count("job_claimable") == 4, claim
        assert "Seq Scan on job" not in claim
        one = [1], [1], ["succeeded"], ["succeeded"], [None], [None], [None], [None], None
        settle = await plan(connection, "settle", *one)
        assert "job_pkey" in settle, settle
        assert "job_running" not in settle, settle
        assert "Seq Scan on job" not in settle
        renew = await plan(connection, "renew", 1, None, None)
        assert "cancel_request_worker" in renew
        assert "Index Cond: (id = request.job_id)" in renew, "from the requests, not from the jobs"
        ahead = await plan(connection, "outlook", "default", first, lanes, since, None)
        assert "job_claimable" in ahead
    finally:
        await connection.close()
