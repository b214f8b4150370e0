"""The loop around every step, written once: it ends only when told to."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

import asyncpg

from sexton.errors import Unavailable
from sexton.store.connection import is_transient, say
from sexton.store.pause import Backoff, wait

__all__ = ["QUICKLY", "Backoff", "keep_doing", "took_too_long", "wait"]


# What took less may be twice as much the next time, within anybody's patience.
QUICKLY = 1.0


def took_too_long(error: BaseException) -> bool:
    """Less at a time may go through; for one whose server is gone, it does not matter."""
    return isinstance(error.__cause__, TimeoutError) or isinstance(
        error, asyncpg.QueryCanceledError
    )


async def keep_doing(
    name: str,
    step: Callable[[], Awaitable[object]],
    *,
    every: float,
    stop: asyncio.Event,
    log: logging.Logger,
) -> None:
    """Run `step` about every so often until `stop`; what it raises is logged, never fatal."""
    backoff = Backoff()
    while not stop.is_set():
        try:
            await step()
            backoff.clear()
            delay = every * (0.9 + 0.2 * random.random())
        except Exception as error:
            delay = backoff.next()
            if isinstance(error, Unavailable):
                log.debug("%s: %s", name, say(error))
            elif is_transient(error):
                log.info("%s will be tried again: %s", name, say(error))
            else:
                log.exception("%s failed and will be tried again", name)
        await wait(stop, delay)
