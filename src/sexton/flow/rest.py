"""How long a sweep rests: by what it cost the server, not by how long its answer was on the way."""

import time
from collections.abc import Callable

# So many times as long as the server was at it, up to a minute: a walk over what a long transaction
# elsewhere keeps must stay a small part of what the server does.
TIMES = 20.0
LONGEST = 60.0
# Where jobs are claimed others may be committed behind them, and should not wait for the next poll:
# as soon as this, if a sweep costs so little that it is next to nothing of what the server does.
SOON = 1.0
SOON_TIMES = 200.0


class Rest:
    """Whether it is time for the next sweep."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = self._soon = self._until = clock()
        self._in_vain = 0

    def over(self, *, claiming: bool) -> bool:
        """Sooner for those who have claimed something lately than for those who have not."""
        return self._clock() >= (self._soon if claiming else self._until)

    def after(self, seconds: float, every: float) -> None:
        """The server was at it for so long; without any hurry there is one in so many seconds."""
        self._in_vain = 0
        self._rest(max(every, TIMES * seconds), max(SOON, SOON_TIMES * seconds))

    def begin(self) -> None:
        """A sweep has."""
        self._began = self._clock()

    def in_vain(self) -> None:
        """No answer came in all that time: as long again, and then twice as long each time."""
        self._rest((self._clock() - self._began) * 2.0 ** min(self._in_vain, 10))
        self._in_vain += 1

    def end(self) -> None:
        self._soon = self._until = self._clock()

    def _rest(self, seconds: float, soon: float = LONGEST) -> None:
        now = self._clock()
        self._until = now + min(LONGEST, seconds)
        self._soon = min(self._until, now + soon)
