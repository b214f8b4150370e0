"""A settlement that a task's own transaction carries."""

from collections.abc import Awaitable
from datetime import datetime
from typing import Any

from sexton.errors import LeaseLost, SextonError
from sexton.store.foreign import run, succeed_call
from sexton.targets.arguments import encode
from sexton.targets.job import Job


def result_text(job: Job, result: Any, limit: int) -> str | None:
    """The result as JSON; refuses a second transaction, which could settle nothing any more.

    Whether a transaction that carried it did commit is for the database to know: a task may well
    roll its own back and try again.
    """
    if job.settled:
        raise SextonError(f"job {job.id} is settled already: one transaction can carry it")
    return None if result is None else encode(result, "the result", limit)


def demand(job: Job, accepted: Any) -> None:
    """Raise inside the transaction, so that it does not commit, unless the claim is still ours.

    The answer may come through a stranger's driver: nothing but True will do.
    """
    if accepted is not True:
        why = "is settled already" if job.carried else "was claimed again"
        raise LeaseLost(
            f"job {job.id} {why}: fence {job.fence} is old, this transaction must not commit"
        )


def settle_in(
    job: Job, connection: Any, schema: str, result: str | None, now: datetime | None
) -> Awaitable[None] | None:
    """One more statement of the caller's transaction, of which only the caller sees the commit."""
    row = run(connection, succeed_call(schema, job.id, job.fence, result, now))
    if isinstance(row, tuple):
        demand(job, row[0])
        job.carried = True
        return None
    return _settled(job, row)


async def _settled(job: Job, row: Awaitable[tuple[Any, ...]]) -> None:
    demand(job, (await row)[0])
    job.carried = True
