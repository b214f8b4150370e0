"""How far a run has come: nobody should wonder for a quarter of an hour whether it still works."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from sexton.torture.faults.log import FaultLog
from sexton.torture.stand import Stand
from sexton.torture.stand.errors import AWAY

# Lines in a run: a few in a short one, and not thousands in one of hours.
_FEW, _MANY, _MINUTE = 5, 60, 60.0
_ANSWER_WITHIN = 5.0
_JOBS = "select last_value from {}.job_id"


async def tell(
    say: Callable[[str], None], stand: Stand, log: FaultLog, *, schema: str, seconds: float
) -> None:
    """Now and then until the end, or until it is cancelled."""
    began = time.monotonic()
    every = max(min(_MINUTE, seconds / _FEW), seconds / _MANY)
    for nth in range(1, round(seconds / every)):
        await asyncio.sleep(began + nth * every - time.monotonic())
        jobs = await _jobs(stand, schema)
        made = "PostgreSQL is away" if jobs is None else f"{jobs:,} jobs so far"
        say(f"{_of(nth * every, seconds)}: {log.begun} faults, {made}")


def _of(passed: float, seconds: float) -> str:
    if seconds < 2 * _MINUTE:
        return f"{passed:.0f} of {seconds:.0f} s"
    return f"{passed / _MINUTE:.0f} of {seconds / _MINUTE:.0f} min"


async def _jobs(stand: Stand, schema: str) -> int | None:
    """By their last number: to count them would be work for a server that has enough of it."""
    with suppress(*AWAY):
        async with asyncio.timeout(_ANSWER_WITHIN), stand.connection() as connection:
            return int(await connection.fetchval(_JOBS.format(schema)))
    return None
