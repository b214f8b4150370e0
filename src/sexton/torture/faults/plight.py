"""Who is in what plight, and since when: whether one fault explains what another one shows."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

# What everybody needs, and what cannot be done to one process alone.
_SHARED = ("postgres", "host")


class Plight:
    """By the names of processes, in seconds of the monotonic clock."""

    def __init__(self) -> None:
        self._hurt: dict[str, float] = {}  # until when somebody is killed or stopped
        self._deployed: dict[str, float] = {}  # when a deploy ended somebody last
        self._away: Counter[str] = Counter()  # in how many outages somebody is
        self._troubles: Counter[str] = Counter()  # how many there are of the way to the server
        self._well: dict[str, float] = {}  # and when the last of them was over

    def hurt(self, name: str, for_s: float) -> None:
        until = time.monotonic() + for_s
        self._hurt[name] = max(until, self._hurt.get(name, 0.0))

    def whole(self, name: str) -> None:
        """It runs, whatever was to be done to it for longer."""
        if name in self._hurt:
            self._hurt[name] = min(self._hurt[name], time.monotonic())

    def deployed(self, name: str) -> None:
        self._deployed[name] = time.monotonic()

    def was_hurt(self, name: str, since: float) -> bool:
        """Whether it was killed or stopped at some time since then."""
        return self._hurt.get(name, 0.0) >= since

    def was_hit(self, name: str, since: float) -> bool:
        """The same, or a deploy has ended it."""
        return self.was_hurt(name, since) or self._deployed.get(name, 0.0) >= since

    @contextmanager
    def away(self, names: Iterable[str]) -> Iterator[None]:
        """In an outage: nobody else starts or ends them."""
        names = set(names)
        self._away.update(names)
        try:
            yield
        finally:
            self._away.subtract(names)

    def is_away(self, name: str) -> bool:
        return self._away[name] > 0

    @contextmanager
    def trouble(self, target: str) -> Iterator[None]:
        """Of a way to the server, of the server or of the host."""
        self._troubles[target] += 1
        try:
            yield
        finally:
            self._troubles[target] -= 1
            self._well[target] = time.monotonic()

    def in_trouble(self, name: str) -> bool:
        """Whether it has no way to the server just now, or everybody is in trouble."""
        return any(self._troubles[each] for each in (name, *_SHARED))

    def was_in_trouble(self, name: str, since: float) -> bool:
        over = max(self._well.get(each, 0.0) for each in (name, *_SHARED))
        return self.in_trouble(name) or over >= since
