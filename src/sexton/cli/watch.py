"""Seeing what happens, by looking at the history: nothing on the path of a job knows of it."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sexton.store.history import Counts, Ended, History, Tally

# What was settled is seen at its commit, a moment after the instant it carries.
LAG = 1.0
RATE_OVER = timedelta(seconds=5)
MOST = 500
NOTHING = Tally(0, 0, 0)


@dataclass(slots=True)
class Scoreboard:
    """What there is to show after a look."""

    counts: dict[str, Counts] = field(default_factory=dict)
    totals: dict[str, Tally] = field(default_factory=dict)
    per_second: dict[str, float] = field(default_factory=dict)
    # What ended since the look before, oldest first; `skipped` if there was more than that.
    fresh: list[Ended] = field(default_factory=list)
    skipped: bool = False

    @property
    def queues(self) -> list[str]:
        return sorted(self.counts.keys() | self.totals.keys())

    @property
    def total(self) -> Tally:
        return added(self.totals.values())


class Watch:
    """Looks again and again, and shows every attempt once."""

    def __init__(self, history: History, began: datetime) -> None:
        self._history = history
        self._began = began
        self._tallied_until = began
        self._seen: dict[tuple[int, int, str], datetime] = {}
        self._steps: deque[tuple[datetime, dict[str, Tally]]] = deque()
        self.board = Scoreboard()

    async def look(self, *, last: bool = False) -> Scoreboard:
        """Take in what happened; the last look, when nothing is on its way, leaves nothing out."""
        await self._count(0.0 if last else LAG)
        recent = await self._history.recent(self._tallied_until - timedelta(seconds=LAG), MOST)
        fresh = [each for each in reversed(recent) if self._is_news(each)]
        self.board.fresh = fresh
        self.board.skipped = len(fresh) == MOST
        self._forget()
        self.board.counts = await self._history.counts()
        return self.board

    async def _count(self, lag: float) -> None:
        until, step = await self._history.tally(self._tallied_until, lag)
        self._tallied_until = until
        self._steps.append((until, step))
        while self._steps[0][0] < until - RATE_OVER:
            self._steps.popleft()
        totals = self.board.totals
        for queue, tally in step.items():
            totals[queue] = added((totals.get(queue, NOTHING), tally))
        span = min(RATE_OVER, until - self._began).total_seconds() or 1.0
        self.board.per_second = {
            queue: added(step.get(queue, NOTHING) for _, step in self._steps).succeeded / span
            for queue in totals
        }

    def _is_news(self, each: Ended) -> bool:
        if each.finished_at < self._began:
            return False
        key = (each.job, each.fence, each.outcome)
        if key in self._seen:
            return False
        self._seen[key] = each.finished_at
        return True

    def _forget(self) -> None:
        """What is too old to be read again need not be remembered."""
        oldest = self._tallied_until - timedelta(seconds=LAG)
        self._seen = {key: at for key, at in self._seen.items() if at >= oldest}


def added(tallies: Iterable[Tally]) -> Tally:
    succeeded = failed = dead = 0
    for each in tallies:
        succeeded += each.succeeded
        failed += each.failed
        dead += each.dead
    return Tally(succeeded, failed, dead)
