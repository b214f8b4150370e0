"""Closing what belongs to an event loop, whoever ends that loop and however."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

_PATIENCE = 10.0


async def _lifetime(close: Callable[[], Awaitable[None]]) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await close()


class Lifetimes:
    """What is open, by loop.

    `asyncio.run`, pytest-asyncio and anyio all end a loop with `shutdown_asyncgens`, so an
    asynchronous generator is told in time: a test need not close what the harness opened for it.
    """

    def __init__(self) -> None:
        self._open: dict[asyncio.AbstractEventLoop, list[AsyncGenerator[None, None]]] = {}

    def add(self, close: Callable[[], Awaitable[None]]) -> None:
        """`close` is awaited in the running loop: by `end_here`, `end`, or when the loop ends."""
        life = _lifetime(close)
        try:
            life.asend(None).send(None)  # to its yield; there is nothing to wait for before it
        except StopIteration:
            self._open.setdefault(asyncio.get_running_loop(), []).append(life)

    async def end_here(self) -> None:
        """Close what the running loop has open, the newest first."""
        await _end(self._open.pop(asyncio.get_running_loop(), []))

    def end(self) -> None:
        """Close everything, from outside of any loop."""
        while self._open:
            loop, lives = self._open.popitem()
            if loop.is_closed():
                continue
            if not loop.is_running():
                loop.run_until_complete(_end(lives))
            elif not _runs_here(loop):
                asyncio.run_coroutine_threadsafe(_end(lives), loop).result(_PATIENCE)
            # Otherwise the caller is a coroutine of that loop, and the loop's end does it.


async def _end(lives: list[AsyncGenerator[None, None]]) -> None:
    while lives:
        await lives.pop().aclose()


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
