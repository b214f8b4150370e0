"""What `sexton doctor` looks at."""

from sexton.store.source import Row
from sexton.store.statements import Statements


class Checks:
    """Statements that only look, and that any role may try; rows as they are."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements

    async def server(self) -> Row:
        [row] = await self._run.rows("doctor_server")
        return row

    async def holders(self) -> list[Row]:
        return await self._run.rows("doctor_holders")

    async def indexes(self) -> dict[str, bool]:
        """Each by name, and whether it is valid."""
        return {row["name"]: row["valid"] for row in await self._run.rows("doctor_indexes")}

    async def tables(self) -> list[Row]:
        return await self._run.rows("doctor_tables")

    async def missing_buckets(self, days_ahead: int) -> list[Row]:
        return await self._run.rows("doctor_buckets", days_ahead, self._run.now())

    async def role(self) -> Row:
        [row] = await self._run.rows("doctor_role")
        return row

    async def workers(self) -> list[Row]:
        return await self._run.rows("doctor_workers", self._run.now())

    async def undeclared(self, jobs_at_most: int, tasks_at_most: int) -> list[Row]:
        return await self._run.rows("doctor_undeclared", jobs_at_most, tasks_at_most)

    async def quarantined(self, at_most: int) -> list[Row]:
        return await self._run.rows("doctor_quarantined", at_most)

    async def scheduled(self) -> bool:
        return bool(await self._run.value("doctor_scheduled"))
