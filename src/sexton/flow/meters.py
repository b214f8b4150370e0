"""What a process counts of itself: plain numbers, written where it happens, read by whoever looks.

No lock and no library: one loop writes, and a reader in another thread may be one count behind.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

OTHER = "other"
HTTP = "http"
# A name that somebody else may choose must not make a series of its own for ever.
MOST_TASKS = 200
# In seconds. A fire and a claim come within milliseconds; a queue may be hours behind.
LAG = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0, 3600.0)
QUICK = 0.001
RUN = (QUICK, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0)


# Of a large batch so many are looked at, evenly spread; they stand for their neighbours.
SAMPLE = 64


class Histogram:
    """How many values were at most each bound, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add_all(self, values: list[float]) -> None:
        """A batch, which is sorted here: most of them fall between the same two bounds."""
        values.sort()
        counts, bounds = self.counts, self.bounds
        done, many = 0, len(values)
        nth = bisect_left(bounds, values[0]) if many else 0
        while done < many:
            end = many if nth == len(bounds) else bisect_right(values, bounds[nth], done)
            counts[nth] += end - done
            done, nth = end, nth + 1
        self.total += sum(values)

    def add_sampled(self, values: Sequence[T], seconds: Callable[[T], float]) -> None:
        """A batch of any size, each of them counted and some of them measured."""
        many = len(values)
        step = -(-many // SAMPLE)
        for first in range(0, many, max(1, step)):
            value = seconds(values[first])
            stands_for = min(step, many - first)
            self.counts[bisect_left(self.bounds, value)] += stands_for
            self.total += value * stands_for

    @property
    def count(self) -> int:
        return sum(self.counts)


class Names:
    """The tasks that are counted by name: the first so many, and those over HTTP as one."""

    def __init__(self, most: int = MOST_TASKS) -> None:
        self._most = most
        self._known: set[str] = set()

    def __getitem__(self, task: str) -> str:
        if task in self._known:
            return task
        if task.startswith("http:"):
            return HTTP
        if len(self._known) >= self._most:
            return OTHER
        self._known.add(task)
        return task


class Tally:
    """How many, by task and by what became of them."""

    def __init__(self) -> None:
        self._names = Names()
        self._counts: dict[tuple[str, str], int] = {}

    def expect(self, tasks: Iterable[str], whats: Iterable[str]) -> None:
        """There at zero from the beginning: whoever waits for a first must see none before it."""
        known = [*whats]
        for task in tasks:
            for what in known:
                self.add(task, what, 0)

    def add(self, task: str, what: str, many: int = 1) -> None:
        key = (self._names[task], what)
        self._counts[key] = self._counts.get(key, 0) + many

    def __iter__(self) -> Iterator[tuple[str, str, int]]:
        for (task, what), many in list(self._counts.items()):
            yield task, what, many


class Histograms:
    """One histogram for each task; the first bound is QUICK."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._names = Names()
        self._by_task: dict[str, Histogram] = {}

    def add(self, task: str, value: float) -> None:
        self._of(task).add(value)

    def add_quick(self, task: str, many: int, total: float) -> None:
        """So many that took no longer than the first bound, and how long together."""
        histogram = self._of(task)
        histogram.counts[0] += many
        histogram.total += total

    def _of(self, task: str) -> Histogram:
        histogram = self._by_task.get(task)
        if histogram is None:
            name = self._names[task]
            histogram = self._by_task.setdefault(name, Histogram(self._bounds))
        return histogram

    def __iter__(self) -> Iterator[tuple[str, Histogram]]:
        return iter(list(self._by_task.items()))


class Streak:
    """Attempts of one task, one right after the other and each over in no time: counted, not timed.

    A worker may run a hundred thousand of these a second: a few additions for each would be felt.
    """

    __slots__ = ("_histograms", "_since", "many", "task")

    def __init__(self, histograms: Histograms) -> None:
        self._histograms = histograms
        self.task: Any = None
        self.many = 0
        self._since = 0.0

    def add(self, task: Any, began: float, ended: float) -> None:
        """The first of a streak, or one that took its time."""
        self.end(began)
        if ended - began <= QUICK:
            self.task, self.many, self._since = task, 1, began
        else:
            self._histograms.add(task.name, ended - began)

    def end(self, now: float) -> None:
        if self.many:
            self._histograms.add_quick(self.task.name, self.many, now - self._since)
        self.task, self.many = None, 0
