"""Whether there was room for one more, by the limits of a task: at each moment."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection

from sexton.torture.check.folder import Change
from sexton.torture.check.holding import Place, places
from sexton.torture.check.invariant import is_claim
from sexton.torture.check.things import Job


class Room:
    """Fed with claims and with their ends."""

    def __init__(self) -> None:
        self._running: Counter[Place] = Counter()
        self._turned: dict[Place, list[int]] = defaultdict(list)  # full, not full, full, …
        self._filled: dict[Place, int] = {}  # when the last claim was that filled it

    def fill(self, job: Job, declared: dict[str, object] | None, change: Change) -> None:
        claims = is_claim(change)
        if not claims and (change.was["by"] is None or (change.now or {}).get("by") is not None):
            return
        for place, _, most in places(job, declared):
            self._running[place] += 1 if claims else -1
            is_full, turned = self._running[place] >= most, self._turned[place]
            if is_full != len(turned) % 2:
                turned.append(max(change.at, *turned[-1:], 0))
            if claims and is_full:
                self._filled[place] = change.at

    def was_there(self, wanted: Collection[Place], at: int) -> bool:
        """Whether none of these was full."""
        return all(bisect_right(self._turned.get(each, ()), at) % 2 == 0 for each in wanted)

    def filled_after(self, place: Place, at: int) -> bool:
        """Whether a claim filled it since then."""
        return self._filled.get(place, at) > at
