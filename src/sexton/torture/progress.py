"""How far a run has come: nobody should wonder for a quarter of an hour whether it still works."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import asyncpg

from sexton.cli.output import count
from sexton.store.connection import Address
from sexton.torture.faults.log import FaultLog
from sexton.torture.stand import Stand
from sexton.torture.stand.errors import AWAY
from sexton.torture.stand.server import NAME

# Lines in a run: a few in a short one, and not thousands in one of hours.
_FEW, _MANY, _MINUTE = 5, 60, 60.0
# In a shorter run two lines could name the same minute.
_IN_MINUTES = 10 * _MINUTE
_ANSWER_WITHIN = 5.0
# An operator's server is asked so often, and spoken of when it has been silent for so long; then
# when it is twice as long, and so on.
_ASK_EVERY, _SILENT_FOR = 2.0, 10.0
_JOBS = "select last_value from {}.job_id"


@asynccontextmanager
async def telling(
    say: Callable[[str], None], stand: Stand, log: FaultLog, *, schema: str, seconds: float
) -> AsyncIterator[None]:
    """While this lasts; what goes wrong with it is written down, and is nothing to the run."""
    task = asyncio.create_task(tell(say, stand, log, schema=schema, seconds=seconds))
    try:
        yield
    finally:
        task.cancel()
        [came] = await asyncio.gather(task, return_exceptions=True)
        if isinstance(came, Exception):
            log.note("does not tell how far it is", "rig", error=repr(came))


async def tell(
    say: Callable[[str], None], stand: Stand, log: FaultLog, *, schema: str, seconds: float
) -> None:
    """Now and then until the end, or until it is cancelled."""
    began = time.monotonic()
    for passed in instants(seconds):
        await asyncio.sleep(began + passed - time.monotonic())
        jobs = await _jobs(stand, schema)
        made = "PostgreSQL does not answer" if jobs is None else f"{count(jobs, 'job')} so far"
        say(f"{so_far(passed, seconds)}: {count(log.begun, 'fault')}, {made}")


def instants(seconds: float) -> Sequence[float]:
    """When something is said, in seconds from the beginning."""
    every = max(min(_MINUTE, seconds / _FEW), seconds / _MANY)
    return [nth * every for nth in range(1, round(seconds / every))]


def so_far(passed: float, seconds: float) -> str:
    if seconds < _IN_MINUTES:
        return f"{passed:.0f} of {seconds:.0f} s"
    return f"{passed / _MINUTE:.0f} of {seconds / _MINUTE:.0f} min"


async def _jobs(stand: Stand, schema: str) -> int | None:
    """By their last number: to count them would be work for a server that has enough of it."""
    with suppress(*AWAY):
        async with asyncio.timeout(_ANSWER_WITHIN), stand.connection() as connection:
            return int(await connection.fetchval(_JOBS.format(schema)))
    return None


@asynccontextmanager
async def watching(say: Callable[[str], None], url: str | None) -> AsyncIterator[None]:
    """While this lasts; a server of the run's own is away on purpose, and not spoken of."""
    task = None if url is None else asyncio.create_task(watch(say, url))
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def watch(
    say: Callable[[str], None], url: str, *, every: float = _ASK_EVERY, silent: float = _SILENT_FOR
) -> None:
    """Nobody hurts the operator's server but the operator, who may not know that it is away."""
    heard, speak_at = time.monotonic(), silent
    while True:
        answers = await _answers(url)
        away = time.monotonic() - heard
        if answers and speak_at > silent:
            say(f"your server answers again, after {away:.0f} s")
        if answers:
            heard, speak_at = time.monotonic(), silent
        elif away >= speak_at:
            say(f"your server at {Address(url)} has not answered for {away:.0f} s")
            speak_at *= 2
        await asyncio.sleep(every)


async def _answers(url: str) -> bool:
    with suppress(*AWAY):
        async with asyncio.timeout(_ANSWER_WITHIN):
            named = {"application_name": NAME}
            (await asyncpg.connect(url, server_settings=named)).terminate()
            return True
    return False
