"""Plans that were made while a table was empty, and are still in use when it is full.

A statement is planned once for a connection. Right after a vacuum of an empty table the planner
knows that there is nothing to read, and joins in whatever order it likes: a batch of five hundred
then walks over the whole table for each of them, for as long as the connection lives.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from sexton import sql
from sexton.store.connection import ENGINE_SETTINGS

LARGE = {
    *("job", "dead", "held_key", "due", "schedule", "fire", "attempt", "cancel_request"),
    "replaced",
}
# Each with what it looks through on purpose, and for a limited number of rows or seldom.
HOT: dict[str, set[str]] = {
    "settle": set(),
    "settle_succeeded": set(),
    "claim": set(),
    "claim_one": set(),
    "outlook": set(),
    "renew": set(),
    "cancel": set(),
    "progress": set(),
    "mark_limited": set(),
    "orphans": set(),
    "strays": set(),
    "stuck": set(),
    "locked": set(),
    "long_unknown": set(),
    "fires_of_jobs": set(),
    "schedule_trigger": set(),
    "enqueue_one": set(),
    "job": set(),
    "attempts": set(),
    "redrive": set(),
    "dead_like": set(),
    "prune": {"cancel_request"},
    "let_go": set(),
    "replaced": set(),
    "replaced_to_ask": set(),
    "replaced_cross_out": set(),
    "unlocked": set(),
    "waiting": set(),
    "outlook_limited": set(),
    "limited_tasks": set(),
    "due": set(),
    "due_next": set(),
    "due_of_tenants": set(),
    "late": set(),
    "mark_late": set(),
    "backfill_fire": set(),
    "notify_idle": set(),
    "live_in": {"job"},
    "quotas_count": {"job"},
}


def scans(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "Relation Name" in node and "Scan" in node["Node Type"]:
        yield node
    for child in node.get("Plans", ()):
        yield from scans(child)


def goes_by_key(node: dict[str, Any]) -> bool:
    """To the rows it wants; walking over an index from one end to the other is no such way."""
    return bool(node.keys() & {"Index Cond", "TID Cond"})


async def generic_plan(connection: asyncpg.Connection, name: str) -> dict[str, Any]:
    text = sql.statement(name, "sexton")
    await connection.execute(f"prepare s_{name} as {text}")
    count = max((int(n) for n in re.findall(r"\$(\d+)", text)), default=0)
    nulls = f"({', '.join(['null'] * count)})" if count else ""
    [[plan]] = await connection.fetch(f"explain (format json) execute s_{name}{nulls}")
    root: dict[str, Any] = json.loads(plan)[0]["Plan"]
    return root


@pytest.fixture(scope="module")
def vacuumed(module_database_url: str) -> str:
    async def vacuum() -> None:
        connection = await asyncpg.connect(module_database_url)
        await connection.execute("vacuum (analyze)")
        await connection.close()

    asyncio.run(vacuum())
    return module_database_url


@pytest.mark.parametrize("name", HOT)
async def test_a_statement_planned_after_a_vacuum_of_empty_tables_goes_by_its_keys(
    name: str, vacuumed: str
) -> None:
    connection = await asyncpg.connect(vacuumed, server_settings=ENGINE_SETTINGS)
    try:
        plan = await generic_plan(connection, name)
        astray = [
            (node["Relation Name"], node.get("Index Name"))
            for node in scans(plan)
            if re.sub(r"_\d{8}$", "", node["Relation Name"]) in LARGE - HOT[name]
            and not goes_by_key(node)
        ]
        assert not astray, json.dumps(plan, indent=1)
    finally:
        await connection.close()


@pytest.mark.parametrize("name", ["orphans", "prune"])
async def test_of_workers_that_are_gone_only_those_in_question_are_looked_at(
    name: str, vacuumed: str
) -> None:
    """Who held what an endpoint had accepted is one of them, for as long as history is kept."""
    connection = await asyncpg.connect(vacuumed, server_settings=ENGINE_SETTINGS)
    try:
        plan = await generic_plan(connection, name)
        [gone] = [node for node in scans(plan) if node.get("Index Name") == "worker_gone"]
        assert "gone_at" in gone["Index Cond"]
    finally:
        await connection.close()
