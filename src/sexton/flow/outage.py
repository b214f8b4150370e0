"""Whether PostgreSQL is there, as one worker sees it: said once when it goes and once after."""

import logging
import math
import threading
import time

from sexton.store.connection import say

log = logging.getLogger("sexton.worker")


class Outage:
    """Every flow of a worker reports here, from its own thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: float | None = None
        self._last = -math.inf

    def within(self, seconds: float) -> bool:
        """Whether there was one, however short, in the last so many seconds."""
        return time.monotonic() - self._last < seconds

    @property
    def lasting(self) -> bool:
        return self._since is not None

    def doubt(self) -> None:
        """A claim failed: what the server made of it is not known."""
        self._last = time.monotonic()

    def lost(self, error: BaseException) -> None:
        """A statement found nobody to talk to."""
        with self._lock:
            self._last = time.monotonic()
            if self._since is not None:
                return
            self._since = self._last
        log.warning(
            "PostgreSQL went away (%s); keeping what is finished until it is back", say(error)
        )

    def over(self) -> None:
        """A statement went through."""
        if self._since is None:
            return
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            log.warning("PostgreSQL is back after %.1f s", time.monotonic() - since)
