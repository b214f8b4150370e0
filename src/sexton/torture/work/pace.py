"""A process that does one thing after another, so many a second, until it is told to stop."""

import asyncio
import contextlib
import signal
import time

# What was held up by an outage is not made up for all at once.
MOST_BEHIND = 0.5


class Pace:
    """Turns at a rate; SIGTERM ends them after the turn that is under way."""

    def __init__(self, rate: float) -> None:
        if rate <= 0:
            raise ValueError(f"a rate of {rate:g} a second is no rate")
        self._every = 1.0 / rate
        self._next = time.monotonic()
        self._stop = asyncio.Event()

    def obey_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, self._stop.set)

    def stop(self) -> None:
        self._stop.set()

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    async def turn(self) -> bool:
        """Wait for the next one; False: there is none any more."""
        now = time.monotonic()
        self._next = max(self._next, now - MOST_BEHIND) + self._every
        return await self.rest(self._next - now)

    async def rest(self, seconds: float) -> bool:
        """Wait for so long, or until it is over with."""
        if seconds > 0 and not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), seconds)
        return not self._stop.is_set()
