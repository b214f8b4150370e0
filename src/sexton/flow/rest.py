"""How long a sweep rests: by what it cost the server, not by how long its answer was on the way."""

import time
from collections.abc import Callable

# So many times as long as the server was at it, up to a minute: a walk over what a long transaction
# elsewhere keeps must stay a small part of what the server does.
TIMES = 20.0
LONGEST = 60.0


class Rest:
    """Whether it is time for the next sweep."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = self._until = clock()
        self._in_vain = 0

    @property
    def over(self) -> bool:
        return self._clock() >= self._until

    def after(self, seconds: float, at_least: float = 0.0) -> None:
        """The server was at it for so long."""
        self._in_vain = 0
        self._rest(max(at_least, TIMES * seconds))

    def begin(self) -> None:
        """A sweep has."""
        self._began = self._clock()

    def in_vain(self) -> None:
        """No answer came in all that time: as long again, and then twice as long each time."""
        self._rest((self._clock() - self._began) * 2.0 ** min(self._in_vain, 10))
        self._in_vain += 1

    def end(self) -> None:
        self._until = self._clock()

    def _rest(self, seconds: float) -> None:
        self._until = self._clock() + min(LONGEST, seconds)
