"""Triggers on everything that the engine writes."""

from importlib import resources

import asyncpg

from sexton import sql


async def install(connection: asyncpg.Connection, schema: str = "sexton") -> None:
    """Begin to write down what happens; all or nothing, and never twice."""
    text = resources.files(__package__).joinpath("triggers.sql").read_text(encoding="utf-8")
    async with connection.transaction():
        if await connection.fetchval("select to_regclass('torture.change') is null"):
            await connection.execute(sql.for_schema(text, schema))
