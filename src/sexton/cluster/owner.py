"""The event loop of the node, as its membership's thread sees it."""

import asyncio
import time
from collections.abc import Callable


class Owner:
    """Calls back into the loop, and notices when that has stopped turning."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_closed: Callable[[], None]) -> None:
        self._loop = loop
        self._on_closed = on_closed
        self._asked_at: float | None = None

    def tell(self, callback: Callable[..., None], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:  # it is closed
            self._on_closed()

    @property
    def silent_for(self) -> float:
        """How long it has left a question unanswered; there is always one, once this was asked."""
        asked_at = self._asked_at
        if asked_at is None:
            self._asked_at = asked_at = time.monotonic()
            self.tell(self._answer)
        return time.monotonic() - asked_at

    @property
    def answered(self) -> bool:
        return self._asked_at is None

    def _answer(self) -> None:
        self._asked_at = None
