"""Jobs that wait for one that is no more, because nobody saw both: the leader lets them go."""

from sexton.store import Store

# A statement that keeps nobody waiting, and so many of them in a look: while no more than fifty
# thousand wait, all are seen each time; of more, the others in the looks that follow.
AT_ONCE = 10_000
SLICES = 5


class LettingGo:
    """Walks through whoever waits, a slice at a time, and begins anew at the end."""

    def __init__(self, store: Store, at_once: int = AT_ONCE) -> None:
        self._store = store
        self._at_once = at_once
        self._after = 0

    async def run_once(self) -> int:
        """One look; returns how many were freed."""
        freed, began = 0, self._after
        for _ in range(SLICES):
            now_free, last = await self._store.due.let_go(self._after, self._at_once)
            freed += now_free
            self._after = last or 0
            if last is None:
                if began == 0:
                    break  # those were all
                began = 0
        return freed
