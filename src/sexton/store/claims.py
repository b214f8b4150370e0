"""Ready to running: the lanes of a queue, and the places of its limited tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sexton.domain.job import AGEING, Claim
from sexton.store.statements import Statements

BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
# The columns of a claim, in the order of its fields.
_CLAIM = 15

Lane = tuple[int, int]  # a tenant and a priority


@dataclass(frozen=True, slots=True)
class Place:
    """Where the next claim of a tenant's jobs of one limited task begins, in time and by key."""

    task: str
    due_for: float = 0.0  # only what has been due for so long
    since: datetime = BEGINNING
    after_key: str | None = None
    until_key: str | None = None
    tenant: int = 1
    waits: bool = False  # something of it was due


class Claims:
    """Statements about what can be claimed."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements

    async def tenants(self) -> list[int]:
        """All that there are."""
        return [row[0] for row in await self._run.rows("tenants_known")]

    async def claim(
        self,
        queue: str,
        limit: int,
        worker: int,
        priorities: Sequence[int],
        since: Sequence[datetime],
        tenants: Sequence[int] | None = None,
    ) -> list[Claim]:
        """From these lanes, a tenant's together, in the order of turns; None: the first one's."""
        owners = [1] * len(priorities) if tenants is None else tenants
        rows = await self._run.rows(
            "claim", queue, limit, worker, owners, priorities, since, AGEING, self._run.now()
        )
        return [Claim(*row) for row in rows]

    async def claim_limited(
        self, queue: str, limit: int, worker: int, places: Sequence[Place]
    ) -> tuple[list[Claim], list[Place], bool]:
        """Also how far each place came, and whether it is worth looking again soon."""
        rows = await self._run.rows(
            "claim_limited",
            queue,
            limit,
            worker,
            [place.task for place in places],
            [place.tenant for place in places],
            [place.due_for for place in places],
            [place.since for place in places],
            [place.after_key for place in places],
            [place.until_key for place in places],
            AGEING,
            self._run.now(),
        )
        claims = [Claim(*row[:_CLAIM]) for row in rows if row["id"] is not None]
        came_to = [row for row in rows if row["id"] is None]
        reached = [
            Place(
                *(row["task"], 0.0, row["first_at"], row["went_to"], row["goes_to"]),
                *(row["tenant"], row["waits"]),
            )
            for row in came_to
        ]
        return claims, reached, any(row["again"] for row in came_to)

    async def claim_one(self, id: int, worker: int) -> Claim | None:
        """This job, due or not; None if it is not there to be claimed."""
        row = await self._run.row("claim_one", id, worker, self._run.now())
        return None if row is None else Claim(*row)

    async def mark_limited(self, claims: Sequence[Claim]) -> set[int]:
        """Put back, untried, jobs that were enqueued without knowing of their task's limit.

        Returns the ids of those that are; the others must be settled.
        """
        rows = await self._run.rows(
            "mark_limited", [claim.id for claim in claims], [claim.fence for claim in claims]
        )
        return {row["id"] for row in rows}

    async def outlook(
        self,
        queue: str,
        priorities: Sequence[int],
        since: Sequence[datetime],
        tenants: Sequence[int] | None = None,
    ) -> dict[Lane, tuple[datetime, float]]:
        """For each lane that has a job: when the first is due, and in how many seconds."""
        owners = [1] * len(priorities) if tenants is None else tenants
        rows = await self._run.rows("outlook", queue, owners, priorities, since, self._run.now())
        return {(row["tenant_id"], row["priority"]): (row["due_at"], row["due_in"]) for row in rows}

    async def waiting(
        self, queue: str, priorities: Sequence[int], tenants: Sequence[int] | None
    ) -> tuple[dict[Lane, tuple[datetime, float]], float]:
        """The same from the beginning of time, of these tenants or of all that have any; and how
        long the server was at it."""
        rows = await self._run.rows("waiting", queue, priorities, tenants, self._run.now())
        found, seconds = _found_and_cost(rows)
        first = {
            (row["tenant_id"], row["priority"]): (row["due_at"], row["due_in"]) for row in found
        }
        return first, seconds

    async def outlook_limited(
        self, queue: str, tasks: Sequence[str], tenants: Sequence[int]
    ) -> float | None:
        """In how many seconds the next job is due of tasks and tenants that go together."""
        due_in: float | None = await self._run.value(
            "outlook_limited", queue, tasks, tenants, self._run.now()
        )
        return due_in

    async def limited_tasks(
        self, queue: str, tenants: Sequence[int] | None = None
    ) -> tuple[dict[tuple[str, int], tuple[datetime, float]], float]:
        """Whose jobs of which tasks only the limited claim finds, and when the first is due; and
        how long the server was at it."""
        rows = await self._run.rows("limited_tasks", queue, tenants, self._run.now())
        found, seconds = _found_and_cost(rows)
        first = {(row["task"], row["tenant_id"]): (row["due_at"], row["due_in"]) for row in found}
        return first, seconds


def _found_and_cost(rows: Sequence[Any]) -> tuple[list[Any], float]:
    """What was found, and what a row of its own says: how many seconds the server was at it."""
    found = [row for row in rows if row["seconds"] is None]
    return found, sum(row["seconds"] for row in rows if row["seconds"] is not None)
