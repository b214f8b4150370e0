"""How long to wait: for an event with a limit, and before a server that is away is asked again."""

import asyncio
import random

_FIRST, _LONGEST = 0.1, 5.0


class Backoff:
    """Delays for reconnecting: doubling, jittered, never long."""

    def __init__(self, longest: float = _LONGEST) -> None:
        self._longest = longest
        self._failures = 0

    def clear(self) -> None:
        self._failures = 0

    def next(self) -> float:
        ceiling = min(self._longest, _FIRST * float(2 ** min(self._failures, 10)))
        self._failures += 1
        return ceiling * (0.5 + 0.5 * random.random())


async def wait(event: asyncio.Event, timeout: float) -> bool:
    """Whether the event came within the time."""
    try:
        async with asyncio.timeout(timeout):
            await event.wait()
    except TimeoutError:
        return False
    return True
