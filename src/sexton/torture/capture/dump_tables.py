"""From the database to the run's folder, a JSON object to a line."""

from importlib import resources
from pathlib import Path

import asyncpg

from sexton import sql

AT_ONCE = 5_000


async def dump(connection: asyncpg.Connection, folder: Path, schema: str = "sexton") -> int:
    """Everything that a checker needs, as of one snapshot; returns how many lines that were.

    What the run does not have is left out: transactional effects, if no task writes any.
    """
    target = folder / "dump"
    target.mkdir(parents=True, exist_ok=True)
    lines = 0
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        for file in sorted(
            resources.files(__package__).joinpath("dump").iterdir(), key=lambda each: each.name
        ):
            if not file.name.endswith(".sql"):
                continue
            name = file.name.removesuffix(".sql")
            if name == "effect" and not await connection.fetchval(
                "select to_regclass('torture.effect') is not null"
            ):
                continue
            text = sql.for_schema(file.read_text(encoding="utf-8"), schema)
            lines += await _write(connection, text, target / f"{name}.jsonl")
    return lines


async def _write(connection: asyncpg.Connection, query: str, path: Path) -> int:
    lines = 0
    with path.open("w", encoding="utf-8") as file:
        async for row in connection.cursor(query, prefetch=AT_ONCE):
            file.write(row[0])
            file.write("\n")
            lines += 1
    return lines
